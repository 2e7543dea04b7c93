"""Photo search by captions on COCO val2017, as everybody measures it: the 1k and 5k protocols.

    python -m benchmarks.quality.coco --data-dir DIR

needs ``acqh datasets prepare coco-val2017 --from FOLDER --data-dir DIR``. Every caption is a query
for its photograph. Every photograph is a query for its five captions: the best rank counts.
5k: among all 5,000 photographs. 1k: mean over five folds of 1,000. One JSON line per protocol,
direction and size of the codes, by the built-in image-text model, which was never trained on them.
"""

import argparse

import numpy as np

import acqh
from acqh.encoders import MiniLM, builtin_model
from acqh.errors import DatasetNotFoundError
from acqh.quantize import decode, search_codes
from benchmarks._measure import emit

FOLD, N_CAPTIONS = 1_000, 5
CUTOFFS = (1, 5, 10)


def recalls(ranks):
    """Return recall at each cut-off of ranks that count from 0."""
    return {f"recall_at_{k}": float(np.mean(ranks < k)) for k in CUTOFFS}


def caption_ranks(queries, items):
    """Return the rank of each photograph for its five captions; rows of one photograph follow."""
    right = np.repeat(np.arange(len(items)), N_CAPTIONS)
    scores = queries @ items.T
    return (scores > scores[np.arange(len(scores)), right][:, np.newaxis]).sum(axis=1)


def photograph_ranks(queries, captions):
    """Return the best rank of the five captions of each photograph."""
    scores = queries @ captions.T
    by_photograph = scores.reshape(len(queries), len(queries), N_CAPTIONS)
    best = by_photograph[np.arange(len(queries)), np.arange(len(queries))].max(axis=1)
    return (scores > best[:, np.newaxis]).sum(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="folder of coco-val2017.npz")
    try:
        data = acqh.load_dataset("coco-val2017", data_dir=parser.parse_args().data_dir)
    except DatasetNotFoundError as error:
        emit({"benchmark": "coco", "skipped": str(error)})
        return
    columns = [data.items[f"caption_{place + 1}"] for place in range(N_CAPTIONS)]
    texts = MiniLM().transform(text for row in zip(*columns, strict=True) for text in row)
    model, images = builtin_model(), np.asarray(data.views["image"], dtype=np.float32)
    queries, items = model.project(texts, view="text"), model.item_vectors(images)
    sizes = {"real-valued": items}
    for n_bytes in (16, 8):
        codebooks = model.codebooks(n_bytes)
        codes = search_codes(items, codebooks, search="beam", beam_width=16)
        sizes[f"{n_bytes} bytes"] = decode(codes, codebooks)
    back = model.project(images, view="image"), model.item_vectors(texts, view="text")
    folds = {f"{len(items) // FOLD}k": [slice(0, len(items))]}
    folds["1k"] = [slice(start, start + FOLD) for start in range(0, len(items) - FOLD + 1, FOLD)]
    for protocol, parts in folds.items():
        jobs = {
            ("text->image", size): [
                caption_ranks(queries[N_CAPTIONS * part.start : N_CAPTIONS * part.stop], rows[part])
                for part in parts
            ]
            for size, rows in sizes.items()
        }
        jobs["image->text", "real-valued"] = [
            photograph_ranks(
                back[0][part], back[1][N_CAPTIONS * part.start : N_CAPTIONS * part.stop]
            )
            for part in parts
        ]
        for (direction, size), ranks in jobs.items():
            if ranks:
                means = {k: round(v, 3) for k, v in recalls(np.concatenate(ranks)).items()}
                facts = {"benchmark": "coco", "protocol": protocol, "direction": direction}
                emit(facts | {"size": size, "n_photographs": len(items)} | means)


if __name__ == "__main__":
    main()
