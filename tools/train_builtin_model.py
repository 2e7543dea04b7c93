"""Train the built-in image-text model (encoders/builtin/builtin.npz) from what a training left.

    python tools/learn_image_network.py pack ...   # photographs and captions, on any machine
    python tools/learn_image_network.py train ...  # the image network, on a GPU
    python tools/train_builtin_model.py FOLDER     # this
    python tools/train_class_evidence.py ...       # what the network knows of classes

FOLDER has ``network.npz`` (weights, the head, and the space of captions it was trained towards)
and ``features.npz`` (features of the training photographs, on the axes that matter). The map from
images to captions is the head: a ridge regression on features of a network trained on the captions
overfits. R@10 of 1,000 held-out photographs is 0.716 with a ridge of 0.1, 0.729 with 1, 0.737 by
the head, and 0.743 without its bias. It is kept as the sums of a regression that
gives it back, so that pairs of one's own can be added. Codebooks take some minutes on two cores;
needs torch.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

N_AXES, N_COMPONENTS = 512, 128
RIDGE = 0.01
SIZES = (8, 16)
N_SWEEPS, BEAM_WIDTH = 6, 4
# Without class evidence; tools/train_class_evidence.py adds it, and writes the version shipped.
VERSION = 3
Floats = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/acqh/encoders"))
    arguments = parser.parse_args()
    network = dict(np.load(arguments.folder / "network.npz"))
    features = np.load(arguments.folder / "features.npz")
    head = network.pop("head").astype(np.float64)
    del network["bias"]  # the mean of captions does better on held-out photographs
    text_mean, text_axes = network.pop("text_mean"), network.pop("text_axes")
    np.savez_compressed(arguments.out / "efficientnet.npz", **network)

    rows = features["rows"].astype(np.float32) * features["step"]
    texts = unit(features["texts"].astype(np.float32) - text_mean) @ text_axes
    basis, mean = features["basis"].astype(np.float64), features["mean"]
    axes, variance = chosen_axes(rows, basis.T @ head)
    mapped = rows @ axes
    weights = axes.T @ basis.T @ head * (np.abs(text_axes).sum(axis=0) > 0)
    # Contrast leaves the length of predictions open; here it is that of what captions show of it.
    average = texts.mean(axis=0)
    predicted = mapped @ weights
    weights *= np.sum(predicted * (texts - average)) / np.sum(predicted**2)
    predicted = mapped @ weights + average
    level = RIDGE * variance.mean()
    arrays = {
        "image_mean": mean,
        "image_axes": basis @ axes,
        "text_mean": text_mean,
        "text_axes": text_axes,
        "image_variance": variance,
        "cross": (variance + level)[:, np.newaxis] * weights,
        "text_average": average,
        "text_variance": np.mean(np.square(texts), axis=0),
    }
    items = unit(predicted)
    arrays |= components(items, unit(texts))
    vectors = torch.from_numpy((items @ arrays["to_item"]).astype(np.float32))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for size, trained in zip(SIZES, pool.map(partial(codebooks, vectors), SIZES), strict=True):
            arrays[f"codebooks_{size}"] = trained
    packed = {name: array.astype(np.float16) for name, array in arrays.items()}
    for name in ("image_mean", "image_variance", "text_mean", "text_average", "text_variance"):
        packed[name] = arrays[name].astype(np.float32)
    packed["version"] = np.array(VERSION)
    packed["facts"] = np.array([RIDGE, len(rows)])
    path = arguments.out / "builtin" / "builtin.npz"
    np.savez_compressed(path, **packed)
    print(json.dumps({"pairs": len(rows), "bytes": path.stat().st_size}))


def chosen_axes(rows: Floats, head: Floats) -> tuple[Floats, Floats]:
    """Return principal axes of a part of the space that has all of the head, and the variances."""
    needed = np.linalg.qr(head)[0]
    moments = (rows.T @ rows / len(rows)).astype(np.float64)
    rest = np.eye(len(moments)) - needed @ needed.T
    more = leading(rest @ moments @ rest, N_AXES - needed.shape[1])[1]
    part = np.linalg.qr(np.hstack([needed, more]))[0]
    variance, rotation = leading(part.T @ moments @ part, N_AXES)
    return part @ rotation, variance


def components(items: Floats, queries: Floats) -> dict[str, Floats]:
    """Return the rotations of items and queries onto the components that scores need.

    Items are weighed by the fourth root of the second moment of queries: half way between the plain
    metric and that of the queries.
    """
    moments, axes = leading(queries.T @ queries / len(queries), queries.shape[1])
    root = np.maximum(moments, 1e-9) ** 0.25
    weigh, undo = (axes * root) @ axes.T, (axes / root) @ axes.T
    _, rotation = leading(weigh @ (items.T @ items / len(items)) @ weigh, N_COMPONENTS)
    return {"to_item": weigh @ rotation, "to_query": undo @ rotation}


def leading(moments: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the n largest eigenvalues, descending, and their vectors in columns."""
    values, vectors = np.linalg.eigh(moments.astype(np.float64))
    return values[::-1][:n], vectors[:, ::-1][:, :n]


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def codebooks(vectors: torch.Tensor, size: int) -> Floats:
    """Learn by k-means of what is left over, then by searching codes and least squares in turn."""
    draw = torch.Generator().manual_seed(0)
    rows = vectors[torch.randperm(len(vectors), generator=draw)]
    left, grown = rows.clone(), []
    for _ in range(size):
        grown.append(kmeans(left[:16_384], draw))
        left = left - grown[-1][nearest(left, grown[-1])]
    books = torch.stack(grown)
    for _ in range(N_SWEEPS):
        books = least_squares(rows, search(rows, books), books)
    return np.asarray(books.numpy())


