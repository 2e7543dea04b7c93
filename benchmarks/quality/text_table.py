"""Recall of the table of token embeddings relative to MiniLM, on photographs without captions.

The test photographs of COCO (the last 1,000 rows of the manifest) are embedded and searched by
their captions: by real vectors of the built-in model, and by a collection of codes of 8 bytes.
Prints one JSON line: recall at 1 and 10 of MiniLM and of the table, and microseconds a query.
"""

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from acqh.collection import Collection, Item
from acqh.encoders import EfficientNetLite0, MiniLM, builtin_model
from acqh.encoders.minilm import QueryTable
from benchmarks._measure import COCO, emit, timed

N_TEST = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, default=COCO)
    photos = parser.parse_args().photos
    with (photos / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[-N_TEST:]
    files, captions = [photos / row["image"] for row in rows], [row["text"] for row in rows]
    model = builtin_model()
    vectors = model.item_vectors(EfficientNetLite0().transform(files))
    to_query = model.arrays["to_query"].astype(np.float32)
    zero = np.zeros(to_query.shape[1])
    table = QueryTable.of(to_query, zero, model.codebooks(8), is_builtin=True)
    minilm_s, features = timed(lambda: MiniLM().transform(captions))
    table_s, queries = timed(lambda: np.stack([table.vector(caption) for caption in captions]))
    figures = {
        "real_minilm": recalls(model.project(features, view="text") @ vectors.T),
        "real_table": recalls(queries @ vectors.T),
        "minilm_us": round(1e6 * minilm_s / len(captions)),
        "table_us": round(1e6 * table_s / len(captions)),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photos.acqh")
        Collection.build([Item(image=f, id=str(n)) for n, f in enumerate(files)], path).close()
        for name, encoder in (("minilm", "default"), ("table", "fast")):
            with Collection.open(path, query_encoder=encoder) as collection:
                rows_of = [
                    [hit.id for hit in collection.search(text=text, mode="semantic", k=10).hits]
                    for text in captions
                ]
            places = [ids.index(str(n)) if str(n) in ids else 10 for n, ids in enumerate(rows_of)]
            figures[f"bytes8_{name}"] = shares(np.array(places))
    emit({"benchmark": "text_table", "n": len(captions), **figures})


def recalls(scores: Any) -> dict[str, float]:
    """Return recall at 1 and 10 of the item in the query's own row."""
    own_scores = np.diag(scores)[:, np.newaxis]
    return shares((scores > own_scores).sum(axis=1))


def shares(places: Any) -> dict[str, float]:
    """Return the shares of places that are the first, and among the first ten."""
    return {f"r{k}": round(float((places < k).mean()), 3) for k in (1, 10)}


if __name__ == "__main__":
    main()
