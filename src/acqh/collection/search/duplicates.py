"""Possible duplicates: the same file, the same image, or similar images.

The lowest frequencies (a discrete cosine transform) of small grey thumbnails and of their crops
propose pairs: images are compared if the signs of some frequencies agree, in one of a few hash
tables. That is near linear in the items. `same_image.compare` decides, on the thumbnails.

Groups are stars, not chains: every item of a group agrees with its first item. Files that could be
removed are compared once more, by their originals.
"""

import filecmp
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, slices
from acqh._core.fields import BYTES, DATE, DIGEST, FILE, MODIFIED
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.collection.opened import Opened
from acqh.collection.search.rank import match_of
from acqh.collection.search.same_image import CROPS, Picture, compare, cropping
from acqh.collection.store.items import find_item, read_pictures, read_thumbnail
from acqh.collection.types import DuplicateGroup, Item
from acqh.encoders.images import open_image, working_image
from acqh.errors import AcqhError

_SIDE = 32
_N_FREQUENCIES = 7
_N_TABLES = 8
# Grey levels below which a frequency, and all of an image, is nothing but rounding errors.
_NO_WAVE, _BLANK = 0.3, 1.0
# Signs that make a key, so many that few images agree by chance; at most 48.
_MIN_SIGNS = 14
# Squared distance of the lowest frequencies, of length one: a correlation of 0.95. Of 600 copies
# (twelve edits) it is 0.957 at least.
_MAX_DISTANCE = 0.1
# Levels of brightness, by which images of one key are sorted, and how many of these are compared.
_LIGHTS, _MAX_FOUND = 1_024, 32
# Images with which one is compared in vain: so folders of similar images take linear time.
_MAX_TRIES = 5
# Others that are scored per item, by semantic similarity.
_N_NEAR = 6
# `match` of two items of different images that show the same thing, and of those that were taken
# within so many seconds.
_SAME_SUBJECT, _SAME_MOMENT, _SECONDS = 0.82, 0.5, 60.0
_BATCH = 1_024
# Thumbnails kept decoded.
_N_DECODED = 512
# A copy that is to be kept may have so much fewer pixels than one that is removed: rounding.
_MIN_PIXELS = 0.98


class _Pictured(NamedTuple):
    """The items that have an image."""

    ids: list[str]
    fields: Sequence[Mapping[str, Any]]
    codes: Array  # uint8 (n_items, n_codebooks)
    grey: Array  # uint8 (n_items, side, side)
    digests: list[bytes]  # of thumbnails

    def best_first(self, rows: Iterable[int]) -> list[int]:
        """Put rows in order: the largest file, the oldest, the shortest name, the first stored."""

        def rank(row: int) -> tuple[int, str, int, int]:
            fields = self.fields[row]
            name = str(fields.get(FILE) or "").rpartition("/")[2]
            return -(fields.get(BYTES) or 0), str(fields.get(MODIFIED) or ""), len(name), row

        return sorted(rows, key=rank)


def find_duplicates(opened: Opened, progress: Progress) -> list[DuplicateGroup]:
    """Return groups of possible duplicates; see `Collection.duplicates`."""
    with opened.store.reading() as connection:
        pictured = _read(opened, connection, progress)
        order = pictured.best_first(range(len(pictured.ids)))
        files = _merged([[row] for row in order], _same_files(pictured, order))

        @lru_cache(_N_DECODED)
        def picture(row: int) -> Picture:
            return Picture.of_thumbnail(read_thumbnail(connection, pictured.ids[row]))

        leads = _same_images(pictured, [rows[0] for rows in files], picture, progress)
    images = _merged(files, leads)
    progress(0, None, "comparing what images show")
    similar = _merged(images, _similar(opened, pictured, [rows[0] for rows in images]))
    tiers = {"same file": files, "same image": images, "similar": similar}
    reported: set[frozenset[int]] = set()
    groups = []
    for tier, candidates in tiers.items():
        several = [rows for rows in candidates if len(rows) > 1 and frozenset(rows) not in reported]
        reported.update(map(frozenset, several))
        groups += [
            DuplicateGroup(tier, tuple(pictured.ids[row] for row in pictured.best_first(rows)))
            for rows in several
        ]
    return groups


