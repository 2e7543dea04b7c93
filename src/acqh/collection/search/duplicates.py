"""Items that show the same: the same file, the same image, or what is alike.

Of every thumbnail a small grey image is kept, and of this the lowest frequencies (a discrete cosine
transform) of the whole and of crops of it. Whose signs agree in some of them, in any of a few
tables, is compared: that is near linear in the items. An image that was stored again, scaled,
recoloured or slightly cropped agrees with a crop of the other in its lowest frequencies, and once
the crop is found exactly, in its details too.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from acqh._core.arrays import Array, Floats, Ints, slices
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.collection.disk.opened import Opened
from acqh.collection.search.rank import match_of
from acqh.collection.store.items import read_pictures
from acqh.collection.types import BYTES, DATE, DIGEST, DuplicateGroup

_SIDE = 32
_N_FREQUENCIES = 7
# What is cut off before and behind, along either axis.
_CROPS = ((0.0, 0.0), (0.04, 0.04), (0.08, 0.0), (0.0, 0.08), (0.08, 0.08))
_N_TABLES = 8
# Of a drawing most are nothing but rounding errors.
_NO_WAVE = 0.01
# Of the signs, so many for each table that few images agree by chance; at most of 48.
_MIN_SIGNS = 14
# Correlations of the lowest frequencies, and of details. Of 600 copies (twelve edits) they are
# 0.957 and 0.797 at least; of 3,000 photographs the details of no two agree to more than 0.72.
_MIN_ALIKE, _MIN_DETAILS = 0.95, 0.77
# Of 255, on average: less is no detail, and no difference.
_MIN_DETAIL = 2.0
# How far around a pixel what is no detail reaches.
_BLUR = 3
# Hundredths in which a crop is found exactly, from none to the most.
_MOST_CUT = 14
# Others that are looked at beside an item, by meaning.
_N_NEAR = 6
# How far two items of different images stand out for each other that show the same thing, and
# those that were taken within so many seconds.
_SAME_SUBJECT, _SAME_MOMENT, _SECONDS = 0.82, 0.5, 60.0
_BATCH = 1_024
# Of images with the same signs.
_MAX_FOUND = 64


class _Pictured(NamedTuple):
    """The items that have an image."""

    ids: list[str]
    columns: Sequence[Mapping[str, Any]]
    codes: Array  # uint8 (n_items, n_codebooks)
    grey: Array  # uint8 (n_items, side, side)

    def best_first(self, rows: Iterable[int]) -> list[int]:
        """Put rows in order: the largest file first, then what was stored first."""
        sizes = {row: self.columns[row].get(BYTES) for row in rows}
        return sorted(sizes, key=lambda row: (-(sizes[row] or 0), row))


def find_duplicates(opened: Opened, progress: Progress) -> list[DuplicateGroup]:
    """Return groups of items that show the same; see `Collection.duplicates`."""
    pictured = _read(opened, progress)
    files = _merged([[row] for row in range(len(pictured.ids))], _same_files(pictured))
    progress(0, None, "comparing images")
    firsts = [rows[0] for rows in files]
    images = _merged(files, _same_images(pictured.grey[firsts]))
    progress(0, None, "comparing what images show")
    alike = _merged(images, _alike(opened, pictured, [rows[0] for rows in images]))
    tiers = {"same file": files, "same image": images, "alike": alike}
    known: set[tuple[int, ...]] = set()
    groups = []
    for tier, found in tiers.items():
        several = [rows for rows in map(tuple, found) if len(rows) > 1 and rows not in known]
        known.update(several)
        groups += [
            DuplicateGroup(tier, tuple(pictured.ids[row] for row in pictured.best_first(rows)))
            for rows in several
        ]
    return groups


def _read(opened: Opened, progress: Progress) -> _Pictured:
    ids, columns, codes, grey = [], [], bytearray(), []
    image = require("PIL.Image")
    with opened.store.reading() as connection:
        for identifier, values, code, picture in read_pictures(connection):
            with image.open(BytesIO(picture), formats=["WEBP"]) as thumbnail:
                small = thumbnail.convert("L").resize((_SIDE, _SIDE), image.Resampling.BOX)
            ids.append(identifier)
            columns.append(values)
            codes += code
            grey.append(np.asarray(small))
            if len(ids) % _BATCH == 0:
                progress(len(ids), None, "reading thumbnails")
    table = np.frombuffer(bytes(codes), np.uint8).reshape(len(ids), opened.coder.code_bytes)
    return _Pictured(ids, columns, table, np.array(grey, np.uint8).reshape(-1, _SIDE, _SIDE))


def _merged(groups: Sequence[list[int]], pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return groups, of which those that pairs of their places join are one; rows in order."""
    joined = DisjointSet(range(len(groups)))
    for pair in pairs:
        joined.merge(*pair)
    return [sorted(row for at in each for row in groups[at]) for each in joined.subsets()]


