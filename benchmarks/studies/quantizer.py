"""Ablation of the training steps: errors with and without them, one JSON line per case.

``label_sets``: the label sets of MIRFlickr25K (``ACQH_DATA`` names the folder of its file; without
it the case is skipped), projected on their principal directions and weighted by their photographs,
in codebooks of 256 codewords. Residual k-means, the same with ten sweeps at the end, and sweeps
after every codebook, as `fit_codebooks` does. Median relative error of five seeds.

``beams``: 10,000 clustered items in 8 bytes by `fit_codebooks` on beams, with codebooks learnt
from the best code of every item alone, and from its best eight. Relative error of the items trained
on, and of 10,000 others.

``worse codes``: half as many such items in 8 and 16 bytes, with three rules. In each sweep an
item takes the code that the search finds, even a worse one. Or it keeps its code unless another is
strictly better. Or it changes to the second rule when the first gains no more, as `fit_codebooks`
does.
"""

import argparse
from collections.abc import Iterator
from functools import partialmethod
from typing import Any

import numpy as np

import acqh
from acqh.errors import AcqhError
from acqh.quantize import (
    decode,
    fit_codebooks,
    quantization_errors,
    search_codes,
    train,
)
from acqh.quantize.codebooks import improve_codebooks, weighted_kmeans
from acqh.quantize.train import refill_unused_words
from benchmarks._measure import emit

N_WORDS = 256
N_SEEDS = 5
N_SWEEPS = 10
Record = dict[str, Any]


def label_sets() -> Iterator[Record]:
    try:
        labels = np.asarray(acqh.load_dataset("mirflickr25k").labels)
    except (AcqhError, FileNotFoundError) as error:
        emit({"benchmark": "quantizer", "case": "label sets", "skipped": str(error)})
        return
    rows, counts = np.unique(labels.astype(np.float64), axis=0, return_counts=True)
    weights = counts.astype(np.float64)
    centred = rows - np.average(rows, axis=0, weights=weights)
    directions = np.linalg.eigh(centred.T @ (centred * weights[:, np.newaxis]))[1][:, ::-1]
    for n_components, n_codebooks in ((8, 2), (8, 3), (8, 4), (24, 2), (24, 3)):
        targets = centred @ directions[:, :n_components]
        spread = weights @ np.square(targets).sum(axis=1)
        errors = np.median(
            [_errors(targets, weights, n_codebooks, seed) for seed in range(N_SEEDS)], axis=0
        )
        names = ("residual_kmeans", "then_sweeps", "sweeps_after_every_codebook")
        yield {
            "case": "label sets",
            "n_targets": len(targets),
            "n_components": n_components,
            "n_codebooks": n_codebooks,
            **{
                name: float(f"{error / spread:.3g}")
                for name, error in zip(names, errors, strict=True)
            },
        }


def _errors(targets: np.ndarray, weights: np.ndarray, m: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    codebooks, left = np.empty((m, N_WORDS, targets.shape[1])), targets.copy()
    codes = np.empty((len(targets), m), dtype=np.uint8)
    for s in range(m):
        codebooks[s], codes[:, s] = weighted_kmeans(left, weights, N_WORDS, rng)
        left -= codebooks[s][codes[:, s]]
    first = weights @ np.square(left).sum(axis=1)
    for _ in range(N_SWEEPS):
        codebooks, codes = refill_unused_words(targets, weights, codes, codebooks)
        codebooks = improve_codebooks(targets, weights, codes, codebooks)
        codes = search_codes(targets, codebooks, start=codes)
    swept = weights @ quantization_errors(targets, codes, codebooks)
    rng = np.random.default_rng(seed)
    fitted = fit_codebooks(targets, weights, m, N_WORDS, beam_width=8, rng=rng)
    return [float(first), float(swept), float(fitted.history[-1])]


def clustered(n_items: int, n_components: int = 96) -> tuple[np.ndarray, np.ndarray]:
    """Return items to train on and as many others."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(500, n_components)) * 0.97 ** np.arange(n_components)
    noise = rng.normal(size=(2 * n_items, n_components)) * 0.97 ** np.arange(n_components)
    rows = centres[rng.integers(500, size=2 * n_items)] + 0.7 * noise
    return rows[:n_items], rows[n_items:]


def grown(items: np.ndarray, others: np.ndarray, n_codebooks: int) -> Record:
    spread = np.square(items - items.mean(axis=0)).sum()
    fitted = fit_codebooks(
        items,
        np.ones(len(items)),
        n_codebooks,
        N_WORDS,
        beam_width=8,
        max_iter=6,
        train_on_beams=True,
        rng=np.random.default_rng(0),
    )
    codes = search_codes(others, fitted.codebooks)
    error = np.square(others - decode(codes, fitted.codebooks)).sum()
    return {
        "n_items": len(items),
        "n_components": items.shape[1],
        "n_codebooks": n_codebooks,
        "error_trained": round(float(fitted.history[-1] / spread), 5),
        "error_new": round(float(error / spread), 5),
    }


def beams(n_items: int) -> Iterator[Record]:
    items, others = clustered(n_items)
    usual = train._N_BEAMS
    for n_beams in (1, usual):
        train._N_BEAMS = n_beams
        yield {"case": "beams", "n_beams": n_beams, **grown(items, others, 8)}
    train._N_BEAMS = usual


def worse_codes(n_items: int) -> Iterator[Record]:
    items, others = clustered(n_items // 2)
    usual = train._Trainer.sweep
    for n_codebooks in (8, 16):
        for keep in (False, True, None):
            if keep is not None:
                train._Trainer.sweep = partialmethod(always, usual, keep)
            record = grown(items, others, n_codebooks)
            yield {"case": "worse codes", "keeps": "later" if keep is None else keep, **record}
            train._Trainer.sweep = usual


def always(items: Any, sweep: Any, keep_codes: bool, *arguments: Any, **settings: Any) -> Any:
    """Sweep so that items never, or always, keep their codes unless others are better."""
    return sweep(items, *arguments, **settings | {"keep": keep_codes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--items", type=int, default=10_000, help="of the case of beams, twice those of worse codes"
    )
    n_items = parser.parse_args().items
    for case in (label_sets(), beams(n_items), worse_codes(n_items)):
        for record in case:
            emit({"benchmark": "quantizer", **record})


if __name__ == "__main__":
    main()
