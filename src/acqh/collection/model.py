"""The encoders and the model of a generation: codes of items, vectors of queries, and facts."""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, get_type_hints

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, Matrix, is_sparse, unit_rows
from acqh._core.imports import require
from acqh._core.store import fits, pack, unpack
from acqh.collection.generations import current_folder
from acqh.collection.types import BuildSettings
from acqh.encoders.efficientnet import EfficientNetLite0
from acqh.encoders.minilm import MiniLM
from acqh.errors import AcqhError, CorruptBundleError, EncoderError, InvalidInputError
from acqh.io import read_bundle, write_bundle
from acqh.methods.query_maps import QueryMaps, query_maps_of
from acqh.methods.registry import HOMES, method_of, read_method
from acqh.quantize import Drift

if TYPE_CHECKING:
    from acqh.data import MultiViewData
    from acqh.methods.acqh import ACQH

ENCODERS, MODEL, INDEX = "encoders", "model", "index"
_UNRELATED = "unrelated queries"
# Items that are encoded at once, with images and without.
IMAGE_BATCH = 64
CHUNK_ROWS = 4_096
# How far the vector of an item follows that of a part of it which is given anew: chosen on 200
# images of COCO so that beginnings of captions find items as well as if these were encoded again
# (mean reciprocal rank 0.318 and 0.316; by images alone 0.104). Further, the image would not count.
_CHANGE = 0.7
# How a few words are asked for: as they are, or as a caption.
BARE, CAPTION = "{}", "a photo of a {}"
# More than these are a caption by themselves.
_FEW_WORDS = 3
# Items that are asked for as queries, at most.
_MAX_QUERIES = 256
# Fewer words that an encoder knows do not say what the twentieth part of them gets.
_MIN_WORDS = 40


# The encoders of raw items, by view; none where features are given.
Encoders: TypeAlias = Mapping[str, Any]


def fit_builtin_model(encoders: Encoders) -> bool:
    """Whether encoders make the features that the built-in image-text model was learnt from."""
    return makes_builtin_features(encoders.get("image")) and isinstance(
        encoders.get("text"), MiniLM
    )


def makes_builtin_features(image_encoder: Any) -> bool:
    """Whether an image encoder makes the features of the built-in image-text model."""
    is_usual = isinstance(image_encoder, EfficientNetLite0)
    return is_usual and image_encoder.size == EfficientNetLite0().size


def share_space(encoders: Encoders) -> bool:
    """Whether the encoders of images and texts are the two networks of one CLIP model."""
    sources = [getattr(encoders.get(view), "source_", None) for view in ("image", "text")]
    return sources[0] is not None and sources[0] == sources[1]


def encode_items(encoders: Encoders, images: Sequence[Any], texts: Sequence[str]) -> "ItemFeatures":
    """Return which items the encoders know anything of, and the features of these.

    Examples
    --------
    >>> from acqh.encoders import tfidf_vectorizer
    >>> encoders = {"text": tfidf_vectorizer().fit(["a rose", "a car"])}
    >>> rows, features = encode_items(encoders, [None, None], ["boat", "rose"])
    >>> rows.tolist(), len(features)
    ([1], 1)
    """
    return merge_views(encode_views(encoders, images, texts))


def encode_views(
    encoders: Encoders, images: Sequence[Any], texts: Sequence[str]
) -> dict[str, tuple[Matrix, Bools]]:
    """Return the result of `encode_view` for each view that any item has."""
    raw = {"image": images, "text": texts}
    available = {view: encoder for view, encoder in encoders.items() if any(map(bool, raw[view]))}
    return {view: encode_view(encoder, view, raw[view]) for view, encoder in available.items()}


def encode_view(encoder: Any, view: str, raw: Sequence[Any]) -> tuple[Matrix, Bools]:
    """Return one row per item, zero for those without the view, and which rows are not zero.

    `encoder`: object with ``transform``. `view`: {"image", "text"}. `raw`: sequence of images or
    str, (n_items,); None or an empty text where an item lacks the view.

    Raises EncoderError: the encoder cannot be loaded or run.
    """
    rows = np.flatnonzero([bool(value) for value in raw])
    if rows.size:
        try:
            features = encoder.transform([raw[row] for row in rows.tolist()])
        except InvalidInputError as error:
            raise EncoderError(f"the {view} encoder failed: {error}") from error
    elif hasattr(encoder, "n_features_out"):
        return np.zeros((len(raw), encoder.n_features_out), np.float32), np.zeros(len(raw), bool)
    else:  # encoders of others need not know their width, nor cope with no items
        features = encoder.transform([_blank(view)])[:0]
    if is_sparse(features):
        import scipy.sparse as sp

        ones = np.ones(len(rows), features.dtype)
        places = sp.csr_array((ones, (rows, np.arange(len(rows)))), shape=(len(raw), len(rows)))
        matrix = sp.csr_array(places @ features)
        return matrix, np.diff(matrix.indptr) > 0
    matrix = np.zeros((len(raw), features.shape[1]), dtype=features.dtype)
    matrix[rows] = features
    return matrix, np.asarray(matrix.any(axis=1))


