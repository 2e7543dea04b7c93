"""Learn what other languages need: src/acqh/encoders/languages.npz and words.txt.gz.

Read are the captions of MS COCO in a bare git repository (``train.csv``, ``test.csv``; those of the
images 8,000 to 9,999 are held out), the names of ImageNet's classes in the wheel
``clip-benchmark`` 1.6.2 (``--wheel``), English words by frequency in the wheel ``symspellpy``
6.10.1 (``--words``), names and tags of emoji in the npm package ``emojibase-data`` 17.0.0
(``--emoji``), and the vocabulary of the universal sentence encoder (USE), which comes with the
extra ``languages``. Vectors take five minutes on one core and are kept in the folder
``--cache``. Needs torch, as the tool does that reads the captions.

USE's vectors are mapped to MiniLM's by a ridge regression, learnt from captions and words. To
this the residuals of near English words are added, weighted by a softmax of cosines in USE's
space: a sentence is near to no word, a word in another language to its translation.
"""

import argparse
import gzip
import json
import math
import re
import tarfile
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from learn_image_network import HELD_OUT, TEST, read_captions

from acqh.encoders import MiniLM
from acqh.encoders.languages import TEMPERATURE, use_encoder
from acqh.encoders.minilm import in_bytes, vocabulary

NAMES = "clip_benchmark/datasets/en_classnames.json"
WORDS = "symspellpy/frequency_dictionary_en_82_765.txt"
# Chosen on captions of the images 8,000 to 8,999, and on names of classes and emoji in other
# languages, which are not reported. R@10 of captions: 0.697, by ridge regression alone 0.691. First
# of 1,000 names in seven languages: 0.38 and 0.21. Emoji among ten in five languages: 0.66 and
# 0.60. With 4,200 words: 0.694, 0.39 and 0.64.
N_CAPTIONS, N_WORDS, RIDGE = 12_000, 6_500, 0.1
# Coordinates of words in either space: with all of them, 0.01 more names are found.
N_AXES = 160
# How often a word is in captions to be known from them.
MIN_COUNT, MIN_DICTIONARY = 5, 3
# The most frequent English words, and by how much, as a logarithm, USE's frequency of a word may
# exceed the English one: above, it is a word of another language. By frequency, and by rank.
N_ENGLISH, MAX_ODDS, RANK_SCALE = 30_000, 0.5, 12
# How plurals of words are formed in the languages of emoji that have the Latin script: a pattern,
# which the ending replaces.
VOWEL, NO_VOWEL = "(?<=[aeiou])$", "(?<![aeiou])$"
PLURALS = {
    "de": [("(?<=e)$", "n"), ("(?<!e)$", "e"), ("(?<!e)$", "en"), ("(?<!e)$", "er")],
    "es": [(VOWEL, "s"), (NO_VOWEL, "es")],
    "fr": [("(?<![sxz])$", "s")],
    "it": [("o$", "i"), ("a$", "e"), ("e$", "i")],
    "nl": [(VOWEL, "n"), (NO_VOWEL, "en"), ("$", "s")],
    "pl": [],
    "pt": [(VOWEL, "s"), (NO_VOWEL, "es")],
}
MIN_LETTERS = 3
# Words of emoji that are in no list of English words, and that English has; kinds of image files.
ALSO_ENGLISH = {
    "bmx", "gamepad", "parasailing", "whatsapp", "wtf",
    "avif", "bmp", "dng", "gif", "heic", "heif", "jpeg", "jpg", "mov", "png", "svg", "tif", "webp",
}  # fmt: skip
Floats = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--emoji", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("src/acqh/encoders"))
    arguments = parser.parse_args()
    arguments.cache.mkdir(exist_ok=True)
    held_out = {*HELD_OUT, *TEST}
    captions = [
        text for n, text in sorted(read_captions(arguments.repository)) if n not in held_out
    ]
    with zipfile.ZipFile(arguments.wheel) as wheel:
        names = [name.lower() for name in json.loads(wheel.read(NAMES))["imagenet1k"]]
    with zipfile.ZipFile(arguments.words) as wheel:
        rows = [row.split() for row in wheel.read(WORDS).decode("utf-8-sig").splitlines()]
    counts = {word: int(count) for word, count in rows}
    caption_counts = Counter(
        word for text in captions for word in re.findall("[a-z]+", text.lower())
    )

    familiar, english, other = word_lists(counts, caption_counts, names)
    named = emoji_words(arguments.emoji, {*familiar, *english}, {*counts})
    lists = familiar, english, sorted(named.union(other))
    text = "\n\n".join("\n".join(words) for words in lists)
    packed = gzip.compress(text.encode(), mtime=0)
    (arguments.out / "words.txt.gz").write_bytes(packed)

    common = [
        word for word, n in caption_counts.most_common() if n >= MIN_DICTIONARY and word in counts
    ]
    words = list(dict.fromkeys([*names, *common, *counts]))[:N_WORDS]
    drawn = np.random.default_rng(0).choice(len(captions), N_CAPTIONS, replace=False)
    texts = [*words, *(captions[number] for number in np.sort(drawn))]
    X = embed(use_encoder()._encode, texts, arguments.cache / "use.npy")
    Y = embed(MiniLM(language="en").transform, texts, arguments.cache / "minilm.npy")
    arrays = learn(X, Y, len(words)) | {"letter_odds": letter_odds([*familiar, *english], other)}
    np.savez_compressed(arguments.out / "languages.npz", **arrays)
    sizes = [(arguments.out / name).stat().st_size for name in ("languages.npz", "words.txt.gz")]
    n_listed = dict(zip(("known", "english", "other"), map(len, lists), strict=True))
    print(json.dumps({"words": len(words), **n_listed, "bytes": sizes}))


