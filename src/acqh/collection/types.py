"""Types that a collection takes and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Self

from acqh._core.arrays import Floats, Ints
from acqh._core.fields import DATE, DATE_SOURCE, DETECTED, KIND, TAGS, TEXT_IN_IMAGE
from acqh._core.runtime import RandomState
from acqh.encoders.images import ImageLike
from acqh.errors import CollectionError
from acqh.methods.acqh.targets import Target

# Images in which text is read.
OcrMode = Literal["documents", "all"]
# What a text asks for.
Mode = Literal["hybrid", "keyword", "semantic"]
MAX_ID_CHARACTERS = 1_000
# Of labels and names of fields.
MAX_NAME_CHARACTERS = 1_000
# The least `match` of a confident hit.
CONFIDENT = 0.5
# Where files lay is of no use elsewhere, and nobody else's business.
_NOT_STORED = ("image_root",)


class NoText(str):
    """The text of an item that was given none: empty, and no reason to remove one in `annotate`."""

    __slots__ = ()


class NoLabels(tuple[str, ...]):
    """The labels of an item that was given none; see `NoText`."""

    __slots__ = ()


@dataclass(frozen=True)
class Item:
    """An image, a text, or both, to store in a collection or read from one.

    Parameters
    ----------
    image : path, bytes or PIL.Image.Image, optional
        None for stored items; `Collection.thumbnail` returns a small version of it.
    text : str
        The caption; empty for none. In `Collection.annotate`, an empty text removes the caption.
    labels : sequence of str
        Empty if unknown; stored as a tuple without repetitions. In `Collection.annotate`, an empty
        sequence removes the labels.
    id : str, optional
        Default: the path of its image, else a digest of its content. Stored items have one.
    fields : mapping of str to str, number, bool or None
        Other metadata, which `where` filters by.
    origin : str
        Source for reports, such as a file and a line.
    folder : str
        The tracked folder with the image that the field ``file`` names; empty for none.
    detected : mapping of str to value
        Metadata detected in the image and its file: see `date`, `date_source`, `kind`, `tags` and
        `text_in_image`. Never mixed with text, labels and fields.
    has_thumbnail : bool
        Whether a thumbnail is stored.
    thumbnail : bytes, optional
        The thumbnail to store.
    encoded_from : str
        Modalities from which its code was computed, such as "image".
    code : bytes
        Its code, one byte per codebook.

    Notes
    -----
    The collection sets the last four; values that you pass are ignored.

    Examples
    --------
    >>> Item(text="a red rose", labels=["flower"]).labels
    ('flower',)
    """

    image: ImageLike = field(default=None, hash=False)
    text: str = NoText()
    labels: Sequence[str] = NoLabels()
    # None until it is stored; `Any`, so that readers of stored items need not rule that out.
    id: str | Any = None
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    origin: str = ""
    folder: str = field(default="", kw_only=True)
    detected: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)
    has_thumbnail: bool = field(default=False, kw_only=True)
    thumbnail: bytes | None = field(default=None, kw_only=True)
    encoded_from: str = field(default="", kw_only=True)
    code: bytes = field(default=b"", kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise CollectionError(
                f"labels must be several strings, got one: {self.labels!r}; give [{self.labels!r}]"
            )
        if not (self.text or isinstance(self.text, NoText)):  # None is as good as empty
            object.__setattr__(self, "text", "")
        if not isinstance(self.labels, NoLabels):
            labels = tuple(dict.fromkeys(map(str, self.labels or ())))
            object.__setattr__(self, "labels", labels)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold of a stored item."""
        return {
            "id": self.id,
            "text": self.text,
            "labels": list(self.labels),
            "fields": dict(self.fields),
            "has_thumbnail": self.has_thumbnail,
            **{name: getattr(self, name) for name in DETECTED},
        }

    @property
    def date(self) -> str:
        """Date of the item: ISO 8601, local time. The field ``date``, or else detected."""
        return str(self.fields.get(DATE) or self.detected.get(DATE, ""))

    @property
    def date_source(self) -> str:
        """Source of the date: "field", "exif", "name" or "file" (modified); "" for none."""
        if self.fields.get(DATE):
            return "exif" if self.folder else "field"
        return str(self.detected.get(DATE_SOURCE, ""))

    @property
    def kind(self) -> str:
        """Kind of the image: "photo", "screenshot", "document", "drawing", "video" or ""."""
        return str(self.detected.get(KIND, ""))

    @property
    def tags(self) -> dict[str, float]:
        """Suggested tags with their confidence from 0 to 1, the most confident first."""
        return dict(self.detected.get(TAGS, {}))

    @property
    def text_in_image(self) -> str:
        """Text that was read in the image (OCR)."""
        return str(self.detected.get(TEXT_IN_IMAGE, ""))

    @property
    def name(self) -> str:
        """Name of the item in reports."""
        if self.origin:
            return self.origin
        if self.id is not None:
            return f"item {self.id!r}"
        return fspath(self.image) if isinstance(self.image, str | PathLike) else "an item"