def find_removable(
    opened: Opened, groups: Iterable[DuplicateGroup], progress: Progress
) -> dict[str, Path]:
    """Return ids and files that the first file of a group makes superfluous.

    See `Collection.removable`.
    """
    removable: dict[str, Path] = {}
    with opened.store.reading() as connection:
        for group in groups:
            if group.tier == "similar":
                continue
            best, *others = (
                _file_of(find_item(connection, identifier)[1]) for identifier in group.ids
            )
            for identifier, file in zip(group.ids[1:], others, strict=True):
                if identifier not in removable and best and file and _can_replace(best, file):
                    removable[identifier] = file
                progress(len(removable), None, "comparing files")
    return removable


def _file_of(item: Item) -> Path | None:
    return Path(item.folder, str(item.fields[FILE])) if item.folder else None


def _can_replace(kept_file: Path, file: Path) -> bool:
    """Whether a file shows no more than another one does; False if that is not certain."""
    try:
        if kept_file.samefile(file):  # a link, or a file of two folders
            return False
        if filecmp.cmp(kept_file, file, shallow=False):
            return True
        with open_image(kept_file) as best, open_image(file) as other:
            # Of several frames or pages, only the first ones are compared.
            if getattr(best, "n_frames", 1) > 1 or getattr(other, "n_frames", 1) > 1:
                return False
            if best.width * best.height < _MIN_PIXELS * other.width * other.height:
                return False
            if other.has_transparency_data and not best.has_transparency_data:
                return False
        copy = compare(Picture(working_image(file)), Picture(working_image(kept_file)))
    except (AcqhError, OSError, ValueError, SyntaxError):  # gone, or not an image any more
        return False
    return copy is not None and copy.is_contained and not copy.is_recoloured


def _read(opened: Opened, connection: Any, progress: Progress) -> _Pictured:
    ids, fields, codes, grey, digests = [], [], bytearray(), [], []
    for identifier, values, code, thumbnail in read_pictures(connection):
        small = Picture.of_thumbnail(thumbnail).image.convert("L")
        ids.append(identifier)
        fields.append(values)
        codes += code
        grey.append(np.asarray(small.resize((_SIDE, _SIDE), require("PIL.Image").Resampling.BOX)))
        digests.append(sha256(thumbnail).digest())
        if len(ids) % _BATCH == 0:
            progress(len(ids), None, "reading thumbnails")
    table = np.frombuffer(bytes(codes), np.uint8).reshape(len(ids), opened.coder.code_bytes)
    squares = np.array(grey, np.uint8).reshape(-1, _SIDE, _SIDE)
    return _Pictured(ids, fields, table, squares, digests)


def _merged(groups: Sequence[list[int]], leads: Sequence[int]) -> list[list[int]]:
    """Return groups joined to those that lead them, by place; the rows of a lead come first."""
    merged: dict[int, list[int]] = {}
    for place in sorted(range(len(groups)), key=lambda place: leads[place] != place):
        merged.setdefault(leads[place], []).extend(groups[place])
    return list(merged.values())


def _same_files(pictured: _Pictured, order: Sequence[int]) -> list[int]:
    """Return for each place in `order` the first place whose file has the same SHA-256."""
    first: dict[Any, int] = {}
    digests = (pictured.fields[row].get(DIGEST) for row in order)
    return [first.setdefault(digest or place, place) for place, digest in enumerate(digests)]


def _same_images(
    pictured: _Pictured, rows: Sequence[int], picture: Any, progress: Progress
) -> list[int]:
    """Return for each place in `rows` the place that leads its group, itself or one before it.

    `picture`: gives the picture of a row. Every image agrees with the one that leads it.
    """
    leads = list(range(len(rows)))
    first = {pictured.digests[row]: place for place, row in reversed(list(enumerate(rows)))}
    candidates = _candidates(pictured.grey[list(rows)])
    for place, row in enumerate(rows):
        if place % _BATCH == 0:
            progress(place, len(rows), "comparing images")
        if (equal := first[pictured.digests[row]]) != place:
            leads[place] = leads[equal]
            continue
        tried = dict.fromkeys(leads[other] for other in candidates.get(place, ()))
        for lead in list(tried)[:_MAX_TRIES]:
            if compare(picture(row), picture(rows[lead])) is not None:
                leads[place] = lead
                break
    return leads


