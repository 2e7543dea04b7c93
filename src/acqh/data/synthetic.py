"""Synthetic data of known structure, for tests, timings and examples."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Floats, Ints, check_positive_int, slices
from acqh._core.runtime import RandomState, check_rng
from acqh.data.multiview import MultiViewData
from acqh.errors import InvalidInputError

_LATENT = 16
_BLOCK_ROWS = 8_192
# Spread of items around the centre of their labels: the structure that views share beyond labels.
_SPREAD = 0.5


@dataclass(frozen=True)
class _Shape:
    """Shape of synthetic data: `sparse` views are 0/1, `double` views float64."""

    n_items: int
    widths: Mapping[str, int]
    n_labels: int
    mean_labels: float = 1.0  # exactly one label per item if this is 1
    sparse: frozenset[str] = frozenset()
    mean_words: float = 6.0
    double: frozenset[str] = frozenset()


_LIKE = MappingProxyType(
    {
        "mirflickr25k": _Shape(
            20_015, {"image": 150, "text": 1_386}, 24, 3.78, frozenset({"text"}), 4.46
        ),
        "nuswide10": _Shape(186_577, {"image": 500, "text": 1_000}, 10, 1.5, frozenset({"text"})),
        "uci_mfeat": _Shape(2_000, {"image": 76, "text": 64}, 10),
        "wiki": _Shape(2_866, {"image": 128, "text": 10}, 10, double=frozenset({"text"})),
    }
)


def make_multiview(
    n_items: int = 1_000,
    widths: Mapping[str, int] = MappingProxyType({"image": 20, "text": 30}),
    *,
    n_labels: int = 5,
    single_label: bool = True,
    sparse: Collection[str] = (),
    missing: float = 0.0,
    noise: float = 1.0,
    random_state: RandomState = None,
) -> MultiViewData:
    """Make paired views that share labels, and dense views that also share a latent position.

    An item's latent position is the mean of the centres of its labels plus Gaussian noise.
    A dense view is a random linear image of that position plus Gaussian noise. A sparse view is
    a 0/1 bag of words. Each word comes from a topic of one of the item's labels or, for the
    noisy share, uniformly from all words.

    Parameters
    ----------
    n_items : int
    widths : mapping of str to int
        The views and their numbers of columns.
    n_labels : int
    single_label : bool
        Exactly one label per item. With False, one or more labels of decreasing frequency, two on
        average if `n_labels` allows it.
    sparse : collection of str
        The views that are bags of words: CSR of uint8. Other views are dense float32.
    missing : float
        Share of the items, from 0 to 1, that lack one view. Every item has at least one view.
    noise : float
        Standard deviation of the noise of dense views; the signal has about 1. In sparse views,
        a share noise / (1 + noise) of the words is independent of the labels.
    random_state : int, Generator, SeedSequence or None

    Returns
    -------
    MultiViewData
        Named ``"synthetic"``.

    Raises
    ------
    InvalidInputError
        A number is out of range, or a view in `sparse` is unknown.

    Examples
    --------
    >>> make_multiview(50, {"image": 4, "text": 9}, sparse=["text"], random_state=0)
    MultiViewData('synthetic': 50 items; image 4 float32, text 9 uint8 sparse; 5 labels)
    """
    if not widths:
        raise InvalidInputError("widths name no view; give at least one, such as {'image': 20}")
    unknown = set(sparse) - set(widths)
    if unknown:
        raise InvalidInputError(f"sparse names {sorted(unknown)}, but the views are {list(widths)}")
    if not 0 <= missing <= 1:
        raise InvalidInputError(f"missing must be a share from 0 to 1, got {missing!r}")
    if missing and len(widths) < 2:
        raise InvalidInputError("an item's only view cannot be missing; give two views or more")
    if not 0 <= noise < np.inf:
        raise InvalidInputError(f"noise must be a number of at least 0, got {noise!r}")
    shape = _Shape(
        n_items=check_positive_int(n_items, "n_items"),
        widths={name: check_positive_int(width, f"{name} width") for name, width in widths.items()},
        n_labels=check_positive_int(n_labels, "n_labels"),
        mean_labels=1.0 if single_label else min(2.0, n_labels),
        sparse=frozenset(sparse),
    )
    rng = check_rng(random_state)
    views, labels = _draw(shape, noise, rng)
    present = _draw_present(shape, missing, rng)
    return MultiViewData(views, labels, present=present, name="synthetic")


def make_multiview_like(
    name: str, n_items: int | None = None, *, random_state: RandomState = None
) -> MultiViewData:
    """Make synthetic data with the shape of a published data set.

    Widths, types, sparsity, number of labels and (by default) number of items equal those of the
    data set. The values are random.

    Parameters
    ----------
    name : {"mirflickr25k", "nuswide10", "uci_mfeat", "wiki"}
    n_items : int, optional
        Default: the published number.
    random_state : int, Generator, SeedSequence or None

    Returns
    -------
    MultiViewData
        Named ``"synthetic-"`` and the name.

    Raises
    ------
    InvalidInputError
        The name is unknown, or `n_items` is not a positive integer.

    Examples
    --------
    >>> make_multiview_like("nuswide10", 1000, random_state=0)
    MultiViewData('synthetic-nuswide10': 1,000 items; image 500 float32, text 1000 uint8 sparse;
    10 labels)
    """
    if name not in _LIKE:
        raise InvalidInputError(f"unknown data set {name!r}; choose one of {', '.join(_LIKE)}")
    shape = _LIKE[name]
    if n_items is not None:
        shape = replace(shape, n_items=check_positive_int(n_items, "n_items"))
    views, labels = _draw(shape, 1.0, check_rng(random_state))
    return MultiViewData(views, labels, name=f"synthetic-{name}")


def _draw(shape: _Shape, noise: float, rng: np.random.Generator) -> tuple[dict[str, Any], Array]:
    labels = _draw_labels(shape, rng)
    centres = rng.standard_normal((shape.n_labels, _LATENT), dtype=np.float32)
    weights = (labels / labels.sum(axis=1, keepdims=True)).astype(np.float32)
    position = weights @ centres
    position += _SPREAD * rng.standard_normal(position.shape, dtype=np.float32)
    views: dict[str, Any] = {}
    for name, width in shape.widths.items():
        if name in shape.sparse:
            views[name] = _draw_words(labels, width, shape.mean_words, noise, rng)
        else:
            dtype = np.float64 if name in shape.double else np.float32
            views[name] = _draw_dense(position, width, noise, rng).astype(dtype, copy=False)
    return views, labels


def _draw_labels(shape: _Shape, rng: np.random.Generator) -> Array:
    """Draw one class per item, or each label with a probability that decreases with its rank."""
    n_items, n_labels = shape.n_items, shape.n_labels
    labels = np.zeros((n_items, n_labels), dtype=np.uint8)
    if shape.mean_labels == 1.0:
        labels[np.arange(n_items), rng.integers(n_labels, size=n_items)] = 1
        return labels
    chances = 1.0 / np.sqrt(np.arange(1, n_labels + 1))
    chances = np.minimum(chances * shape.mean_labels / chances.sum(), 0.9)
    labels[:] = rng.random((n_items, n_labels), dtype=np.float32) < chances
    empty = np.flatnonzero(~labels.any(axis=1))
    labels[empty, rng.choice(n_labels, size=len(empty), p=chances / chances.sum())] = 1
    return labels


def _draw_dense(position: Floats, width: int, noise: float, rng: np.random.Generator) -> Floats:
    directions = rng.standard_normal((_LATENT, width), dtype=np.float32) / np.sqrt(_LATENT)
    view = rng.standard_normal((len(position), width), dtype=np.float32)
    # Block by block: the signal of all rows at once would double the memory.
    for rows in slices(len(view), _BLOCK_ROWS):
        view[rows] *= noise
        view[rows] += position[rows] @ directions.astype(np.float32)
    return view


def _draw_words(
    labels: Array, width: int, mean_words: float, noise: float, rng: np.random.Generator
) -> sp.csr_array:
    """Draw bags of words from one topic per label."""
    n_items, n_labels = labels.shape
    counts = 1 + rng.poisson(mean_words - 1.0, size=n_items)
    item = np.repeat(np.arange(n_items), counts)
    topic = _random_label_of(item, labels, rng)
    ranks = np.minimum(rng.geometric(min(1.0, 4.0 * n_labels / width), len(item)), width) - 1
    words = np.array([rng.permutation(width) for _ in range(n_labels)])[topic, ranks]
    is_noise = rng.random(len(item), dtype=np.float32) < noise / (1.0 + noise)
    words[is_noise] = rng.integers(width, size=np.count_nonzero(is_noise))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    bags = sp.csr_array((np.ones(len(item), np.uint8), words, indptr), shape=(n_items, width))
    bags.sum_duplicates()
    bags.data[:] = 1
    return bags


def _random_label_of(item: Ints, labels: Array, rng: np.random.Generator) -> Ints:
    """Return, for each of the items, one of its labels."""
    rows, columns = np.nonzero(labels)
    lengths = np.bincount(rows, minlength=len(labels))
    starts = np.cumsum(lengths) - lengths
    chosen: Ints = columns[starts[item] + rng.integers(lengths[item])]
    return chosen


def _draw_present(shape: _Shape, missing: float, rng: np.random.Generator) -> dict[str, Bools]:
    lacking = rng.permutation(shape.n_items)[: round(missing * shape.n_items)]
    lost_view = rng.integers(len(shape.widths), size=len(lacking))
    present = {}
    for index, name in enumerate(shape.widths):
        present[name] = np.ones(shape.n_items, dtype=bool)
        present[name][lacking[lost_view == index]] = False
    return present