def word_lists(
    counts: dict[str, int], caption_counts: Counter[str], names: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return English words that MiniLM knows, others, both by frequency, and of other languages."""
    use: dict[str, float] = {}
    tokenizer = use_encoder().sp
    for piece, score in zip(tokenizer._pieces, tokenizer._scores, strict=True):
        if re.fullmatch("▁[a-zA-ZÀ-ɏ]{2,}", piece):
            use[piece[1:].lower()] = np.logaddexp(use.get(piece[1:].lower(), -99.0), score)
    total = sum(counts.values())
    frequencies = {word: math.log(n / total) for word, n in [*counts.items()][:N_ENGLISH]}
    # MiniLM's vocabulary is by frequency, after what is not a word.
    ranks = {word: place for place, word in enumerate(vocabulary()) if word.isalpha()}
    first = ranks["the"]
    ranked = {
        word: -math.log((place - first + 1) * RANK_SCALE)
        for word, place in ranks.items()
        if place >= first and word.isascii() and word in use
    }
    is_english = {
        word
        for words in (frequencies, ranked)
        for word, frequency in words.items()
        if use.get(word, -99.0) - frequency < MAX_ODDS
    }
    n_seen = sum(caption_counts.values())
    captioned = {
        word for word, n in caption_counts.items()
        if n >= MIN_COUNT and use.get(word, -99.0) - math.log(n / n_seen) < 7 * MAX_ODDS
    }  # fmt: skip
    is_english |= captioned | ALSO_ENGLISH
    is_english |= {word for name in names for word in re.findall("[a-z]+", name)}
    # How often a word is in captions counts more: typos are of things in photos.
    weights = {
        word: counts.get(word, 0) / total + 3 * caption_counts[word] / n_seen for word in is_english
    }
    ordered = sorted(is_english, key=lambda word: (-weights[word], word))
    is_known = captioned | {word for word in ranks if len(word) > 1}
    familiar = [word for word in ordered if word in is_known]
    english = [word for word in ordered if word not in is_known]
    return familiar, english, sorted(use.keys() - is_english)


def emoji_words(package: Path, english: set[str], spelt: set[str]) -> set[str]:
    """Return words of names and tags of emoji that are not English, and plurals of them.

    `english`: words of the lists. `spelt`: others that English has too, which are no plurals.
    """
    by_language = {}
    with tarfile.open(package) as archive:
        for language in ("en", *PLURALS):
            member = archive.extractfile(f"package/{language}/data.json")
            texts = [" ".join([row["label"], *row.get("tags", [])]) for row in json.load(member)]
            text = unicodedata.normalize("NFC", " ".join(texts).lower())
            words = set(re.findall(r"[^\W\d_]+", text))
            by_language[language] = {word for word in words if len(word) >= MIN_LETTERS}
    english = english | by_language.pop("en")
    named = set().union(*by_language.values()) - english
    plurals = {
        re.sub(pattern, ending, word, count=1)
        for language, words in by_language.items()
        for word in words - english
        for pattern, ending in PLURALS[language]
        if re.search(pattern, word)
    }
    return named | (plurals - english - spelt)


def letter_odds(english: list[str], other: list[str]) -> Floats:
    """Return log odds of three letters in other languages; (27, 27, 27), 0 is a word's end."""
    tables = []
    for words in (other, english):
        table = np.full((27, 27, 27), 0.5)
        for word in filter(str.isascii, words):
            codes = [0, *(ord(letter) - ord("a") + 1 for letter in word), 0]
            for triple in zip(codes, codes[1:], codes[2:], strict=False):
                table[triple] += 1
        tables.append(np.log(table / table.sum()))
    return np.asarray(np.clip(np.rint(16 * (tables[0] - tables[1])), -127, 127), np.int8)


def embed(encode: Any, texts: list[str], path: Path) -> Floats:
    """Return the vectors of texts, made where they are not kept yet."""
    if not path.exists():
        np.save(path, encode(texts))
    return np.load(path)


def learn(X: Floats, Y: Floats, n_words: int) -> dict[str, Floats]:
    """Return the map from USE's vectors to MiniLM's, and the words that correct it."""
    mean, target = X.mean(axis=0, dtype=np.float64), Y.mean(axis=0, dtype=np.float64)
    gram = (X - mean).T @ (X - mean)
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    weights = np.linalg.solve(gram, (X - mean).T @ (Y - target)).astype(np.float16)
    offset = (target - mean @ weights).astype(np.float32)
    residuals = Y[:n_words] - (X[:n_words] @ weights.astype(np.float32) + offset)
    use_axes, words = reduced(X[:n_words])
    axes, residuals = reduced(residuals)
    use_rows, use_scales = in_bytes(words)
    rows, scales = in_bytes(residuals)
    return {
        "map": weights,
        "offset": offset,
        "use_axes": (use_axes.T * (use_scales / TEMPERATURE)).astype(np.float16),
        "use_rows": use_rows,
        "rows": rows,
        "axes": (axes * scales[:, np.newaxis]).astype(np.float16),
    }


def reduced(rows: Floats) -> tuple[Floats, Floats]:
    """Return the main axes of rows, (N_AXES, n_features), and their coordinates along them."""
    _, axes = np.linalg.eigh(rows.T @ rows)
    axes = axes[:, ::-1][:, :N_AXES].T
    return axes, rows @ axes.T


if __name__ == "__main__":
    main()