def _candidates(grey: Array) -> dict[int, list[int]]:
    """Return for images the ones before them that may be the same, the most similar first.

    `grey`: (n_images, side, side).
    """
    if len(grey) < 2:
        return {}
    low = np.concatenate([_low_frequencies(grey[part]) for part in slices(len(grey), _BATCH)])
    lengths = np.linalg.norm(low[:, :, 1:], axis=2, keepdims=True)
    pairs, differences = [], []
    for crops, wholes, cut in _of_one_key(low):
        one, two = low[crops, cut], low[wholes, 0]
        scales = np.maximum(lengths[crops, cut], _BLANK), np.maximum(lengths[wholes, 0], _BLANK)
        distance = ((one[:, 1:] / scales[0] - two[:, 1:] / scales[1]) ** 2).sum(axis=1)
        near = distance <= _MAX_DISTANCE
        ends = np.sort(np.stack([crops[near], wholes[near]]), axis=0)
        pairs.append(ends[1] * len(grey) + ends[0])
        differences.append(np.linalg.norm(one[near] - two[near], axis=1))
    pair, difference = np.concatenate(pairs), np.concatenate(differences)
    candidates: dict[int, dict[int, None]] = {}
    for later, earlier in np.stack(
        np.divmod(pair[np.argsort(difference, kind="stable")], len(grey))
    ).T.tolist():
        candidates.setdefault(later, {})[earlier] = None
    return {later: list(others) for later, others in candidates.items()}


def _of_one_key(low: Floats) -> "Iterator[tuple[Ints, Ints, Ints]]":
    """Yield images whose crops have the signs of another whole, that one, and which crop it is.

    Of many wholes with these signs, those that are about as bright. `low`: as `_low_frequencies`
    returns it.
    """
    n_images, n_crops, n_waves = low.shape
    n_chosen = min(n_waves - 1, max(_MIN_SIGNS, (n_images * n_crops).bit_length() - 1))
    rng = np.random.default_rng(0)
    for _ in range(_N_TABLES):
        chosen = 1 + rng.choice(n_waves - 1, n_chosen, replace=False)
        keys = (low[:, :, chosen] > _NO_WAVE) @ (1 << np.arange(n_chosen)) * _LIGHTS
        bright = keys + (low[:, :, 0] * (_LIGHTS - 1) / 255).astype(np.int64)
        order = np.argsort(bright[:, 0], kind="stable")
        wholes = bright[order, 0]
        first, last = np.searchsorted(wholes, keys), np.searchsorted(wholes, keys + _LIGHTS)
        start = np.maximum(first, np.searchsorted(wholes, bright) - _MAX_FOUND // 2)
        n_found = np.minimum(last - start, _MAX_FOUND)
        for place in range(int(n_found.max())):
            crops, cut = np.nonzero(n_found > place)
            others = order[start[crops, cut] + place]
            other = others != crops
            yield crops[other], others[other], cut[other]


def _low_frequencies(grey: Array) -> Floats:
    """Return the lowest frequencies of images and of their crops, the mean first, in grey levels.

    `grey`: (n_images, side, side); gives (n_images, n_crops, n_frequencies).
    """
    places = np.pi * (np.arange(_SIDE) + 0.5) / _SIDE
    waves = np.cos(places * np.arange(_N_FREQUENCIES)[:, np.newaxis]).astype(np.float32)
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    cut = np.array([waves @ cropping(*crop, _SIDE) for crop in CROPS])
    rows = np.einsum("aks,nst->nakt", cut, grey.astype(np.float32) / _SIDE)
    return np.asarray(
        np.einsum("nakt,blt->nabkl", rows, cut).reshape(len(grey), len(CROPS) ** 2, -1)
    )


def _similar(opened: Opened, pictured: _Pictured, firsts: Sequence[int]) -> list[int]:
    """Return for each place in `firsts` the place that leads its group, or itself.

    Items join a group if they show what its lead shows, or were taken at the same time.
    """
    if len(firsts) < 2:
        return list(range(len(firsts)))
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
    times = [_time_of(pictured.fields[row]) for row in firsts]
    joined: dict[int, int] = {}  # who leads whose group
    for match, one, other in sorted(pairs, reverse=True):
        lead, new = sorted((one, other), key=lambda at: (joined.get(at) != at, at))
        seconds = abs(times[one] - times[other])
        if one == other or match < (_SAME_MOMENT if seconds <= _SECONDS else _SAME_SUBJECT):
            continue
        if new not in joined and joined.setdefault(lead, lead) == lead:
            joined[new] = lead
    return [joined.get(place, place) for place in range(len(firsts))]


def _time_of(fields: Mapping[str, Any]) -> float:
    """Return when an image was taken, in seconds; not a number where that is not known."""
    try:
        return datetime.fromisoformat(str(fields.get(DATE))).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")
