"""A collection at a glance: a map, on which like lies near like, and words to try."""

import threading
import time
from dataclasses import dataclass
from itertools import islice

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.collection import Collection, Item
from acqh.collection.types import CONFIDENT

# Points that a browser draws without effort.
MOST_POINTS = 5_000
# Codes that t-SNE arranges; others are put between those that they are most like.
_LANDMARKS = 800
_ITERATIONS = 500
_NEIGHBOURS = 3
# A map of a collection that was only added to is made again after this many seconds.
_KEPT_SECONDS = 300.0
# Share of the map's width by which items of the same code are spread.
_SPREAD = 0.012
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
# What many photographs show, as people ask for it.
_THINGS = """dogs|cats|horses|birds|elephants|giraffes|zebras|cows|sheep|bears|butterflies|fish
flowers|trees|mountains|beach|snow|lake|forest|sunset|desert|waterfall|city street|skyscrapers
bridge|church|castle|cars|bus|train|bicycle|motorcycle|airplane|boats|kitchen|bathroom|bedroom
living room|pizza|cake|fruit|vegetables|coffee|wedding|children playing|baby|crowd of people
concert|football|baseball|tennis|skiing|skateboard|surfing|laptop|clock|teddy bear|umbrella|kites
fireworks""".replace("\n", "|").split("|")
# A thing is there if so many items stand out for it, and so many things are offered.
_FEW, _MOST = 3, 8


@dataclass(frozen=True, eq=False)
class CollectionMap:
    """Where some items lie."""

    items: list[Item]
    positions: Floats  # (n_points, 2) float32: between 0 and 1
    n_items: int  # items in the collection, of which these are an even sample


class MapCache:
    """Makes a map once for each build of a collection, and again a while after a change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[str, int, float, CollectionMap] | None = None

    def get(self, collection: Collection) -> CollectionMap:
        """Return the map of a collection; this may take seconds."""
        generation_now, revision_now = collection.generation, collection.revision
        with self._lock:
            if self._known is not None:
                generation, revision, made, kept = self._known
                is_fresh = revision == revision_now or time.monotonic() - made < _KEPT_SECONDS
                if generation == generation_now and is_fresh:
                    return kept
            made_now = make_map(collection)
            self._known = generation_now, revision_now, time.monotonic(), made_now
            return made_now


def make_map(collection: Collection, most: int = MOST_POINTS) -> CollectionMap:
    """Arrange items on a plane by their codes.

    Of more than `most` items an even sample is taken.
    """
    n_items = len(collection)
    step = max(1, -(-n_items // most))
    every = (item for batch in collection.batches() for item, _ in batch)
    items = list(islice(every, 0, None, step))
    codes = np.frombuffer(b"".join(item.code for item in items), dtype=np.uint8)
    codebooks = collection.codebooks
    positions = embed_codes(codes.reshape(len(items), len(codebooks)), codebooks)
    return CollectionMap(items, positions, n_items)


def embed_codes(codes: Array, codebooks: Floats) -> Floats:
    """Return a place on the unit square for each code.

    `codes`: uint8 (n_items, n_codebooks). `codebooks`: (n_codebooks, codebook_size, n_components).
    Gives (n_items, 2) float32.

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
    # Items of one code lie around its place like the seeds of a sunflower.
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(unique)))
    rank = np.empty(len(codes))
    rank[order] = np.arange(len(codes)) - starts[inverse[order]]
    radius = _SPREAD * np.sqrt(rank / 10)
    turn = rank * _GOLDEN_ANGLE
    spread = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    return _scaled(placed + spread)


def _arrange(vectors: Floats) -> Floats:
    """Place vectors on a plane: some by t-SNE, the others between those."""
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
    """Return positions in the unit square, of one scale both ways."""
    if not len(positions):
        return np.zeros((0, 2), dtype=np.float32)
    low, high = positions.min(axis=0), positions.max(axis=0)
    width = float((high - low).max()) or 1.0
    return np.asarray((positions - (low + high) / 2) / width + 0.5, dtype=np.float32)


def examples_in(collection: Collection) -> list[str]:
    """Return things that a collection of images without texts shows, the clearest first.

    This takes a second or two; of a collection that has texts, or knows no words, it is nothing.
    """
    info = collection.info()
    if set(info.encoded_from) != {"image"} or "text" not in info.encoders:
        return []
    matches = {}
    for thing in _THINGS:
        hits = collection.search(text=thing, k=_FEW, mode="semantic").hits
        matches[thing] = min((hit.match for hit in hits), default=0.0)
    clear = [thing for thing in _THINGS if matches[thing] > CONFIDENT]
    return sorted(clear, key=lambda thing: -matches[thing])[:_MOST]