@dataclass(frozen=True, kw_only=True)
class Hit(Item):
    """An item in the answer of a search, with its score.

    Attributes
    ----------
    score : float
        Higher is better. Comparable within one answer only.
    match : float
        Confidence from 0 to 1, comparable between queries of one collection. Above 0.5 the hit is
        a confident match: 1 in 20 queries for absent things has one. Matching words add to it.
        It is 1 for a hit with every word of the query, or with the same image.
    why : tuple of str
        Reasons for the hit. "file name": its file name is or starts with the query. "keywords",
        "labels", "tags", "text in image": its caption or name, its labels, suggested tags, or
        text recognized in its image contain words of the query. "semantic": it is similar to the
        text or the items. "image": it is similar to the image. "same image": it is the image of
        the query. "date": the query is only a date.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         hit = things.search(text="rose").hits[0]
    >>> hit.id, hit.why, hit.match
    ('rose', ('keywords', 'semantic'), 1.0)
    """

    score: float
    match: float = 0.0
    why: tuple[str, ...] = ()

    @classmethod
    def from_stored(
        cls, item: Mapping[str, Any], score: float, match: float = 0.0, why: tuple[str, ...] = ()
    ) -> Self:
        """Return the hit of a stored item, given by all its attributes, without checks."""
        hit = object.__new__(cls)
        vars(hit).update(item, fields=dict(item["fields"]), score=score, match=match, why=why)
        return hit

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as JSON can hold it."""
        scores = {"score": self.score, "match": self.match, "why": list(self.why)}
        return super().to_dict() | scores | {"code": list(self.code)}


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of the scores of an answer.

    Attributes
    ----------
    query : (n_components,) float32
        The query as a vector.
    tables : (n_codebooks, codebook_size) float32
        Its inner product with every codeword.
    codes : (n_hits, n_codebooks) int64
        The code of each hit: numbers of codewords.
    entries : (n_hits, n_codebooks) float32
        Their entries in the tables, whose sum is the semantic similarity of the hit.
    parts : (n_hits, n_parts) float64
        Parts whose sum is the score.
    names : tuple of str, (n_parts,)
        Names of the parts. In semantic mode: one per codebook, such as "codebook 1", and "same
        image", which puts an identical stored image first. Otherwise: "semantic", the confidence
        by semantic similarity from 0 to 1, and "keywords". All words count 1, the query as name or
        whole caption another 1, the words as typed 0.25. Some of the words count up to 0.5. All
        words count 0.6 if suggested tags or text in the image are needed.

    Notes
    -----
    Mode "keyword" uses no vector: `query`, `tables`, `codes` and `entries` have no columns then.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         how = things.search(text="rose", explain=True).explanation
    >>> how.names, how.parts.shape
    (('keywords', 'semantic'), (2, 2))
    """

    query: Floats
    tables: Floats
    codes: Ints
    entries: Floats
    parts: Floats
    names: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON can hold it."""
        rows = (self.codes.tolist(), self.entries.tolist(), self.parts.tolist())
        return {
            "query": self.query.tolist(),
            "tables": self.tables.tolist(),
            "names": list(self.names),
            "hits": [
                {"codes": codes, "entries": entries, "parts": parts}
                for codes, entries, parts in zip(*rows, strict=True)
            ],
        }


@dataclass(frozen=True)
class TextFilter:
    """Words of a query that became a filter, and were not searched.

    Attributes
    ----------
    text : str
        The words, such as "in summer 2021".
    where : dict of str to str
        The filter, such as ``{"date>=": "2021-06", "date<": "2021-09"}``.

    Examples
    --------
    >>> TextFilter("in 2021", {"date": "2021"}).text
    'in 2021'
    """

    text: str
    where: dict[str, str] = field(hash=False)


@dataclass(frozen=True)
class Answer:
    """The answer to a search: hits and counts.

    Attributes
    ----------
    hits : tuple of Hit
        Best first.
    n_items : int
        Items in the collection.
    n_candidates : int
        Items that `where` allows; all without it.
    n_scanned : int
        Codes that were scored; items with equal codes count once.
    milliseconds : dict of str to float
        Time to "encode" the query, to "search" the index, and to read the "items".
    explanation : Explanation or None
        With ``explain=True``.
    filters : tuple of TextFilter
        Dates in the text that restricted the search; ``dates=False`` searches for them instead.
    corrected : str or None
        The text with typos corrected; None if there were none.
    unmatched_phrases : tuple of str
        Phrases in quotes that no item contains; they were searched without the quotes.
    missing_extra : str or None
        The extra that the query needs but that is not installed, such as ``"languages"``. The
        text was then searched by keywords only.
    n_confident : int
        Number of confident matches; 0 if the hits are only the most similar items.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         answer = things.search(text="rose", k=1)
    >>> [hit.id for hit in answer.hits], answer.n_items, answer.n_confident
    (['rose'], 2, 1)
    """

    hits: tuple[Hit, ...]
    n_items: int
    n_candidates: int
    n_scanned: int
    milliseconds: dict[str, float]
    explanation: Explanation | None = None
    filters: tuple[TextFilter, ...] = ()
    corrected: str | None = None
    unmatched_phrases: tuple[str, ...] = ()
    missing_extra: str | None = None

    @property
    def n_confident(self) -> int:
        """Number of confident matches."""
        return sum(hit.match > CONFIDENT for hit in self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON can hold it: what ``--json`` and the server give."""
        return {
            "hits": [hit.to_dict() for hit in self.hits],
            "n_confident": self.n_confident,
            "n_items": self.n_items,
            "n_candidates": self.n_candidates,
            "n_scanned": self.n_scanned,
            "milliseconds": dict(self.milliseconds),
            "explanation": None if self.explanation is None else self.explanation.to_dict(),
            "filters": [asdict(one) for one in self.filters],
            "corrected": self.corrected,
            "unmatched_phrases": list(self.unmatched_phrases),
            "missing_extra": self.missing_extra,
        }


