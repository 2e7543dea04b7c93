"""An image that is in the collection already: known by its thumbnail, whatever its code says."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.collection.search.meaning import Ranking, Shard
from acqh.collection.search.rank import Place

# The best by meaning among which the very same image is looked for, and one that was scaled or
# compressed again, for which thumbnails must be read.
SAME_POOL = 1_000
_NEAR_POOL = 32
_SIDE = 32
# Mean difference of two thumbnails, of 255. An image stored as JPEG once more, at 60 % of its
# size, differs by at most 9 in 150 photographs; the nearest other photograph by 13 at least.
_MAX_DIFFERENCE = 10.0


def find_same(
    shards: Sequence[Shard], rankings: Sequence[Ranking], thumbnail: bytes
) -> list[Place]:
    """Return the items whose image is that of the query, among the best of each shard.

    `thumbnail`: of the query, made as those of items are. The very same ones are found; where there
    is none, those that look the same, most alike first. The score of a place is how alike they
    are, at most 1.
    """
    stores = [shard.store for shard in shards]
    same = [
        Place(1.0, at, number)
        for at, (store, ranking) in enumerate(zip(stores, rankings, strict=True))
        for number in store.numbers_showing(thumbnail, ranking.numbers)
    ]
    if same:
        return same
    wanted = _pixels(thumbnail)
    for at, (store, ranking) in enumerate(zip(stores, rankings, strict=True)):
        for number, stored in store.thumbnails_of(ranking.numbers[:_NEAR_POOL]).items():
            difference = float(np.abs(_pixels(stored) - wanted).mean())
            if difference <= _MAX_DIFFERENCE:
                same.append(Place(1.0 - difference / 255, at, number))
    return sorted(same, key=lambda place: -place[0])


def put_first(same: Sequence[Place], meaning: Sequence[Place], k: int) -> list[Place]:
    """Return the k best, of which those that show the same image come first.

    Their scores are above all others.

    Examples
    --------
    >>> found = put_first([Place(1.0, 0, 7)], [Place(0.5, 0, 8), Place(0.25, 0, 7)], 2)
    >>> [(place.number, place.score) for place in found]
    [(7, 1.5), (8, 0.5)]
    """
    top = meaning[0].score
    first = [place._replace(score=top + place.score) for place in same]
    known = {place[1:3] for place in first}
    return [*first, *(place for place in meaning if place[1:3] not in known)][:k]


def _pixels(thumbnail: bytes) -> Array:
    """Return a thumbnail as a small square of colours, (side, side, 3) int16."""
    image = require("PIL.Image")
    with image.open(BytesIO(thumbnail), formats=["WEBP"]) as opened:
        small = opened.convert("RGB").resize((_SIDE, _SIDE), image.Resampling.BOX)
    return np.asarray(small, dtype=np.int16)