def _blank(view: str) -> Any:
    return "a" if view == "text" else require("PIL.Image").new("RGB", (8, 8))


# Which items have features, by their numbers from 0, and those features; None where none has.
ItemFeatures = tuple[Ints, "MultiViewData | None"]


def merge_views(views: Mapping[str, tuple[Matrix, Bools]]) -> ItemFeatures:
    """Return which items have any view, from each view's features and who has it."""
    from acqh.data import MultiViewData

    masks = [present for _, present in views.values()]
    rows = np.flatnonzero(np.any(masks, axis=0)) if masks else np.zeros(0, np.int64)
    if rows.size == 0:
        return rows, None
    return rows, MultiViewData(
        {view: matrix[rows] for view, (matrix, _) in views.items()},
        present={view: mask[rows] for view, (_, mask) in views.items()},
    )


class Coder:
    """A fitted model: gives items their codes and queries their vectors.

    `maps`: of the model, which is all that queries need. `load`: returns the model; called when it
    is first needed.
    """

    def __init__(self, maps: QueryMaps, load: Callable[[], "ACQH"]) -> None:
        self.maps = maps
        self._load = load

    @classmethod
    def of(cls, model: "ACQH") -> Self:
        """Return the coder of a model that is there."""
        return cls(QueryMaps.of(model), lambda: model)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the coder of a model that was saved.

        Raises CorruptBundleError: it is damaged, or no `ACQH`.
        """
        # Read now: by the time that the model is needed, the path may hold another collection's.
        bundle = read_method(path)
        return cls(query_maps_of(bundle), partial(method_of, bundle))

    @cached_property
    def model(self) -> "ACQH":
        """The whole model, which takes longer to load than a query to answer."""
        return self._load()

    @property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return len(self.maps.codebooks)

    def encode(
        self, labels: Sequence[Sequence[str]], item_features: ItemFeatures
    ) -> tuple[Array, list[str]]:
        """Code items by whatever the model knows of them: labels and views.

        `labels`: of all items; those that the model was not fitted with are ignored. Gives
        `codes`, uint8 (n_items, n_codebooks), and `encoded_from`: their sources, empty for items
        that have nothing that the model knows.
        """
        codes = np.zeros((len(labels), self.model.n_codebooks), dtype=np.uint8)
        return codes, self._fill(codes, self.model.encode, labels, item_features)

    def fit_of(
        self, codes: Array, labels: Sequence[Sequence[str]], item_features: ItemFeatures
    ) -> Drift:
        """Say how well codes fit the items that they were made of by `encode`."""
        vectors = np.zeros((len(codes), self.model.n_components), self.model.codebooks_.dtype)
        is_known = [bool(by) for by in self._fill(vectors, self.model.embed, labels, item_features)]
        return Drift(None).after(vectors[is_known], self.model.decode(codes[is_known]))

    def encode_change(
        self,
        codes: Array,
        before: tuple[Sequence[Sequence[str]], ItemFeatures],
        after: tuple[Sequence[Sequence[str]], ItemFeatures],
    ) -> Array:
        """Encode changed items whose other parts, such as images, are known from their codes alone.

        `before` and `after`: labels and descriptions of the part that changes. An item's vector
        moves with the vector of this part; where it was not known before, it was what the rest
        suggests. Where it is not known after, the code stays.
        """
        from acqh.quantize import search_codes

        model = self.model
        vectors = np.asarray(model.decode(codes))
        old, new = vectors.copy(), vectors.copy()
        self._fill(old, model.embed, *before)
        is_known = [bool(by) for by in self._fill(new, model.embed, *after)]
        targets = (vectors + _CHANGE * (new - old))[is_known]
        metric = model.code_metric_
        linear = targets if metric is None else targets @ metric
        changed = codes.copy()
        changed[is_known] = search_codes(linear, model.codebooks_, metric=metric)
        return changed

    def _fill(
        self,
        rows_of: Array,
        compute: Callable[..., Array],
        labels: Sequence[Sequence[str]],
        item_features: ItemFeatures,
    ) -> list[str]:
        """Set the rows of items that the model can encode; return their sources, by item."""
        model = self.model
        names = set(model.label_names_) if "labels" in model.targets_ else set()
        sets = [set(item_labels) & names for item_labels in labels]
        encoded_from = [["labels"] if label_set else [] for label_set in sets]
        by_labels = {row for row, label_set in enumerate(sets) if label_set}
        rows, features = self._known_views(*item_features)
        if features is not None:
            label_sets = [sets[row] for row in rows.tolist()] if names else None
            # Labels are those of the items, by name; the data's own columns may stand otherwise.
            rows_of[rows] = compute(features.without_labels(), labels=label_sets)
            for view in filter(features.present.__contains__, model.n_features_in_):
                for at in np.flatnonzero(features.present[view]):
                    encoded_from[rows[at]].append(view)
        if alone := sorted(by_labels.difference(rows.tolist())):
            rows_of[alone] = compute(labels=[sets[row] for row in alone])
        return ["+".join(label_set) for label_set in encoded_from]

    def _known_views(self, rows: Ints, features: "MultiViewData | None") -> ItemFeatures:
        """Return the items that have views which the model knows, with these alone."""
        if features is None or features.views.keys() <= self.model.n_features_in_.keys():
            return rows, features
        views = [name for name in self.model.n_features_in_ if name in features.views]
        chosen, known_views = merge_views(
            {name: (features.views[name], features.present[name]) for name in views}
        )
        return rows[chosen], known_views

    def query(self, view: str, features: Matrix) -> Floats:
        """Return the query vector of one row of features; (n_components,) float32."""
        return np.asarray(self.maps.project(features, view=view)[0], dtype=np.float32)

    def query_of(self, code: bytes) -> Floats:
        """Return the query vector that stands for a stored item; (n_components,) float32."""
        codes = np.frombuffer(code, dtype=np.uint8)[np.newaxis]
        return np.asarray(self.model.project_codes(codes)[0], dtype=np.float32)


def phrase(text: str, asked_as: str) -> str:
    """Return the text to encode for a query: a few words as part of a caption.

    `asked_as`: `BARE` or `CAPTION`.

    Examples
    --------
    >>> phrase("red car", CAPTION), phrase("a red car by a lake", CAPTION)
    ('a photo of a red car', 'a red car by a lake')
    """
    return asked_as.replace("{}", text) if len(text.split()) <= _FEW_WORDS else text


def unrelated_queries(
    encoders: Encoders, coder: Coder, codes: Array, asked_as: str
) -> dict[str, Floats]:
    """Return queries by which levels are measured.

    `codes`: uint8 (n_items, n_codebooks). `asked_as`: see `phrase`. Returns "words",
    (n_words, n_components): names of things that most collections lack; empty without a text
    encoder. And "items", (n_queries, n_components): items, which are unlike most others.
    """
    chosen = codes[:: math.ceil(len(codes) / _MAX_QUERIES) or 1]
    items = unit_rows(coder.model.project_codes(chosen))
    queries = {"items": items, "words": coder.maps.codebooks[0, :0]}
    if "text" in encoders and "text" in coder.maps.widths:
        features, is_known = encode_things(encoders["text"], asked_as)
        if is_known.sum() >= _MIN_WORDS:
            words = coder.maps.project(features[is_known], view="text")
            queries["words"] = words if asked_as == CAPTION else unit_rows(words)
    return {name: rows.astype(np.float16) for name, rows in queries.items()}


def names_of_things(asked_as: str) -> list[str]:
    """Return names of things that most collections lack, as queries; `asked_as`: see `phrase`."""
    words = (files("acqh.collection") / "things.txt").read_text(encoding="utf-8").split()
    return [phrase(word, asked_as) for word in words]


def encode_things(encoder: Any, asked_as: str) -> tuple[Matrix, Bools]:
    """Return the features of names of things as queries, and which of them the encoder knows."""
    weights = getattr(encoder, "fingerprint_", None)
    key = weights, asked_as
    if weights is None or key not in _known_things:
        if isinstance(encoder, MiniLM):  # its own language is that of captions
            encoder = SimpleNamespace(transform=encoder.transform_english)
        things = encode_view(encoder, "text", names_of_things(asked_as))
        if weights is None:
            return things
        _known_things[key] = things
    return _known_things[key]


# By the weights of a network, which takes a second for them.
_known_things: dict[tuple[str | None, str], tuple[Matrix, Bools]] = {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """Facts about a generation: settings, encoders and training."""

    name: str
    generation: str
    site_key: str  # secret of published ids; retraining and overwriting keep it
    encoders: Encoders
    trained_on: str
    n_trained: int
    n_skipped: int
    asked_as: str  # how a few words are asked for; see `phrase`
    expected_error: float | None  # of items that are added; see `Drift`
    version: str
    settings: BuildSettings
    unrelated: Mapping[str, Floats]  # see `unrelated_queries`


# Those that the bundle has as they are.
_PLAIN = (
    *("generation", "site_key", "trained_on", "n_trained", "n_skipped", "asked_as"),
    "expected_error",
)


def check_parts(folder: Path) -> None:
    """Raise CorruptBundleError if a part of a generation is a link."""
    for part in (ENCODERS, MODEL, INDEX):
        if (folder / part).is_symlink():
            raise CorruptBundleError(
                f"{folder / part} is a link; a collection holds its parts itself"
            )


def write_facts(folder: Path, facts: Facts) -> None:
    """Write the encoders of a generation, and how it was built."""
    states = {view: pack(encoder, HOMES) for view, encoder in facts.encoders.items()}
    info = {
        "encoders": {view: description for view, (description, _) in states.items()},
        "acqh": facts.version,
        "settings": facts.settings.stored(),
        **{name: getattr(facts, name) for name in _PLAIN},
    }
    arrays = {view: state for view, (_, state) in states.items()}
    arrays[_UNRELATED] = dict(facts.unrelated)
    write_bundle(folder / ENCODERS, kind=ENCODERS, name=facts.name, info=info, arrays=arrays)


def read_facts(folder: Path) -> Facts:
    """Read what `write_facts` wrote; raise CorruptBundleError where it is damaged or missing."""
    try:
        bundle = read_bundle(folder / ENCODERS, kind=ENCODERS, mmap=False, verify=True)
    except (FileNotFoundError, InvalidInputError) as error:
        raise CorruptBundleError(f"{error}; build the collection again") from error
    kinds = get_type_hints(Facts)
    plain = {name: bundle.info.get(name) for name in _PLAIN}
    are_plain = all(fits(value, kinds[name]) for name, value in plain.items())
    descriptions, version, stored = map(bundle.info.get, ("encoders", "acqh", "settings"))
    if not (
        are_plain and plain["asked_as"] in (BARE, CAPTION) and isinstance(version, str)
    ) or not (isinstance(descriptions, dict) and isinstance(stored, dict)):
        raise CorruptBundleError(f"{folder} has no valid facts of a collection")
    try:
        encoders = {
            view: unpack(description, bundle.arrays(view), HOMES)
            for view, description in descriptions.items()
        }
    except InvalidInputError as error:
        raise CorruptBundleError(
            f"the encoders of {folder} cannot be read: {error}; where one is your own class, "
            "register it first with acqh.encoders.register_encoder"
        ) from error
    unrelated = bundle.arrays(_UNRELATED)
    if unrelated.keys() != {"items", "words"} or not all(
        rows.ndim == 2 and np.isfinite(rows).all() for rows in unrelated.values()
    ):
        raise CorruptBundleError(f"{folder} does not hold the queries that a collection has")
    try:
        settings = BuildSettings.from_stored(stored)
    except (InvalidInputError, AttributeError, TypeError) as error:
        raise CorruptBundleError(
            f"{folder} does not say how it was built, but {stored!r}"
        ) from error
    parts: dict[str, Any] = {**plain, "settings": settings, "unrelated": unrelated}
    return Facts(name=bundle.name, encoders=encoders, version=version, **parts)


def site_key_of(path: Path) -> str:
    """Return the site key of the collection at a path, or a new one if it has none."""
    try:
        bundle = read_bundle(current_folder(path) / ENCODERS, kind=ENCODERS)
        key = bundle.info.get("site_key")
    except (AcqhError, OSError):
        key = None
    return key if isinstance(key, str) else secrets.token_hex(16)