@dataclass(frozen=True)
class AddReport:
    """Result of adding items: added ids, and skipped items with reasons.

    Attributes
    ----------
    ids : tuple of str
        Ids of those that were added, in order.
    skipped : tuple of (str, str)
        Which were not, and why.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         report = things.add([Item(text="a tulip", id="tulip"), Item(id="none")])
    >>> report.ids, report.skipped
    (('tulip',), (("item 'none'", 'it has neither image nor text'),))
    """

    ids: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SyncReport:
    """Result of a sync: ids of new, changed, moved and deleted items.

    Attributes
    ----------
    new, changed, moved, deleted : tuple of str
        Their ids.
    n_unchanged : int
    unreadable : tuple of (str, str)
        Files and folders that could not be read, and why. Items of them stay as they were.

    Examples
    --------
    >>> from acqh.collection import Collection
    >>> with Collection.open("photos.acqh") as photos:  # doctest: +SKIP
    ...     report = photos.sync("photos")
    >>> len(report.new), report.deleted  # doctest: +SKIP
    (3, ())
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    n_unchanged: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DuplicateGroup:
    """Items that show the same.

    Attributes
    ----------
    tier : {"same file", "same image", "similar"}
        Files of the same bytes; one image that was stored again, scaled, recoloured or slightly
        cropped; or images that show the same thing, or nearly so and were taken within a minute.
    ids : tuple of str
        The best first: the largest file, else the oldest, else the one with the shortest name.
    """

    tier: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class BuildSettings:
    """Settings of a build.

    Each is an argument of `Collection.build`, which says what it means.

    Attributes
    ----------
    image_encoder, text_encoder : str or Encoder
        Of a collection that was built: the name, or the description of an encoder of one's own.
    language : str
    n_components : int or None
    n_codebooks : int
    targets : mapping of str to float or Target, or None
    strict : bool
    random_state : int, Generator or None
        Of a collection that was built, None also where it was a Generator.
    image_root : path-like or None
        Not stored.
    label_separator : str or None
    max_pixels : int or None
    ocr : {"documents", "all"} or None

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         settings = things.settings
    >>> settings.n_codebooks, settings.text_encoder
    (8, 'tfidf')
    """

    image_encoder: Any = "auto"
    text_encoder: Any = "auto"
    language: str = "auto"
    n_components: int | None = None
    n_codebooks: int = 8
    targets: "Mapping[str, float | Target] | None" = None
    strict: bool = False
    random_state: RandomState = 0
    image_root: str | PathLike[str] | None = None
    label_separator: str | None = None
    max_pixels: int | None = None
    ocr: OcrMode | None = None

    def stored(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        for name in ("image_encoder", "text_encoder"):
            values[name] = values[name] if isinstance(values[name], str) else repr(values[name])
        if values["targets"] is not None:
            values["targets"] = {
                view: asdict(target if isinstance(target, Target) else Target(target))
                for view, target in values["targets"].items()
            }
        if not isinstance(values["random_state"], int):
            values["random_state"] = None
        return {name: value for name, value in values.items() if name not in _NOT_STORED}

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that `stored` returned; unknown ones are ignored."""
        settings = {
            setting.name: values[setting.name] for setting in fields(cls) if setting.name in values
        }
        if settings.get("targets") is not None:
            settings["targets"] = {
                view: Target(**target) for view, target in settings["targets"].items()
            }
        return cls(**settings)


