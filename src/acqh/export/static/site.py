"""Export of a collection as a static site."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from acqh._core.fields import (
    DATE,
    DETECTED,
    DIGEST,
    IMAGE_FIELDS,
    KIND,
    KINDS,
    TAGS,
    TEXT_IN_IMAGE,
)
from acqh._core.runtime import Progress, no_progress, suggest_keywords
from acqh.collection import Collection, Item
from acqh.collection.search.periods import period_table
from acqh.collection.search.query import Where
from acqh.collection.store.words import names_in
from acqh.encoders.images import THUMBNAIL_SIDE, ImageLike, make_thumbnail, read_image
from acqh.errors import AcqhError, ImageError, InvalidInputError
from acqh.export.static.folder import START, SiteFolder, digest, to_json
from acqh.export.static.words import word_files, write_encoder
from acqh.web import PAGE
from acqh.web.originals import file_of, original_of
from acqh.web.overview import as_rows, examples_in, make_map, most_frequent

_SCRIPTS = Path(__file__).parent
# Items per file of texts and per file of thumbnails.
_ITEMS_PER_FILE = 128
_IMAGES_PER_FILE = 16
_ID_BYTES = 6
_NAME_CHARS = 80
# Of the day in a date.
_DAY_CHARS = 10
# Items that the HTML lists without JavaScript, and those with an image.
_LISTED, _PICTURED = 200, 24
_QUALITY = 70
# Detected metadata that thumbnails show anyway, and all that searches use.
_SHOWN = (KIND, TAGS)
_SEARCHED = (*_SHOWN, TEXT_IN_IMAGE)
# As in the web interface.
_DATES = re.compile("date|datetime|taken|created|time|timestamp|year", re.IGNORECASE)
# Files that are fetched before the first answer.
_FIRST = tuple(
    f"data/{name}-"
    for name in (
        *("codes", "codebooks", "likeness", "lexicon", "lengths"),
        *("vocabulary", "rows", "queries", "known", "others", "periods"),
    )
)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:{originals}; media-src 'self'{originals}; base-uri 'none'; "
    "form-action 'self'"
)


@dataclass(frozen=True)
class SiteReport:
    """Result of a site export.

    Attributes
    ----------
    n_items : int
    n_bytes : dict of str to int
        By part: "page", "codes", "words", "texts", "images", "map", "queries", "start".
    n_initial_bytes : int
        Bytes that a browser fetches before the first answer, without thumbnails.
    n_written, n_removed : int
        Number of new files and of removed ones.
    fields : tuple of str
        The published ones.
    n_unread_originals : int
        Items whose thumbnails are smaller than requested, because their originals are missing or
        cannot be read.

    Examples
    --------
    >>> report = SiteReport(2, {"page": 9_000, "codes": 16}, 9_016, 20, 0, ("date",))
    >>> sum(report.n_bytes.values())
    9016
    """

    n_items: int
    n_bytes: dict[str, int]
    n_initial_bytes: int
    n_written: int
    n_removed: int
    fields: tuple[str, ...]
    n_unread_originals: int = 0


@suggest_keywords
def site(
    collection: Collection,
    folder: str | PathLike[str],
    *,
    captions: bool = True,
    fields: Sequence[str] = (),
    thumbnails: int | None = 128,
    where: Where = None,
    base_url: str | None = None,
    index_all_fields: bool = False,
    progress: Progress | None = None,
) -> SiteReport:
    """Write a collection as a static site with the web interface, for any web host.

    Searches run in the visitor's browser, which fetches codes and keywords. Thumbnails with their
    kinds and suggested tags, labels, codes and the selected fields are published, but no ids, paths
    or digests of files, and no items whose field ``hidden`` is true. If the folder holds a site,
    new and damaged files are written and unused ones removed. Of unpublished fields, only the
    number of words per item and of items per published word are used, so that
    scores equal those of the collection.

    Parameters
    ----------
    collection : Collection
    folder : path-like
        Created if missing; must be empty or hold a site.
    captions : bool, default True
        Whether to publish captions. Keywords in unpublished captions are not found.
    fields : sequence of str
        Fields to publish, such as "date", also of detected metadata, such as "text_in_image".
        Keywords in names of items and in detected metadata are searched, too.
    thumbnails : int, optional
        Longest side of thumbnails in pixels; None for no thumbnails, kinds and suggested tags.
        Collections store 128 pixels; larger ones are made from the originals in the tracked folder.
        If one of these cannot be read, the stored thumbnail is published.
    where : mapping, str or iterable of str, optional
        Publish only the items that meet this filter, as for `Collection.search`.
    base_url : str, optional
        Address of the originals. The field ``file`` is appended to it, and so published.
    index_all_fields : bool, default False
        Publish names of files, words of folders and unpublished fields, texts of images, and the
        days of dates, so that they are found as in the collection.
    progress : callable, optional
        Called with the number of items done, their number, and a text.

    Returns
    -------
    SiteReport

    Raises
    ------
    FileExistsError
        There is something else in the folder.
    InvalidInputError
        No item meets the filter, a field is missing, or no original can be found.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> from acqh.export import site
    >>> items = [Item(text="a red rose", id="rose"), Item(text="a fast car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/things.acqh") as collection:
    ...         report = site(collection, folder + "/public")
    >>> report.n_items, sorted(report.n_bytes)
    (2, ['codes', 'map', 'page', 'queries', 'texts', 'words'])
    """
    everything = (item for batch in collection.batches() for item, _ in batch)
    selected = [item for item in everything if item.fields.get("hidden") is not True]
    if where is not None:
        chosen = {hit.id for hit in collection.browse(where=where, k=max(1, len(collection))).hits}
        selected = [item for item in selected if item.id in chosen]
    if not selected and len(collection):
        raise InvalidInputError(f"no item meets {where!r} and is not hidden; relax the filter")
    existing = {*collection.fields(), *(name for item in selected for name in item.detected)}
    if missing := set(fields) - existing:
        names = ", ".join(sorted(existing)) or "none"
        raise InvalidInputError(f"no item has a field {sorted(missing)[0]!r}; there are: {names}")
    small = None if thumbnails is None else _Thumbnails(collection, selected, thumbnails)
    detected = _SEARCHED if index_all_fields else () if small is None else _SHOWN
    present = (name for name in detected if any(item.detected.get(name) for item in selected))
    published = tuple(dict.fromkeys([*fields, *present]))
    shown = {*published, *(() if base_url is None else IMAGE_FIELDS)}
    items = [
        replace(
            item,
            text=item.text if captions else "",
            fields={name: value for name, value in item.fields.items() if name in shown},
            detected={name: value for name, value in item.detected.items() if name in shown},
        )
        for item in selected
    ]
    report = progress or no_progress
    site_folder = SiteFolder(Path(folder))
    ids = _public_ids((item.id for item in items), collection.opened.facts.site_key)
    images, slots = _images(site_folder, items, small, report)
    report(0, None, "writing texts")
    named = selected if index_all_fields else items
    facts: dict[str, Any] = {
        "name": collection.path.stem,
        "codes": _codes(site_folder, collection, items),
        "items": _texts(site_folder, items, ids, published, base_url, slots, selected, named),
        "labels": _labels(site_folder, items),
        "facets": _facets(items),
        "images": images,
        "words": _words(site_folder, named if captions else _without_text(named), selected),
        "detected": _words(site_folder, items, selected, detected=True),
        "others": _others(site_folder, items),
        "files": _file_names(site_folder, selected) if index_all_fields else None,
        "periods": site_folder.put_json("queries", "periods", period_table()),
        "dates": _dates(site_folder, selected) if DATE in fields or index_all_fields else None,
    }
    report(0, None, "writing the text encoder")
    facts["text"] = write_encoder(site_folder, collection)
    report(0, None, "arranging the map")
    facts["map"] = _map(site_folder, collection, items, ids, slots)
    report(0, None, "choosing examples")
    facts["examples"] = examples_in(collection) if where is None else []
    levels = collection.opened.levels_of(is_fast=facts["text"] is not None)
    facts["levels"] = levels._asdict() | {"squares": levels.squares.tolist()}
    facts["generation"] = digest(to_json(facts))
    facts["n_bytes"] = sum(site_folder.parts.values())
    start = _start(site_folder, facts, items, small, base_url)
    n_removed = site_folder.finish(start)
    fetched = (size for name, size in site_folder.files.items() if name.startswith(_FIRST))
    n_initial_bytes = site_folder.parts["page"] + sum(fetched)
    n_files = n_initial_bytes, site_folder.n_written, n_removed
    n_unread = 0 if small is None else len(small.unread)
    return SiteReport(len(items), site_folder.parts, *n_files, tuple(fields), n_unread)


def _codes(
    site_folder: SiteFolder, collection: Collection, items: Sequence[Item]
) -> dict[str, Any]:
    codebooks = np.ascontiguousarray(collection.codebooks, dtype="<f4")
    metric = collection.opened.coder.model.space_.metric
    likeness = np.ascontiguousarray(metric, dtype="<f4")
    return {
        "n_items": len(items),
        **dict(zip(("n_codebooks", "codebook_size", "n_components"), codebooks.shape, strict=True)),
        "codes": site_folder.put("codes", "codes.bin", b"".join(item.code for item in items)),
        "codebooks": site_folder.put("codes", "codebooks.bin", codebooks.tobytes()),
        "likeness": site_folder.put("codes", "likeness.bin", likeness.tobytes()),
    }


def _texts(
    site_folder: SiteFolder,
    items: Sequence[Item],
    ids: Sequence[str],
    fields: Sequence[str],
    base_url: str | None,
    slots: Mapping[int, int],
    selected: Sequence[Item],
    named: Sequence[Item],
) -> dict[str, Any]:
    """Write the metadata of items in files of some items, and a file of all ids.

    `selected`: the items with all fields. `named`: those with the names that are published.
    """
    rows = []
    digests = [item.fields.get(DIGEST) for item in selected]
    first = {digest: place for place, digest in reversed([*enumerate(digests)]) if digest}
    n_copies = Counter(digests)
    for place, (item, identifier) in enumerate(zip(items, ids, strict=True)):
        row = item.to_dict() | {"id": identifier, "has_thumbnail": place in slots}
        if base_url is not None and (file := file_of(item)):
            row["original"] = base_url + quote(file)
        if place in slots:
            row["image"] = slots[place]
        if names := names_in(named[place].fields):
            row["names"] = names
        if digests[place] and n_copies[digests[place]] > 1:
            row["same"] = ids[first[digests[place]]]
        rows.append(row)
    starts = range(0, len(rows), _ITEMS_PER_FILE)
    return {
        "files": [
            site_folder.put_json("texts", "items", rows[start : start + _ITEMS_PER_FILE])
            for start in starts
        ],
        "per_file": _ITEMS_PER_FILE,
        "ids": site_folder.put("texts", "ids.txt", "".join(ids).encode()),
        "id_length": 2 * _ID_BYTES,
        # To sort items by date, and to filter them.
        "fields": {
            name: site_folder.put_json("texts", "column", [_value(item, name) for item in items])
            for name in fields
            if _DATES.match(name) or name in (KIND, TAGS)
        },
    }


def _value(item: Item, name: str) -> Any:
    """Return a field of an item, or detected metadata."""
    if name == TAGS:
        return [*item.tags]
    return (getattr(item, name) or None) if name in DETECTED else item.fields.get(name)


def _facets(items: Sequence[Item]) -> dict[str, Any]:
    """Return the published suggested tags, kinds and months with their counts."""
    tags = Counter(tag for item in items for tag in item.tags)
    kinds = Counter(item.kind for item in items if item.kind)
    months = Counter(item.date[:7] for item in items if item.date)
    return {
        "tags": most_frequent(tags),
        "kinds": most_frequent(kinds),
        "months": as_rows(sorted(months.items())),
    }


def _without_text(items: Sequence[Item]) -> list[Item]:
    return [replace(item, text="") for item in items]


def _labels(site_folder: SiteFolder, items: Sequence[Item]) -> dict[str, Any]:
    having: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        for label in item.labels:
            having.setdefault(label, []).append(number)
    names = sorted(having, key=lambda name: (-len(having[name]), name))
    steps = [np.diff(having[name], prepend=0).tolist() for name in names]
    counts = [{"name": name, "count": len(having[name])} for name in names]
    return {"all": counts, "items": site_folder.put_json("texts", "labels", steps)}


class _Thumbnails:
    """Thumbnails of items: as stored or, if larger, made from the originals that can be read.

    `unread`: ids of the items whose originals cannot be read; their thumbnails are as stored.
    Raises InvalidInputError: no original exists.
    """

    def __init__(self, collection: Collection, items: Sequence[Item], side: int) -> None:
        self._collection = collection
        self._side = side
        pictured = [item for item in items if item.has_thumbnail] if side > THUMBNAIL_SIDE else []
        self._originals = {item.id: _original(item) for item in pictured}
        self.unread = {id_ for id_, path in self._originals.items() if path is None}
        if pictured and len(self.unread) == len(pictured):
            raise InvalidInputError(
                f"thumbnails of {side} pixels need the originals, but {len(pictured):,} of "
                f"{len(pictured):,} are missing; choose {THUMBNAIL_SIDE} pixels or fewer, or build "
                "the collection from their folder"
            )

    def of(self, item: Item) -> bytes:
        """Return the thumbnail of an item that has one."""
        if (path := self._originals.get(item.id)) is not None:
            try:
                image = self._read(path)
            except ImageError:
                self.unread.add(item.id)
            else:
                return make_thumbnail(image, self._side, _QUALITY)
        stored = self._collection.thumbnail(item.id)
        if self._side >= THUMBNAIL_SIDE:
            return stored
        image = self._read(stored)
        is_small = max(image.size) <= self._side
        return stored if is_small else make_thumbnail(image, self._side, _QUALITY)

    def _read(self, image: ImageLike) -> Any:
        return read_image(image, max_pixels=self._collection.settings.max_pixels, side=self._side)


def _original(item: Item) -> Path | None:
    """Return the original of an item in its tracked folder, or None."""
    name = file_of(item)
    try:
        return original_of(Path(item.folder), name)[0] if item.folder and name else None
    except FileNotFoundError:
        return None


def _images(
    site_folder: SiteFolder,
    items: Sequence[Item],
    small: _Thumbnails | None,
    progress: Progress,
) -> tuple[dict[str, Any] | None, dict[int, int]]:
    """Write thumbnails in files of some, each after a table of offsets, and number them.

    They are in the order of codes: similar items are results together, and share a file.
    """
    pictured = [place for place, item in enumerate(items) if item.has_thumbnail]
    if small is None or not pictured:
        return None, {}
    pictured.sort(key=lambda place: items[place].code)
    files = []
    for start in range(0, len(pictured), _IMAGES_PER_FILE):
        images = [small.of(items[place]) for place in pictured[start : start + _IMAGES_PER_FILE]]
        bounds = np.cumsum([4 * (len(images) + 1), *map(len, images)], dtype="<u4")
        files.append(site_folder.put("images", "images.bin", b"".join([bounds.tobytes(), *images])))
        progress(start + len(images), len(pictured), "writing thumbnails")
    facts = {"files": site_folder.put_json("images", "images", files), "per_file": _IMAGES_PER_FILE}
    return facts, {place: slot for slot, place in enumerate(pictured)}


def _others(site_folder: SiteFolder, items: Sequence[Item]) -> str | None:
    """Write which items are screenshots, scans and drawings; None without published kinds."""
    if not any(item.kind for item in items):
        return None
    places = [place for place, item in enumerate(items) if item.kind in KINDS[1:]]
    return site_folder.put_json("words", "others", np.diff(places, prepend=0).tolist())


def _dates(site_folder: SiteFolder, items: Sequence[Item]) -> str | None:
    """Write days and the places of items of each, the newest first; None without dates."""
    dates = [str(item.date) for item in items]
    order = sorted(range(len(items)), key=lambda place: dates[place], reverse=True)  # stable
    days = {
        day: [*places]
        for day, places in groupby(order, lambda place: dates[place][:_DAY_CHARS])
        if day
    }
    if not days:
        return None
    return site_folder.put_json("texts", "dates", {"days": [*days], "places": [*days.values()]})


def _file_names(site_folder: SiteFolder, items: Sequence[Item]) -> str | None:
    """Write names of files without their folders, and their items, in order of their paths."""
    paths = [
        (field, path, place)
        for place, item in enumerate(items)
        for field in IMAGE_FIELDS
        if isinstance(path := item.fields.get(field), str) and path
    ]
    if not paths:
        return None
    paths.sort(key=lambda row: (row[0], row[1].encode(errors="surrogatepass"), row[2]))
    names = [path.rpartition("/")[2] for _, path, _ in paths]
    places = [place for *_, place in paths]
    return site_folder.put_json("texts", "files", {"names": names, "places": places})


def _words(
    site_folder: SiteFolder,
    items: Sequence[Item],
    stored: Sequence[Item],
    *,
    detected: bool = False,
) -> dict[str, Any] | None:
    index = word_files(items, stored, detected=detected)
    if not index.terms:
        return None
    return {
        "n_indexed": index.n_indexed,
        "lexicon": site_folder.put_json(
            "words", "lexicon", {"terms": index.terms, "counts": index.counts}
        ),
        "lengths": site_folder.put("words", "lengths.bin", index.lengths.astype("<u2").tobytes()),
        "shards": [
            (first, site_folder.put_json("words", "words", postings))
            for first, postings in index.chunks
        ],
    }


def _map(
    site_folder: SiteFolder,
    collection: Collection,
    items: Sequence[Item],
    ids: Sequence[str],
    slots: Mapping[int, int],
) -> str:
    places = {item.id: place for place, item in enumerate(items)}
    mapped = make_map(collection)
    points = []
    for item, (x, y) in zip(mapped.items, mapped.positions.tolist(), strict=True):
        if (place := places.get(item.id)) is not None:
            shown = items[place]
            label = shown.labels[0] if shown.labels else None
            name = shown.text[:_NAME_CHARS]
            tag = next(iter(shown.tags), None)
            points.append(
                [slots.get(place), ids[place], round(x, 3), round(y, 3), label, name, tag]
            )
    return site_folder.put_json("map", "map", points)


def _start(
    site_folder: SiteFolder,
    facts: Mapping[str, Any],
    items: Sequence[Item],
    small: _Thumbnails | None,
    base_url: str | None,
) -> str:
    """Return ``index.html``: the web interface, with some items for browsers without JavaScript."""
    sources = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    page = sources.pop(START).decode()
    sources |= {path.name: path.read_bytes() for path in sorted(_SCRIPTS.glob("*.js"))}
    home = site_folder.put_sources("page", sources)
    facts_file = site_folder.put_json("page", "site", facts)
    originals = "" if base_url is None else f" {base_url.rstrip('/')}/"
    policy = html.escape(_POLICY.format(originals=originals))
    name = html.escape(facts["name"])
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="acqh-site" content="{facts_file}">\n'
        f"<title>{name}</title>"
    )
    shown: list[str] = []
    listed = [item for item in items if item.text or item.has_thumbnail]
    for item in listed[:_LISTED]:
        image = ""
        if small is not None and item.has_thumbnail and len(shown) < _PICTURED:
            source = site_folder.put("start", "first.webp", small.of(item))
            image = f'<img src="{source}" alt="" loading="lazy"> '
        words = html.escape(item.text or ", ".join(item.labels))
        shown.append(f"<li>{image}{words}</li>")
    hits = '<ol id="hits" role="list">'
    for marker, new in (
        ("<title>acqh</title>", head),
        ('"static/', f'"{home}/'),
        ('(?<=id="home">)acqh(?=<)', name),
        ("<noscript>.*?</noscript>", ""),
        (hits, hits + "".join(shown)),
    ):
        page = _replaced(page, marker, new)
    return page


def _replaced(page: str, marker: str, new: str) -> str:
    page, n_found = re.subn(marker, lambda _: new, page, flags=re.DOTALL)
    if not n_found:
        raise AcqhError(f"{PAGE / START} has no {marker}, so it cannot become a site")
    return page


def _public_ids(identifiers: Iterable[str], key: str) -> list[str]:
    """Return stable ids that do not reveal those of the items, which may be paths."""
    ids: dict[str, None] = {}
    for identifier in identifiers:
        content, salt = identifier.encode(), 0
        while (public := _keyed(content, key, salt)) in ids:
            salt += 1
        ids[public] = None
    return list(ids)


def _keyed(content: bytes, key: str, salt: int) -> str:
    salted = salt.to_bytes(blake2b.SALT_SIZE, "little")
    return blake2b(content, digest_size=_ID_BYTES, key=key.encode(), salt=salted).hexdigest()
