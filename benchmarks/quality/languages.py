"""How well queries in fifteen languages find photographs without captions, and English captions.

Prints a JSON line per language: mean precision at 10 of 14 everyday words on the 1,000 test rows of
``ACQH_COCO``. "before": as MiniLM encodes them. "after": as the extra ``languages`` does.
"auto": with the language detected. Then the share of words and sentences that are detected
correctly, and milliseconds of processor time per query. Then recall at 10 of English captions, and
how many of them are taken for another language. Real-valued vectors, the built-in image-text model.

``--wheel``, the wheel ``emoji`` of the package index: names of emoji in three languages, and the
share that find the emoji of the same English name among ten.
"""

import argparse
import csv
import json
import time
import zipfile
from pathlib import Path

import numpy as np

from acqh.collection.model import CAPTION, phrase
from acqh.encoders import EfficientNetLite0, MiniLM, builtin_model
from acqh.encoders.languages import correct, encode_other, is_english, word_lists
from benchmarks._measure import COCO, emit

# Words of several languages, and typos with the words that were meant; chosen before any was tried.
EVERYDAY = Path(__file__).with_name("everyday_words.txt").read_text(encoding="utf-8")
TYPOS = Path(__file__).with_name("typos.txt").read_text(encoding="utf-8")
# As people type them: without capitals.
WORDS = {
    "en": "car, truck, bench, traffic light, bus, motorcycle, bird, dog, train, airplane, horse, "
    "cat, bicycle, boat",
    "de": "auto, lastwagen, bank, ampel, bus, motorrad, vogel, hund, zug, flugzeug, pferd, katze, "
    "fahrrad, boot",
    "fr": "voiture, camion, banc, feu de circulation, bus, moto, oiseau, chien, train, avion, "
    "cheval, chat, vélo, bateau",
    "es": "coche, camión, banco, semáforo, autobús, motocicleta, pájaro, perro, tren, avión, "
    "caballo, gato, bicicleta, barco",
    "it": "macchina, camion, panchina, semaforo, autobus, motocicletta, uccello, cane, treno, "
    "aereo, cavallo, gatto, bicicletta, barca",
    "pt": "carro, caminhão, banco, semáforo, ônibus, motocicleta, pássaro, cachorro, trem, avião, "
    "cavalo, gato, bicicleta, barco",
    "nl": "auto, vrachtwagen, bank, verkeerslicht, bus, motorfiets, vogel, hond, trein, vliegtuig, "
    "paard, kat, fiets, boot",
    "pl": "samochód, ciężarówka, ławka, sygnalizacja świetlna, autobus, motocykl, ptak, pies, "
    "pociąg, samolot, koń, kot, rower, łódź",
    "tr": "araba, kamyon, bank, trafik ışığı, otobüs, motosiklet, kuş, köpek, tren, uçak, at, "
    "kedi, bisiklet, tekne",
    "ru": "машина, грузовик, скамейка, светофор, автобус, мотоцикл, птица, собака, поезд, самолёт, "
    "лошадь, кошка, велосипед, лодка",
    "ar": "سيارة, شاحنة, مقعد, إشارة مرور, حافلة, دراجة نارية, طائر, كلب, قطار, طائرة, حصان, قطة, "
    "دراجة, قارب",
    "zh": "汽车, 卡车, 长椅, 红绿灯, 公共汽车, 摩托车, 鸟, 狗, 火车, 飞机, 马, 猫, 自行车, 船",
    "ja": "車, トラック, ベンチ, 信号機, バス, オートバイ, 鳥, 犬, 電車, 飛行機, "
    "馬, 猫, 自転車, 船",
    "ko": "자동차, 트럭, 벤치, 신호등, 버스, 오토바이, 새, 개, 기차, 비행기, "
    "말, 고양이, 자전거, 배",
    "th": "รถยนต์, รถบรรทุก, ม้านั่ง, สัญญาณไฟจราจร, รถบัส, รถจักรยานยนต์, นก, สุนัข, รถไฟ, เครื่องบิน, "
    "ม้า, แมว, จักรยาน, เรือ",
}
SENTENCES = {
    "en": ("a dog on the beach", "red car", "two people in the snow", "birthday cake"),
    "de": ("ein Hund am Strand", "rotes Auto", "zwei Leute im Schnee", "Geburtstagskuchen"),
    "fr": ("un chien sur la plage", "voiture rouge", "deux personnes dans la neige", "gâteau"),
    "es": ("un perro en la playa", "coche rojo", "dos personas en la nieve", "pastel"),
    "it": ("un cane sulla spiaggia", "macchina rossa", "due persone nella neve", "torta"),
    "pt": ("um cachorro na praia", "carro vermelho", "duas pessoas na neve", "bolo"),
    "nl": ("een hond op het strand", "rode auto", "twee mensen in de sneeuw", "verjaardagstaart"),
    "pl": ("pies na plaży", "czerwony samochód", "dwie osoby na śniegu", "tort urodzinowy"),
    "tr": ("plajda bir köpek", "kırmızı araba", "karda iki kişi", "doğum günü pastası"),
    "ru": ("собака на пляже", "красная машина", "два человека в снегу", "торт"),
    "ar": ("كلب على الشاطئ", "سيارة حمراء", "شخصان في الثلج", "كعكة"),
    "zh": ("海滩上的狗", "红色汽车", "雪中的两个人", "生日蛋糕"),
    "ja": ("海辺の犬", "赤い車", "雪の中の二人", "誕生日ケーキ"),
    "ko": ("해변의 개", "빨간 자동차", "눈 속의 두 사람", "생일 케이크"),
    "th": ("สุนัขบนชายหาด", "รถสีแดง", "คนสองคนในหิมะ", "เค้กวันเกิด"),
}
# The map was chosen on names in others.
EMOJI = ("de", "es", "fr")
NAMES = "emoji/unicode_codes/emoji{}.json"
K = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--words-only", action="store_true", help="measure only lists of words")
    arguments = parser.parse_args()
    detection()
    if arguments.words_only:
        return
    with (COCO / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[-1_000:]
    model, minilm = builtin_model(), MiniLM(language="en")
    images = EfficientNetLite0().transform(COCO / row["image"] for row in rows)
    items = model.item_vectors(images)
    labels = [row["labels"].split("|") for row in rows]
    names = WORDS["en"].split(", ")
    has = np.array([[name in of_photo for of_photo in labels] for name in names])
    emit({"words": len(names), "chance": round(float(has.mean()), 3)})

    def precision(vectors):
        best = np.argsort(-(model.project(vectors, view="text") @ items.T), axis=1)[:, :K]
        return round(float(np.take_along_axis(has, best, axis=1).mean()), 3)

    for language, listed in WORDS.items():
        words = listed.split(", ")
        before = minilm.transform([phrase(word, CAPTION) for word in words])
        encode_other(words[:1])
        started = time.process_time()
        after = np.concatenate([encode_other([phrase(word, CAPTION)]) for word in words])
        spent = 1e3 * (time.process_time() - started) / len(words)
        english = np.array([is_english(word) for word in words])
        sentences = [is_english(text) == (language == "en") for text in SENTENCES[language]]
        auto = np.where(english[:, np.newaxis], before, after)
        emit(
            {
                "language": language,
                "before": precision(before),
                "after": precision(after),
                "auto": precision(auto),
                "words_detected": round(float(np.mean(english == (language == "en"))), 2),
                "sentences_detected": round(float(np.mean(sentences)), 2),
                "not_detected": [w for w, is_en in zip(words, english, strict=True) if is_en]
                if language != "en" else [],
                "milliseconds": round(spent, 2),
            }
        )  # fmt: skip
    captions = [row["text"] for row in rows]
    for how, texts in {
        "MiniLM": minilm.transform(captions),
        "default": MiniLM().transform(captions),
        "languages": encode_other(captions),
    }.items():
        scores = model.project(texts, view="text") @ items.T
        ranks = (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)
        emit({"captions": how, "recall_at_10": round(float(np.mean(ranks < K)), 3)})
    emit({"captions": len(captions), "not_english": sum(not is_english(text) for text in captions)})
    if arguments.wheel:
        emoji(arguments.wheel, minilm)


def detection():
    """Measure which words are taken for English ones or for typos of these."""
    familiar, english, _ = map(set, word_lists())
    for language, *words in map(str.split, EVERYDAY.replace("\n   ", " ").splitlines()):
        others = [word for word in words if word not in familiar | english]
        emit(
            {
                "everyday_words": language,
                "words": len(words),
                "also_english": len(words) - len(others),
                "taken_for_english": [word for word in others if is_english(word)],
                "corrected": {word: correct(word) for word in words if correct(word)},
            }
        )
    pairs = [line.split() for line in TYPOS.splitlines()]
    emit(
        {
            "typos": len(pairs),
            "not_english": [typo for typo, _ in pairs if not is_english(typo)],
            "not_corrected": [typo for typo, meant in pairs if correct(typo) != meant],
        }
    )


def emoji(path, minilm):
    """Measure how names of emoji in other languages find those with the English name."""
    with zipfile.ZipFile(path) as wheel:
        english = {
            sign: plain(names["en"])
            for sign, names in json.loads(wheel.read(NAMES.format(""))).items()
            if "skin_tone" not in names.get("en", "skin_tone")
        }
        for language in EMOJI:
            listed = json.loads(wheel.read(NAMES.format(f"_{language}")))
            if any(isinstance(value, dict) for value in listed.values()):
                listed = {sign: value[language] for sign, value in listed.items()}
            signs = [sign for sign in listed if sign in english]
            captions = list(dict.fromkeys(english[sign] for sign in signs))
            owners = np.array([captions.index(english[sign]) for sign in signs])
            stored, texts = minilm.transform(captions), [plain(listed[sign]) for sign in signs]
            shares = {}
            for how, vectors in {
                "before": minilm.transform(texts),
                "after": encode_other(texts),
                "auto": MiniLM().transform(texts),
            }.items():
                scores = vectors @ stored.T
                ranks = (scores > scores[np.arange(len(owners)), owners][:, np.newaxis]).sum(axis=1)
                shares[how] = round(float(np.mean(ranks < K)), 3)
            emit({"emoji": language, "names": len(texts), **shares})


def plain(name):
    return name.strip(":").replace("_", " ")


if __name__ == "__main__":
    main()