def nearest(rows: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return (rows @ words.T - 0.5 * (words * words).sum(1)).argmax(1)


def kmeans(rows: torch.Tensor, draw: torch.Generator, n_words: int = 256) -> torch.Tensor:
    words = rows[torch.randperm(len(rows), generator=draw)[:n_words]].clone()
    for _ in range(8):
        labels = nearest(rows, words)
        counts = torch.bincount(labels, minlength=n_words)
        sums = torch.zeros_like(words).index_add_(0, labels, rows)
        used = counts > 0
        words[used] = sums[used] / counts[used, None]
        n_unused = int((~used).sum())
        words[~used] = rows[torch.randperm(len(rows), generator=draw)[:n_unused]]
    return words


def search(rows: torch.Tensor, books: torch.Tensor) -> torch.Tensor:
    """Return codes by beams, (n_rows, n_codebooks)."""
    words, n = books.flatten(0, 1), books.shape[1]
    products, code_parts = words @ words.T, []
    for part in rows.split(2_048):
        scores = part @ words.T
        codes, cost = torch.zeros(len(part), 1, 0, dtype=torch.long), torch.zeros(len(part), 1)
        for s in range(len(books)):
            block = slice(s * n, (s + 1) * n)
            total = (
                cost[:, :, None] + (0.5 * products.diagonal()[block] - scores[:, block])[:, None]
            )
            for p in range(s):
                total = total + products[p * n : (p + 1) * n, block][codes[:, :, p]]
            cost, best = total.flatten(1).topk(BEAM_WIDTH, largest=False)
            before = codes.gather(1, (best // n)[:, :, None].expand(-1, -1, s))
            codes = torch.cat([before, (best % n)[:, :, None]], 2)
        code_parts.append(codes[:, 0])
    return torch.cat(code_parts)


def least_squares(
    rows: torch.Tensor, codes: torch.Tensor, books: torch.Tensor, hold: float = 3.0
) -> torch.Tensor:
    """Return the codebooks that fit the codes best, held a little to where they are."""
    n_all = books.shape[0] * books.shape[1]
    columns = codes + torch.arange(len(books)) * books.shape[1]
    pairs = (columns[:, :, None] * n_all + columns[:, None, :]).flatten()
    gram = torch.bincount(pairs, minlength=n_all**2).float().reshape(n_all, n_all)
    words = books.flatten(0, 1)
    sums = hold * words
    for column in columns.T:
        sums = sums.index_add(0, column, rows)
    return torch.linalg.solve(gram + hold * torch.eye(n_all), sums).reshape(books.shape)


if __name__ == "__main__":
    main()
