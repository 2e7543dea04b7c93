"""A map of a collection by similarity, and examples of queries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.fields import KIND, PHOTO, TAG
from acqh.collection import Collection, Item
from acqh.collection.types import CONFIDENT

# Points that a browser draws smoothly.
MOST_POINTS = 5_000
# Codes that t-SNE arranges; others are placed between their nearest neighbours among these.
_LANDMARKS = 800
_ITERATIONS = 500
_NEIGHBOURS = 3
# Share of the map's width by which items of the same code are spread.
_SPREAD = 0.012
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
# Common subjects of photos, as queries.
_SUBJECTS = """dogs|cats|horses|birds|elephants|giraffes|zebras|cows|sheep|bears|butterflies|fish
flowers|trees|mountains|beach|snow|lake|forest|sunset|desert|waterfall|city street|skyscrapers
bridge|church|castle|cars|bus|train|bicycle|motorcycle|airplane|boats|kitchen|bathroom|bedroom
sofa|pizza|cake|fruit|vegetables|coffee|wedding|children playing|baby|crowd of people
concert|football|baseball|tennis|skiing|skateboard|surfing|laptop|clock|teddy bear|umbrella|kites
fireworks""".replace("\n", "|").split("|")
# Confident matches that a query needs to be an example, and most examples.
_FEW, _MOST = 3, 8


@dataclass(frozen=True, eq=False)
class CollectionMap:
    """Positions of items on a map."""

    items: list[Item]
    positions: Floats  # (n_points, 2) float32: between 0 and 1
    n_items: int  # in the collection; `items` are an even sample of them


def make_map(collection: Collection, most: int = MOST_POINTS) -> CollectionMap:
    """Arrange items on a plane by their codes.

    Of more than `most` items an even sample is taken.
    """
    n_items = len(collection)
    step = max(1, -(-n_items // most))
    all_items = (item for batch in collection.batches() for item, _ in batch)
    items = list(islice(all_items, 0, None, step))
    codes = np.frombuffer(b"".join(item.code for item in items), dtype=np.uint8)
    codebooks = collection.codebooks
    positions = embed_codes(codes.reshape(len(items), len(codebooks)), codebooks)
    return CollectionMap(items, positions, n_items)


def embed_codes(codes: Array, codebooks: Floats) -> Floats:
    """Return positions of codes on the unit square.

    `codes`: uint8 (n_items, n_codebooks). `codebooks`: (n_codebooks, codebook_size, n_components).
    Returns (n_items, 2) float32.

    Examples
    --------
    >>> codebooks = np.array([[[0.0, 1.0], [1.0, 0.0]]], dtype=np.float32)
    >>> embed_codes(np.array([[0], [1], [1]], dtype=np.uint8), codebooks).shape
    (3, 2)
    """
    unique, inverse = np.unique(codes, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    vectors = sum(book[unique[:, at]] for at, book in enumerate(codebooks))
    placed = _scaled(_arrange(np.asarray(vectors, dtype=np.float32)))[inverse]
    # Items with the same code form a sunflower pattern around its position.
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(unique)))
    rank = np.empty(len(codes))
    rank[order] = np.arange(len(codes)) - starts[inverse[order]]
    radius = _SPREAD * np.sqrt(rank / 10)
    turn = rank * _GOLDEN_ANGLE
    spread = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    return _scaled(placed + spread)


def _arrange(vectors: Floats) -> Floats:
    """Place vectors on a plane: landmarks by t-SNE, the others by interpolation."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.neighbors import NearestNeighbors

    if len(vectors) < 4 or vectors.shape[1] < 3:
        flat = np.zeros((len(vectors), 2), dtype=np.float32)
        width = min(2, *vectors.shape)
        if len(vectors) > 1:
            flat[:, :width] = PCA(width).fit_transform(vectors)
        return flat
    chosen = np.linspace(0, len(vectors) - 1, min(len(vectors), _LANDMARKS)).astype(int)
    landmarks = vectors[chosen]
    perplexity = min(30.0, (len(landmarks) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", max_iter=_ITERATIONS, random_state=0)
    placed = tsne.fit_transform(landmarks)
    if len(chosen) == len(vectors):
        return np.asarray(placed)
    near = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(landmarks)
    distances, numbers = near.kneighbors(vectors)
    weights = 1 / (distances + 1e-6)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("nk,nkd->nd", weights, placed[numbers]))


def _scaled(positions: Floats) -> Floats:
    """Return positions in the unit square, with one scale for both axes."""
    if not len(positions):
        return np.zeros((0, 2), dtype=np.float32)
    low, high = positions.min(axis=0), positions.max(axis=0)
    width = float((high - low).max()) or 1.0
    return np.asarray((positions - (low + high) / 2) / width + 0.5, dtype=np.float32)


def most_frequent(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return names with their counts as JSON, the most frequent first.

    Examples
    --------
    >>> most_frequent({"cat": 1, "dog": 2})
    [{'name': 'dog', 'count': 2}, {'name': 'cat', 'count': 1}]
    """
    return as_rows(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def as_rows(counts: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return names with their counts as JSON."""
    return [{"name": name, "count": count} for name, count in counts]


def examples_in(collection: Collection) -> list[str]:
    """Return the most frequent suggested tags or, without tags, subjects with confident matches.

    Tags of screenshots, scans and drawings alone are no examples if photos have enough. The
    subjects are for images without captions, and take a second or two. The list is empty if the
    collection has captions or cannot encode texts.
    """
    info = collection.info()
    if set(info.encoded_from) != {"image"} or "text" not in info.encoders:
        return []
    facets = collection.facets()
    if len(facets[TAG]) >= _FEW:
        names = [tag["name"] for tag in most_frequent(facets[TAG])]
        if PHOTO in facets[KIND]:
            of_photos = [*islice((name for name in names if _is_on_photo(collection, name)), _MOST)]
            names = of_photos if len(of_photos) >= _FEW else names
        return names[:_MOST]
    matches = {}
    for subject in _SUBJECTS:
        hits = collection.search(text=subject, k=_FEW, mode="semantic").hits
        matches[subject] = min((hit.match for hit in hits), default=0.0)
    clear = [subject for subject in _SUBJECTS if matches[subject] > CONFIDENT]
    return sorted(clear, key=lambda subject: -matches[subject])[:_MOST]


def _is_on_photo(collection: Collection, tag: str) -> bool:
    return bool(collection.browse(where={TAG: tag, KIND: PHOTO}, k=1).hits)