@dataclass(frozen=True)
class CollectionInfo:
    """Facts about a collection.

    Attributes
    ----------
    n_items, n_labelled, n_labels : int
    n_thumbnails : int
    bytes_per_item : float
        Size of the index per item, without ids.
    code_bytes : int
        Size of one code.
    size_on_disk : int
        Size of the folder in bytes.
    encoders : dict of str to str
        The encoder of each view.
    method : str
    n_components, n_codebooks : int
    n_trained : int
        Items that the model was fitted on.
    trained_on : str
        Weights of labels and content, and whether the built-in image-text model was used.
    encoded_from : dict of str to int
        Number of items by the modalities of their codes.
    n_skipped : int
        Items that the build skipped.
    folders : tuple of str
        Folders that the collection tracks.
    built, changed : str
        Time of the build and of the last change: ISO 8601, UTC.
    generation : str
        Name of the build; a rebuild changes it.
    revision : int
        Grows with every added or removed item.
    version : str
        Version of acqh that built the collection.
    settings : dict
        The `BuildSettings` of the build.
    drift : dict
        The `acqh.quantize.Drift` of items added since the build. If
        ``retraining_recommended`` is true, retrain.
    model_outdated : bool
        Whether the installed built-in image-text model is newer than that of the build.
        Retraining uses the new one.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> rose = Item(text="a red rose", labels=["flower"], id="rose")
    >>> items = [rose, Item(text="a car", id="car")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Collection.build(items, folder + "/c.acqh", text_encoder="tfidf") as things:
    ...         info = things.info()
    >>> info.n_items, info.n_labels, info.code_bytes
    (2, 1, 8)
    """

    n_items: int
    n_labelled: int
    n_labels: int
    n_thumbnails: int
    bytes_per_item: float
    code_bytes: int
    size_on_disk: int
    encoders: dict[str, str]
    method: str
    n_components: int
    n_codebooks: int
    n_trained: int
    trained_on: str
    encoded_from: dict[str, int]
    n_skipped: int
    folders: tuple[str, ...]
    built: str
    changed: str
    generation: str
    revision: int
    version: str
    settings: dict[str, Any]
    drift: dict[str, Any]
    model_outdated: bool


@dataclass(frozen=True)
class CollectionReport:
    """Result of verifying a collection: its size and problems.

    Attributes
    ----------
    path : Path
    n_items : int
    n_bytes : int
        Size of the folder.
    problems : tuple of str
        One line for each damaged part; empty if all is well.
    notes : tuple of str
        What is not damage, such as an index that is behind and will catch up.
    settings : dict or None
        How it was built, as in `CollectionInfo`.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> from acqh.collection import Collection, Item
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Collection.build([Item(text="a rose"), Item(text="a car")], folder + "/c.acqh").close()
    ...     report = acqh.verify(folder + "/c.acqh")
    >>> report.ok, report.n_items
    (True, 2)
    """

    path: Path
    n_items: int
    n_bytes: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems
