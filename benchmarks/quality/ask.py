"""Whether collections find what is asked, compared with chance, exact neighbours and keywords.

Prints JSON lines, one for each way of asking and each way of answering:

- ``emoji``: plain words typed into the emoji page; is the first hit the emoji of that name?
- ``words``: words that stand in tags of photographs; has the first hit the word?
- ``synonyms``: words that stand in no caption of photographs, but mean others that do; has the
  first hit, or one of the first ten, one of those?
- ``photos``: tags and images of held-out photographs as queries, with all labels, with labels on
  5 %, without labels, without labels and tags, and with tags on 100 or on half of them, with
  the built-in image-text model and without it. Jaccard index of labels over the first ten,
  distinct hits, and whether stored photographs are their own first hit and among their first ten,
  by codes alone.
- ``itself``: the same of the whole answer of a collection (``hybrid``, which recognises images that
  are stored) next to that of codes alone (``semantic``), for stored images and for smaller copies,
  and for images that were added later.
- ``start``: processor seconds of ``acqh search`` for one text, from start to end, against those
  of ``python -c "import numpy"``.
- ``coco``: captions as queries for images whose captions are hidden or shown, and images as
  queries for captions; is the right one among the first ten?

Features are kept in ``ACQH_ASK_CACHE``, by default in the user's cache, so that only the first run
encodes images. ``ACQH_PHOTOS`` and ``ACQH_COCO`` name the folders of photographs.
"""

import argparse
import csv
import io
import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from acqh import MultiViewData
from acqh._core.runtime import no_progress
from acqh.cli.demo import cache_folder, emoji_collection
from acqh.collection import BuildSettings, Collection, Item
from acqh.collection.build.learn import learn
from acqh.encoders import EfficientNetLite0, MiniLM, tfidf_vectorizer
from benchmarks._measure import COCO, PHOTOS, emit

CACHE = Path(os.environ.get("ACQH_ASK_CACHE", cache_folder() / "ask"))
# What is typed, and what the name of the emoji begins with.
EMOJI = {
    "horse": "horse",
    "germany": "flag: germany",
    "thumbs up": "thumbs up",
    "pizza": "pizza",
    "dog": "dog",
    "cat": "cat",
    "car": "automobile",
    "rose": "rose",
    "rocket": "rocket",
    "coffee": "hot beverage",
    "umbrella": "umbrella",
    "guitar": "guitar",
    "soccer ball": "soccer ball",
    "snowman": "snowman",
    "birthday cake": "birthday cake",
}
# Words that captions rarely use, and those that mean the same there.
SYNONYMS = {
    "automobile": "car cars",
    "lorry": "truck trucks",
    "locomotive": "train trains",
    "aeroplane": "airplane airplanes plane planes jet",
    "yacht": "boat boats sailboat",
    "feline": "cat cats kitten",
    "canine": "dog dogs puppy",
    "pooch": "dog dogs puppy",
    "stallion": "horse horses",
    "bovine": "cow cows cattle bull",
    "pachyderm": "elephant elephants",
    "infant": "baby",
    "youngster": "child children kid kids boy girl",
    "chap": "man men",
    "maiden": "woman girl lady",
    "lavatory": "toilet bathroom restroom",
    "settee": "couch sofa",
    "armchair": "chair chairs",
    "cooker": "stove oven",
    "cutlery": "fork knife spoon utensils",
    "crockery": "plate plates dishes bowl bowls",
    "timepiece": "clock clocks watch",
    "smartphone": "phone cellphone",
    "spectacles": "glasses",
    "brolly": "umbrella umbrellas",
    "valise": "suitcase suitcases luggage",
    "garments": "clothes clothing shirt dress",
    "blossoms": "flower flowers",
    "seashore": "beach ocean sea",
    "avenue": "street road",
    "meadow": "field grass pasture",
    "skyscraper": "building buildings tower",
    "snowfall": "snow snowy",
    "dessert": "cake pie doughnut doughnuts donut donuts",
}
ENCODERS = {"image": EfficientNetLite0(), "text": MiniLM()}


def say(**figures):
    emit({"benchmark": "ask", **figures})


def read(folder, start, stop):
    """Return rows of a manifest, features of their images and of their texts."""
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[start:stop]
    CACHE.mkdir(parents=True, exist_ok=True)
    features = []
    for view, encoder in ENCODERS.items():
        path = CACHE / f"{folder.name}-{start}-{stop}-{view}.npy"
        if not path.is_file():
            raw = [folder / row["image"] if view == "image" else row["text"] for row in rows]
            np.save(path, encoder.transform(raw).astype(np.float32))
        features.append(np.load(path))
    return rows, *features


def emoji():
    with Collection.open(emoji_collection(cache_folder(), lambda *_: None)) as collection:
        n_items = len(collection)
        say(data="emoji", how="chance", first_hits=round(len(EMOJI) / n_items, 3))
        for mode in ("hybrid", "keyword", "semantic"):
            right = [
                word
                for word, name in EMOJI.items()
                if (hits := collection.search(text=word, k=1, mode=mode).hits)
                and hits[0].text.lower().startswith(name)
            ]
            missed = sorted(set(EMOJI) - set(right))
            say(data="emoji", how=mode, first_hits=len(right), of=len(EMOJI), missed=missed)


def start(repeats=3):
    """Ask the emoji collection once per process."""
    path = emoji_collection(cache_folder(), lambda *_: None)

    def seconds(*arguments):
        times = []
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=120
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    numpy = seconds("-c", "import numpy")
    say(data="start", how="import numpy", cpu_seconds=round(numpy, 2))
    for mode in ("hybrid", "keyword", "semantic"):
        spent = seconds("-m", "acqh", "search", path, "red", "car", "--mode", mode)
        ratio = round(spent / numpy, 1)
        say(data="start", how=mode, cpu_seconds=round(spent, 2), against_numpy=ratio)


def words(n, n_words=100):
    """Ask a collection of tagged photographs for words that stand in few of the tags."""
    rows, _, texts = read(PHOTOS, 0, n)
    captions = [set(row["text"].split()) for row in rows]
    counts = {}
    for caption in captions:
        for word in caption:
            counts[word] = counts.get(word, 0) + 1
    vocabulary = sorted(
        word for word, count in counts.items() if 2 <= count <= 50 and word.isalpha()
    )
    queries = np.random.default_rng(0).choice(
        vocabulary, min(n_words, len(vocabulary)), replace=False
    )
    chance = np.mean([counts[word] / n for word in queries])
    say(data="words", how="chance", first_hit_has_it=round(float(chance), 3))
    vectors = MiniLM().transform(queries)
    best = np.argmax(vectors @ texts.T, axis=1)
    shares = [word in captions[row] for word, row in zip(queries, best, strict=True)]
    say(data="words", how="nearest text", first_hit_has_it=round(float(np.mean(shares)), 3))
    with tempfile.TemporaryDirectory() as folder, built(PHOTOS, rows, folder) as collection:
        for how in ("keyword", "semantic", "hybrid"):
            hits = [collection.search(text=str(word), k=1, mode=how).hits for word in queries]
            shares = [
                bool(answer) and word in captions[int(answer[0].id)]
                for word, answer in zip(queries, hits, strict=True)
            ]
            say(data="words", how=how, first_hit_has_it=round(float(np.mean(shares)), 3))


def synonyms(n):
    """Ask captioned photographs for words that stand in no caption, but mean others that do."""
    rows, _, texts = read(COCO, 10_000 - n, 10_000)
    captions = [set(re.findall(r"[a-z]+", row["text"].lower())) for row in rows]
    spoken = set().union(*captions)
    query_words = {word: set(same.split()) for word, same in SYNONYMS.items()}
    query_words = {w: same for w, same in query_words.items() if w not in spoken and same & spoken}
    right = np.array(
        [[bool(same & caption) for caption in captions] for same in query_words.values()]
    )

    def tell(how, relevant):
        ten = [[right[q, row] for row in rows] for q, rows in enumerate(relevant)]
        first, some = sum(any(caption[:1]) for caption in ten), sum(map(any, ten))
        say(data="synonyms", how=how, first_hit=first, in_ten=some, of=len(query_words))

    chance = right.mean(axis=1)
    first, some = chance.sum(), (1 - (1 - chance) ** 10).sum()
    say(data="synonyms", how="chance", first_hit=round(first, 1), in_ten=round(some, 1))
    vectors = MiniLM().transform(list(query_words))
    tell("nearest text", np.argsort(-vectors @ texts.T, axis=1, kind="stable")[:, :10])
    with tempfile.TemporaryDirectory() as folder, built(COCO, rows, folder) as collection:
        for how in ("keyword", "semantic", "hybrid"):
            hits = [collection.search(text=word, k=10, mode=how).hits for word in query_words]
            tell(how, [[int(hit.id) for hit in caption] for caption in hits])


def built(folder, rows, out):
    """Return a collection of images and texts, as a person would build it."""
    items = [
        Item(image=folder / row["image"], text=row["text"], id=str(at))
        for at, row in enumerate(rows)
    ]
    return Collection.build(items, Path(out) / "c.acqh")


def learnt(views, labels, encoders=ENCODERS, **settings):
    """Learn as `Collection.build` does, and return a model and the codes of the items."""
    targets = {"labels": labels} if any(labels) else {}
    data = MultiViewData(views.views, present=views.present, **targets)
    model, trained_on, _ = learn(data, encoders, BuildSettings(**settings), no_progress)
    names = set(model.label_names_)
    sets = [set(row) & names for row in labels] if names else None
    return model, model.decode(model.encode(views, labels=sets)), trained_on


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def likeness(labels):
    """Return the Jaccard index of all pairs of label sets."""
    names = sorted(set().union(*labels))
    table = np.array(
        [[name in item_labels for name in names] for item_labels in labels], dtype=np.float32
    )
    shared, sizes = table @ table.T, table.sum(axis=1)
    return shared / np.maximum(sizes[:, np.newaxis] + sizes - shared, 1)


def top(scores, relevance):
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    precision = np.take_along_axis(relevance, best, axis=1).mean()
    return {"jaccard": round(float(precision), 3), "distinct": len(np.unique(best))}


def own_ranks(scores):
    """Say how often the right one is first, and among the first ten."""
    ranks = (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)
    return {
        "own_first": round(float(np.mean(ranks == 0)), 3),
        "own_in_ten": round(float(np.mean(ranks < 10)), 3),
    }


def photos(n, n_captioned=100):
    rows, images, texts = read(PHOTOS, 0, n)
    labels = [set(filter(None, row["labels"].split("|"))) for row in rows]
    is_query = np.arange(n) % 10 == 9
    relevance = likeness(labels)[is_query][:, ~is_query]
    stored = {"image": images[~is_query], "text": texts[~is_query]}
    queries = {"image": images[is_query], "text": texts[is_query]}
    rng = np.random.default_rng(0)
    say(data="photos", how="chance", **top(rng.random(relevance.shape), relevance))
    for view, rows_of in queries.items():
        plain = top(unit(rows_of) @ unit(stored[view]).T, relevance)
        say(data="photos", how="nearest neighbours", query=view, **plain)
    vectorizer = tfidf_vectorizer().fit([rows[at]["text"] for at in np.flatnonzero(~is_query)])
    looked_up = [
        vectorizer.transform([rows[at]["text"] for at in np.flatnonzero(part)])
        for part in (is_query, ~is_query)
    ]
    scores = (looked_up[0] @ looked_up[1].T).toarray()
    say(data="photos", how="word look-up", query="text", **top(scores, relevance))
    mine = [labels[at] for at in np.flatnonzero(~is_query)]
    few = [names if at % 20 == 0 else set() for at, names in enumerate(mine)]
    none = [set() for _ in mine]
    tagless = np.zeros(len(mine), dtype=bool)
    ways = {
        "all labels": (mine, {}),
        "labels on 5 %": (few, {}),
        "no labels": (none, {}),
        "no tags": (none, {"text": tagless}),
    }
    places = np.arange(len(mine))
    for name, some in ((f"{n_captioned}", places < n_captioned), ("half", places % 2 == 0)):
        ways[f"tags on {name}"] = none, {"text": some}
        ways[f"tags on {name} alone"] = none, {"text": some}
    for way, (query_views, present) in ways.items():
        data = MultiViewData(stored, present=present)
        encoders = {} if way.endswith("alone") else ENCODERS
        sets = [tuple(sorted(names)) for names in query_views]
        model, vectors, trained_on = learnt(data, sets, encoders)
        for view, rows_of in queries.items():
            precision = top(model.project(rows_of, view=view) @ vectors.T, relevance)
            itself = own_ranks(model.project(stored[view], view=view) @ vectors.T)
            say(data="photos", how=way, query=view, **precision, **itself, trained_on=trained_on)


def itself(n, n_later=50):
    """Ask a collection for the images it was built from, and for smaller copies of them."""
    with (PHOTOS / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[:n]
    items = [
        Item(
            image=PHOTOS / row["image"],
            text=row["text"],
            labels=[name for name in row["labels"].split("|") if name],
            id=str(at),
        )
        for at, row in enumerate(rows)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.build(items[n_later:], folder + "/c.acqh") as collection,
    ):
        collection.add([replace(item, labels=(), text="") for item in items[:n_later]])
        say(data="itself", how="chance", own_first=round(1 / n, 4), own_in_ten=round(10 / n, 4))
        stored, later = items[n_later:], items[:n_later]
        for change_name, queries, change in (
            ("the same", stored, lambda path: path),
            ("smaller, JPEG 75", stored, smaller),
            ("the same, added later without labels and tags", later, lambda path: path),
        ):
            for mode, how in (("hybrid", "hybrid"), ("semantic", "semantic, codes alone")):
                hits = [collection.search(image=change(i.image), k=10, mode=mode) for i in queries]
                ids = [[hit.id for hit in answer.hits] for answer in hits]
                first = np.mean(
                    [answer_of[0] == i.id for answer_of, i in zip(ids, queries, strict=True)]
                )
                some = np.mean(
                    [i.id in answer_of for answer_of, i in zip(ids, queries, strict=True)]
                )
                figures = {"own_first": round(float(first), 3), "own_in_ten": round(float(some), 3)}
                say(data="itself", query=change_name, how=how, **figures)


def smaller(path):
    """Return an image at 60 % of its size as JPEG."""
    with Image.open(path) as image:
        copy = image.convert("RGB").resize((image.width * 3 // 5, image.height * 3 // 5))
    file = io.BytesIO()
    copy.save(file, "JPEG", quality=75)
    return file.getvalue()


def coco(n, n_captioned=100):
    """Find 1,000 test images by their captions, and the other way round."""
    _, images, texts = read(COCO, 10_000 - n, 10_000)
    say(data="coco", how="chance", own_in_ten=round(10 / n, 3))
    shown = {"hidden": np.zeros(n, dtype=bool), "shown": np.ones(n, dtype=bool)}
    none = [() for _ in range(n)]
    for how, present in shown.items():
        data = MultiViewData({"image": images, "text": texts}, present={"text": present})
        for n_bytes in (8, 16):
            model, vectors, _ = learnt(data, none, n_codebooks=n_bytes)
            ranks = own_ranks(model.project(texts, view="text") @ vectors.T)
            say(data="coco", how=f"captions {how}", query="text", bytes=n_bytes, **ranks)
            if how == "hidden":
                vectors = model.decode(model.encode({"text": texts}))
                ranks = own_ranks(model.project(images, view="image") @ vectors.T)
                say(data="coco", how="captions stored", query="image", bytes=n_bytes, **ranks)
    some = np.arange(n) < n_captioned
    for how, present, settings in (
        ("the built-in image-text model", shown["hidden"], {}),
        (f"and {n_captioned} captions", some, {}),
        (f"{n_captioned} captions alone", some, {"encoders": {}}),
    ):
        data = MultiViewData({"image": images, "text": texts}, present={"text": present})
        model, vectors, trained_on = learnt(data, none, **settings)
        scores = model.project(texts[~some], view="text") @ vectors[~some].T
        say(data="coco", how=how, query="text", bytes=8, **own_ranks(scores), trained_on=trained_on)


PARTS = {
    "start": lambda _: start(),
    "emoji": lambda _: emoji(),
    "words": lambda arguments: words(arguments.photos),
    "synonyms": lambda arguments: synonyms(arguments.coco),
    "photos": lambda arguments: photos(arguments.photos),
    "itself": lambda _: itself(500),
    "coco": lambda arguments: coco(arguments.coco),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*PARTS])
    parser.add_argument("--photos", type=int, default=3_000, help="how many photographs")
    parser.add_argument("--coco", type=int, default=1_000, help="how many of the last rows")
    arguments = parser.parse_args()
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            part(arguments)


if __name__ == "__main__":
    main()
