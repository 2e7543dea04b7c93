"""Learn the general model (src/acqh/encoders/general/general.npz) from captioned photographs.

Two sources of MS COCO are read: a folder with ``manifest.csv`` (columns image and text; 128 px),
and a bare git repository with larger copies of the same photographs and 30,000 more
(``data/N.jpg``, ``train.csv``, ``test.csv``). Row N of the folder is image N of the repository.
Images 9,000 to 9,999 are test rows and never learnt from; 8,000 to 8,999 are held out while the
exponent and the ridge are chosen, and learnt from afterwards. Small copies are learnt from beside
large ones, so that the model also serves images of low resolution.

Features take an hour on two cores; they are kept in the folder ``--cache`` and read from there the
next time. Everything after them takes a few minutes.
"""

import argparse
import csv
import io
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acqh.encoders import EfficientNetLite0, MiniLM
from acqh.encoders.general.model import GeneralModel, PairSums
from acqh.quantize import AdditiveQuantizer

HELD_OUT, TEST = range(8_000, 9_000), range(9_000, 10_000)
EXPONENTS, RIDGES = (0.0, 0.15, 0.25, 0.35, 0.5), (0.03, 0.1, 0.3)
N_AXES, N_COMPONENTS = 512, 64
SIZES = (8, 16)
# One more than before whenever what is learnt changes: stored collections name it.
VERSION = 1
Floats = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pairs:
    """Features of the images of both sources, by their numbers, and of the captions."""

    large: Floats
    small: Floats
    texts: Floats

    def training(self, without: list[int]) -> tuple[Floats, Floats]:
        """Return images and texts, row by row, without some numbers."""
        large = np.setdiff1d(np.arange(len(self.large)), without)
        small = np.setdiff1d(np.arange(len(self.small)), without)
        images = np.vstack([self.large[large], self.small[small]]).astype(np.float32)
        return images, self.texts[np.concatenate([large, small])].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("../shared/coco"))
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("src/acqh/encoders/general/general.npz"))
    arguments = parser.parse_args()
    pairs = describe(arguments.folder, arguments.repository, arguments.cache)
    held_out, test = list(HELD_OUT), list(TEST)
    best = (-1.0, 0.0, 0.0)
    spectra = Spectra.of(*pairs.training(held_out + test))
    for exponent in EXPONENTS:
        for ridge in RIDGES:
            model = GeneralModel(spectra.arrays(exponent), spectra.sums(exponent), ridge)
            found = [recall(model, rows[held_out], pairs.texts[held_out]) for rows in both(pairs)]
            print(json.dumps({"exponent": exponent, "ridge": ridge, "recall_at_10": found}))
            best = max(best, (float(np.mean(found)), exponent, ridge))
    _, exponent, ridge = best
    images, texts = pairs.training(test)
    spectra = Spectra.of(images, texts)
    arrays = spectra.arrays(exponent)
    model = GeneralModel(arrays, spectra.sums(exponent), ridge)
    arrays |= components(model, images, texts)
    vectors = GeneralModel(arrays, model.sums, ridge).item_vectors(images)
    for size in SIZES:
        quantizer = AdditiveQuantizer(size, beam_width=8, random_state=0)
        arrays[f"codebooks_{size}"] = quantizer.fit(vectors).codebooks_
    arrays |= {
        "image_variance": np.diag(model.sums.images),
        "cross": model.sums.cross,
        "text_average": model.sums.text,
        "text_variance": spectra.mapped_variance(exponent),
    }
    packed = {name: array.astype(np.float16) for name, array in arrays.items()}
    for name in ("image_mean", "image_variance", "text_mean", "text_average", "text_variance"):
        packed[name] = arrays[name].astype(np.float32)
    packed["version"] = np.array(VERSION)
    packed["facts"] = np.array([ridge, len(images)])
    np.savez_compressed(arguments.out, **packed)
    print(json.dumps({"pairs": len(images), "bytes": arguments.out.stat().st_size}))


def describe(folder: Path, repository: Path, cache: Path) -> Pairs:
    """Return the features, made where they are not kept yet."""
    cache.mkdir(exist_ok=True)
    captions = dict(sorted(read_captions(repository)))
    makers = {
        "texts": lambda: MiniLM().transform(captions.values()),
        "small": lambda: EfficientNetLite0().transform(folder_images(folder)),
        "large": lambda: EfficientNetLite0().transform(repository_images(repository, captions)),
    }
    found = {}
    for name, make in makers.items():
        path = cache / f"{name}.npy"
        if not path.exists():
            np.save(path, make().astype(np.float16))
        found[name] = np.load(path, mmap_mode="r")
    return Pairs(**found)