def _same_files(pictured: _Pictured) -> list[tuple[int, int]]:
    """Return pairs of items whose files have the same SHA-256."""
    digests = [columns.get(DIGEST) for columns in pictured.columns]
    first = {digest: row for row, digest in reversed(list(enumerate(digests)))}
    return [(first[digest], row) for row, digest in enumerate(digests) if digest]


def _same_images(grey: Array) -> list[tuple[int, int]]:
    """Return pairs of images of which one is the other, stored again, or a crop of it.

    Not all of them: as many as join all that are the same.
    """
    if len(grey) < 2:
        return []
    low = np.concatenate([_low_frequencies(grey[part]) for part in slices(len(grey), _BATCH)])
    joined, pairs = DisjointSet(range(len(grey))), []
    tried: set[tuple[int, int]] = set()
    for crops, wholes, cut in _candidates(low > _NO_WAVE):
        near = np.einsum("ij,ij->i", low[crops, cut], low[wholes, 0]) >= _MIN_ALIKE
        for crop, whole in np.unique(np.stack([crops[near], wholes[near]]), axis=1).T.tolist():
            if (crop, whole) in tried or joined.connected(crop, whole):
                continue
            tried.add((crop, whole))
            way = int(np.argmax(low[crop] @ low[whole, 0]))
            if _details_agree(grey[crop], grey[whole], way):
                joined.merge(crop, whole)
                pairs.append((crop, whole))
    return pairs


def _candidates(signs: Array) -> "Iterable[tuple[Ints, Ints, Ints]]":
    """Yield images whose crops have the signs of another whole, that one, and which crop it is.

    `signs`: bool (n_images, n_crops, n_frequencies), of the whole first.
    """
    n_images, n_crops, n_signs = signs.shape
    n_chosen = min(n_signs, max(_MIN_SIGNS, (n_images * n_crops).bit_length() - 1))
    rng = np.random.default_rng(0)
    for _ in range(_N_TABLES):
        chosen = rng.choice(n_signs, n_chosen, replace=False)
        keys = signs[:, :, chosen] @ (1 << np.arange(n_chosen))
        order = np.argsort(keys[:, 0], kind="stable")
        wholes = keys[order, 0]
        # Of very many that agree, such as blank images, each is compared with the first ones.
        start = np.searchsorted(wholes, keys)
        n_found = np.minimum(np.searchsorted(wholes, keys, side="right") - start, _MAX_FOUND)
        for place in range(int(n_found.max())):
            crops, cut = np.nonzero(n_found > place)
            found = order[start[crops, cut] + place]
            other = found != crops
            yield crops[other], found[other], cut[other]


def _low_frequencies(grey: Array) -> Floats:
    """Return the lowest frequencies of images and of their crops, but for the mean, of length one.

    `grey`: (n_images, side, side); gives (n_images, n_crops, n_frequencies).
    """
    places = np.pi * (np.arange(_SIDE) + 0.5) / _SIDE
    waves = np.cos(places * np.arange(_N_FREQUENCIES)[:, np.newaxis]).astype(np.float32)
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    cut = np.array([waves @ _cropping(*crop) for crop in _CROPS])
    rows = np.einsum("aks,nst->nakt", cut, grey.astype(np.float32))
    found = np.einsum("nakt,blt->nabkl", rows, cut).reshape(len(grey), len(_CROPS) ** 2, -1)
    lengths = np.linalg.norm(found[:, :, 1:], axis=2, keepdims=True)
    return np.asarray(found[:, :, 1:] / np.maximum(lengths, 1e-3), dtype=np.float32)


@cache
def _cropping(before: float, behind: float) -> Floats:
    """Return what maps a line of pixels to a part of it of the same length; (side, side)."""
    at = ((np.arange(_SIDE) + 0.5) * (1 - before - behind) + before * _SIDE - 0.5).clip(
        0, _SIDE - 1
    )
    weights = 1 - np.abs(at[:, np.newaxis] - np.arange(_SIDE))
    return np.asarray(np.maximum(weights, 0), dtype=np.float32)


@cache
def _detailing() -> Floats:
    """Return what takes from a line of pixels the mean of those around each; (side, side)."""
    distances = np.abs(np.subtract.outer(np.arange(_SIDE), np.arange(_SIDE)))
    around = distances <= _BLUR
    return np.asarray(around / around.sum(axis=1, keepdims=True), dtype=np.float32)


def _details(image: Floats) -> Floats:
    """Return an image without what is smooth in it."""
    blur = _detailing()
    return np.asarray(image - blur @ image @ blur.T)


def _details_agree(crop: Array, whole: Array, way: int) -> bool:
    """Whether some crop of an image, near one of `_CROPS`, has the details of another."""
    image, other = crop.astype(np.float32), whole.astype(np.float32)
    wanted = _details(other)
    length = float(np.linalg.norm(wanted))
    if length < _SIDE * _MIN_DETAIL:  # a clear sky, a drawing of two colours
        return float(np.abs(image - other).mean()) <= _MIN_DETAIL
    (top, bottom), (left, right) = (_CROPS[at] for at in divmod(way, len(_CROPS)))
    cut = [round(100 * each) for each in (top, bottom, left, right)]

    def agreement(cut: Sequence[int]) -> float:
        top, bottom, left, right = (each / 100 for each in cut)
        part = _cropping(top, bottom) @ image @ _cropping(left, right).T
        details = _details(part)
        return float(np.vdot(details, wanted)) / max(length * float(np.linalg.norm(details)), 1e-3)

    best = agreement(cut)
    for step in (2, 2, 2, 1, 1, 1):
        for side, change in ((side, sign * step) for side in range(4) for sign in (-1, 1)):
            tried = [*cut[:side], cut[side] + change, *cut[side + 1 :]]
            if 0 <= tried[side] <= _MOST_CUT and (found := agreement(tried)) > best:
                best, cut = found, tried
        if best >= _MIN_DETAILS:
            return True
    return False


def _alike(opened: Opened, pictured: _Pictured, firsts: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs of places in `firsts` of items that show one thing, or were taken at one time.

    The first of a pair leads its group: others join it, and not one another, so that no chain of
    likeness joins what is unlike.
    """
    if len(firsts) < 2:
        return []
    from acqh.index import CodeIndex

    codes = pictured.codes[firsts]
    index = CodeIndex(opened.index.codebooks).add(codes)
    pairs = []
    for part in slices(len(codes), _BATCH):
        queries = np.asarray(opened.coder.model.project_codes(codes[part]), dtype=np.float32)
        result = index.search(queries, min(_N_NEAR, len(codes)))
        limits = opened.index.levels.limits(queries, is_text=False).tolist()
        for row, (numbers, scores) in enumerate(zip(result.ids, result.scores, strict=True)):
            pairs += [
                (match_of(score, limits[row]), part.start + row, number)
                for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)
            ]
    times = [_time_of(pictured.columns[row]) for row in firsts]
    joined: dict[int, int] = {}  # who leads whose group
    for match, one, other in sorted(pairs, reverse=True):
        lead, new = sorted((one, other), key=lambda at: (joined.get(at) != at, at))
        seconds = abs(times[one] - times[other])
        if one == other or match < (_SAME_MOMENT if seconds <= _SECONDS else _SAME_SUBJECT):
            continue
        if new not in joined and joined.setdefault(lead, lead) == lead:
            joined[new] = lead
    return [(lead, at) for at, lead in joined.items()]


def _time_of(columns: Mapping[str, Any]) -> float:
    """Return when an image was taken, in seconds; not a number where that is not known."""
    try:
        return datetime.fromisoformat(str(columns.get(DATE))).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")