def read_captions(repository: Path) -> Iterator[tuple[int, str]]:
    for name in ("train.csv", "test.csv"):
        text = git(repository, "show", f"HEAD:{name}").decode()
        for row in csv.DictReader(io.StringIO(text)):
            yield int(row["ImageID"].removesuffix(".jpg")), row["Caption"]


def repository_images(repository: Path, numbers: Any) -> Iterator[bytes]:
    for number in numbers:
        yield git(repository, "show", f"HEAD:data/{number}.jpg")


def folder_images(folder: Path) -> Iterator[Path]:
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        yield from (folder / row["image"] for row in csv.DictReader(file))


def git(repository: Path, *command: str) -> bytes:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *command], check=True, capture_output=True
    ).stdout


@dataclass(frozen=True)
class Spectra:
    """Principal axes of rooted images and of captions, and what the two have in common."""

    image_mean: Floats
    text_mean: Floats
    image_axes: Floats
    variance: Floats
    text_axes: Floats
    text_variance: Floats
    text_average: Floats
    cross: Floats

    @classmethod
    def of(cls, images: Floats, texts: Floats) -> "Spectra":
        """Return those of pairs, row by row."""
        X = unit(np.sqrt(np.maximum(images, 0)))
        mean, text_mean = X.mean(axis=0), texts.mean(axis=0)
        X = X - mean
        Y = unit(texts - text_mean)
        variance, axes = leading(X.T @ X / len(X), N_AXES)
        text_variance, text_axes = leading(Y.T @ Y / len(Y), Y.shape[1])
        Y = Y @ text_axes
        cross = axes.T @ (X.T @ Y / len(X))
        return cls(mean, text_mean, axes, variance, text_axes, text_variance, Y.mean(axis=0), cross)

    def _scales(self, exponent: float) -> Floats:
        return np.asarray(np.maximum(self.text_variance, 1e-12) ** -exponent)

    def arrays(self, exponent: float) -> dict[str, Floats]:
        """Return the maps, with axes of captions scaled by a power of their variance."""
        n_text = len(self.text_variance)
        return {
            "image_mean": self.image_mean,
            "image_axes": self.image_axes,
            "text_mean": self.text_mean,
            "text_axes": self.text_axes * self._scales(exponent),
            "to_item": np.eye(n_text),
            "to_query": np.eye(n_text),
        }

    def mapped_variance(self, exponent: float) -> Floats:
        """Return the second moments of mapped captions, along their axes."""
        return np.asarray(self.text_variance * self._scales(exponent) ** 2)

    def sums(self, exponent: float) -> PairSums:
        """Return the sums of the mapped pairs."""
        scales = self._scales(exponent)
        return PairSums(
            1.0,
            np.zeros(N_AXES),
            self.text_average * scales,
            np.diag(self.variance),
            self.cross * scales,
        )


def components(model: GeneralModel, images: Floats, texts: Floats) -> dict[str, Floats]:
    """Return the rotations of items and queries onto the components that scores need.

    Items are weighed by the fourth root of the second moment of queries: half way between the plain
    metric and that of the queries, which was best on held-out rows.
    """
    queries = model.project(texts, view="text").astype(np.float64)
    items = model.item_vectors(images).astype(np.float64)
    moments, axes = leading(queries.T @ queries / len(queries), queries.shape[1])
    root = np.maximum(moments, 1e-9) ** 0.25
    weigh, undo = (axes * root) @ axes.T, (axes / root) @ axes.T
    _, rotation = leading(weigh @ (items.T @ items / len(items)) @ weigh, N_COMPONENTS)
    return {"to_item": weigh @ rotation, "to_query": undo @ rotation}


def leading(moments: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the n largest eigenvalues, descending, and their vectors in columns."""
    values, vectors = np.linalg.eigh(moments.astype(np.float64))
    return values[::-1][:n], vectors[:, ::-1][:, :n]


def both(pairs: Pairs) -> tuple[Floats, Floats]:
    return pairs.small, pairs.large


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def recall(model: GeneralModel, images: Floats, texts: Floats) -> float:
    """Share of captions whose image is among the first ten, real-valued."""
    scores = model.project(texts, view="text") @ model.item_vectors(images).T
    return round(float(np.mean((scores > np.diag(scores)[:, np.newaxis]).sum(axis=1) < 10)), 4)


if __name__ == "__main__":
    main()
