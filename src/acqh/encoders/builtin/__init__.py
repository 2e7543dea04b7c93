"""The built-in image-text model: images and texts in one space, trained on captioned photographs.

It is a ridge regression from images to the vectors of their captions. It is stored as sufficient
statistics, to which other pairs can be added. What a second network says of an image is among the
predictors: probabilities of 1,000 classes times the texts of their names, the class evidence. A
rotation reduces the space of captions to the dimensions that queries use, with codebooks for them.
`tools/train_builtin_model.py` and `tools/train_class_evidence.py` train it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from io import BytesIO
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh.encoders.network import PlainEstimator
from acqh.errors import InvalidInputError

_FILE, _CLASSES_FILE = "builtin.npz", "classes.npz"
# Of version 4, whose classifier takes the features of images; also for features alone.
_OLD_CLASSES_FILE = "classes_4.npz"
# Of the tags of held-out photographs with this confidence or more, 90 % or more are right.
MIN_TAG_CONFIDENCE = 0.8
_FOLDS = 5
# Older versions, whose collections stay searchable. The maps of 3 are the first columns of today's,
# those of 5 are today's.
_WITHOUT_EVIDENCE, _OLD_EVIDENCE, _OLD_CODEBOOKS = 3, 4, 5
# For how many pairs of one's own the built-in image-text model may count.
_WEIGHTS = (0.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 40_000.0)


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Means and second moments (about zero) of pairs of an image and a text."""

    n: float  # number of pairs that they weigh
    image: Floats  # (n_image,)
    text: Floats  # (n_text,): means
    images: Floats  # (n_image, n_image)
    cross: Floats  # (n_image, n_text): means of products

    @classmethod
    def of(cls, X: Floats, Y: Floats) -> "PairMoments":
        """Return the moments of rows, (n, n_image) and (n, n_text)."""
        n = len(X)
        return cls(float(n), X.mean(axis=0), Y.mean(axis=0), X.T @ X / n, X.T @ Y / n)

    def plus(self, other: "PairMoments") -> "PairMoments":
        """Return the moments of both sets of pairs."""
        n = self.n + other.n
        share, rest = self.n / n, other.n / n
        return PairMoments(
            n,
            share * self.image + rest * other.image,
            share * self.text + rest * other.text,
            share * self.images + rest * other.images,
            share * self.cross + rest * other.cross,
        )

    def moved(self, image: Floats, text: Floats) -> "PairMoments":
        """Return the moments after a shift of the means; covariances stay."""
        return replace(
            self,
            image=image,
            text=text,
            images=self.images - np.outer(self.image, self.image) + np.outer(image, image),
            cross=self.cross - np.outer(self.image, self.text) + np.outer(image, text),
        )

    def regression(self, ridge: float) -> tuple[Floats, Floats]:
        """Return the map from images to texts, (n_image, n_text), and its intercept, (n_text,)."""
        gram = self.images - np.outer(self.image, self.image)
        level = ridge * max(float(np.trace(gram)) / len(gram), np.finfo(float).tiny)
        gram[np.diag_indices_from(gram)] += level
        from acqh._core.linalg import solve_spd  # SciPy, which the queries of texts do not need

        weights = solve_spd(gram, self.cross - np.outer(self.image, self.text))
        return weights, self.text - self.image @ weights


@dataclass(frozen=True, eq=False)
class BuiltinModel:
    """Images and texts in one space of 384 dimensions; see `builtin_model`.

    Attributes
    ----------
    arrays : mapping of str to ndarray
        Stored arrays of the package.
    pair_moments : PairMoments
        Of the built-in pairs, and of those that `refine` added.
    ridge : float
    n_added : int
        Number of pairs that `refine` added.
    means : ((n_image,), (n_text,)) or None
        Means to which `refine` shifted the built-in pairs. None before `refine`.

    Examples
    --------
    >>> import numpy as np
    >>> from acqh.encoders import builtin_model
    >>> model = builtin_model()
    >>> texts = np.ones((2, 384), dtype=np.float32)
    >>> model.project(texts, view="text").shape == (2, model.n_components)
    True
    """

    arrays: Mapping[str, Array]
    pair_moments: PairMoments
    ridge: float
    n_added: int = 0
    means: tuple[Floats, Floats] | None = None

    @property
    def version(self) -> int:
        """Number of the learning that the package carries."""
        return int(self.arrays["version"])

    @property
    def text_variance(self) -> Floats:
        """Second moments of the mapped texts of the built-in pairs, (n_text,)."""
        return np.asarray(self.arrays["text_variance"], dtype=np.float64)

    @property
    def n_components(self) -> int:
        """Number of dimensions of the space."""
        return int(self.arrays["to_item"].shape[1])

    def project(self, features: Floats, *, view: str) -> Floats:
        """Return queries: their inner products with item vectors are the scores.

        Parameters
        ----------
        features : (n_queries, 2280) or (n_queries, 384)
            Of `EfficientNetLite0` for the view ``"image"``, of `MiniLM` for ``"text"``. Of images
            also without class probabilities, which finds less: (n_queries, 1280).
        view : {"image", "text"}

        Returns
        -------
        (n_queries, n_components) float32
        """
        return self._directions(features, view) @ self._array("to_query")

    def item_vectors(self, features: Floats, *, view: str = "image") -> Floats:
        """Return the vectors of items, which are stored or quantized.

        Parameters
        ----------
        features : (n_items, 2280) or (n_items, 384)
        view : {"image", "text"}

        Returns
        -------
        (n_items, n_components) float32
        """
        return self._directions(features, view) @ self._array("to_item")

    def codebooks(self, bytes_per_item: int) -> Floats:
        """Return codebooks for item vectors, one for each byte.

        Parameters
        ----------
        bytes_per_item : {8, 16}

        Returns
        -------
        (bytes_per_item, 256, n_components) float32

        Raises
        ------
        InvalidInputError
            There are none of that size.
        """
        name = f"codebooks_{bytes_per_item}"
        if name not in self.arrays:
            sizes = sorted(int(key[10:]) for key in self.arrays if key.startswith("codebooks_"))
            raise InvalidInputError(
                f"the built-in model has codebooks of {sizes} bytes per item, not {bytes_per_item}"
            )
        return self._array(name)

    def refine(self, images: Floats, texts: Floats) -> "BuiltinModel":
        """Return the model with pairs of one's own added.

        For how many of them the built-in pairs count is chosen by cross-validation on one's own,
        from not at all to all: captions of another kind are not drowned. What was learnt from
        many counts as much as it may without being worse than the best choice by more than one
        standard error, so that a few pairs do not spoil it by chance.

        Parameters
        ----------
        images : (n_pairs, 2280)
            Features of `EfficientNetLite0`.
        texts : (n_pairs, 384)
            Of `MiniLM`, row by row.

        Returns
        -------
        BuiltinModel
        """
        X, Y = self.map_features(images, view="image"), self.map_features(texts, view="text")
        if len(X) != len(Y):
            raise InvalidInputError(f"{len(X)} images but {len(Y)} texts; give pairs")
        if len(X) < 2 * _FOLDS:
            return self
        fold = np.arange(len(X)) % _FOLDS
        scores = np.empty((len(_WEIGHTS), len(X)))
        for held in range(_FOLDS):
            pairs = PairMoments.of(X[fold != held], Y[fold != held])
            means = self._choose_means(X[fold != held], Y[fold != held])
            for place, weight in enumerate(_WEIGHTS):
                weights, intercept = self._with(pairs, weight, means).regression(self.ridge)
                predicted = unit_rows(X[fold == held] @ weights + intercept)
                scores[place, fold == held] = _agreement(unit_rows(Y[fold == held]), predicted)
        lost = scores[np.argmax(scores.mean(axis=1))] - scores
        allowed = lost.std(axis=1) / np.sqrt(len(X))
        largest = np.flatnonzero(lost.mean(axis=1) <= allowed)[-1]
        means = self._choose_means(X, Y)
        moments = self._with(PairMoments.of(X, Y), _WEIGHTS[largest], means)
        return replace(self, pair_moments=moments, n_added=len(X), means=means)

    def _choose_means(self, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
        """Return where built-in pairs would lie if they were of the kind of one's own.

        Tags differ from sentences, and one album from another, all in the same way: by the mean of
        what is left of the texts when they are predicted. As few pairs as there are may also
        differ by chance, so as much is taken off as chance would give (James and Stein).

        Parameters
        ----------
        X : (n_pairs, n_image)
        Y : (n_pairs, n_text)
            Mapped features of one's own pairs.

        Returns
        -------
        image : (n_image,)
        text : (n_text,)
        """
        weights, intercept = self._regression
        left = Y - (X @ weights + intercept)
        common = left.mean(axis=0)
        by_chance = float(np.square(left - common).sum()) / len(left) ** 2
        share = max(0.0, 1.0 - by_chance / max(float(common @ common), np.finfo(float).tiny))
        image = X.mean(axis=0, dtype=np.float64)
        return image, image @ weights + intercept + share * common

    def map_features(self, features: Floats, *, view: str) -> Floats:
        """Return the features that the sufficient statistics are computed from.

        Parameters
        ----------
        features : (n_items, 2280) or (n_items, 384)
        view : {"image", "text"}

        Returns
        -------
        (n_items, n_image) or (n_items, n_text) float32
        """
        if view not in ("image", "text"):
            raise InvalidInputError(f"view must be 'image' or 'text', got {view!r}")
        rows = self._checked(features, view)
        if view == "text":
            return np.asarray(unit_rows(rows - self._array("text_mean")) @ self._array("text_axes"))
        mapped = self._mapped_roots(rows)
        return _with_evidence(mapped, self.class_probabilities(rows), _CLASSES_FILE)

    def class_probabilities(self, features: Floats) -> Floats:
        """Return the probabilities of the classes of ImageNet.

        They are columns of the features, or follow from the others by a linear classifier.

        Parameters
        ----------
        features : (n_items, 2280)
            Of `EfficientNetLite0`.

        Returns
        -------
        (n_items, n_classes) float32
        """
        rows = self._checked(features, "image")
        width = len(self.arrays["image_mean"])
        if rows.shape[1] > width:
            return rows[:, width:]
        weights, bias = _classifier()
        logits = rows @ weights + bias
        exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))

    def suggest_tags(
        self, features: Floats, *, max_tags: int = 3, min_confidence: float = MIN_TAG_CONFIDENCE
    ) -> list[list[tuple[str, float]]]:
        """Return the names of what images show, where that is certain.

        Parameters
        ----------
        features : (n_items, 2280)
            Of `EfficientNetLite0`.
        max_tags : int
            Maximum number of tags of an image.
        min_confidence : float
            Tags of a lower confidence are not returned.

        Returns
        -------
        list of lists of (str, float)
            Tags of each image with their confidence, the most certain first. The confidence
            estimates the probability that the tag is right. It depends on the class probability
            and on the similarity of the image to the tag as a text.

        Examples
        --------
        >>> import numpy as np
        >>> from acqh.encoders import builtin_model
        >>> builtin_model().suggest_tags(np.zeros((1, 1280), dtype=np.float32))
        [[]]
        """
        stored = _stored(_CLASSES_FILE)
        names = stored["tag_names"].tolist()
        classes = self.class_probabilities(features)
        # A tag has one class or several: of two classes of one name, or of all breeds of dogs.
        chances = np.zeros((len(names), len(classes)), dtype=np.float32)
        np.add.at(chances, stored["tags"], classes.T[stored["tag_classes"]])
        chances = np.clip(chances.T, 1e-6, 1 - 1e-6)
        nearness = self._directions(features, "image") @ _tag_vectors().T
        by_odds, by_nearness, level = stored["tag_calibration"].tolist()
        odds = by_odds * np.log(chances / (1 - chances)) + by_nearness * nearness + level
        confidence = 1 / (1 + np.exp(-odds))
        best = np.argsort(-confidence, axis=1, kind="stable")[:, :max_tags]
        return [
            [
                (names[tag], round(float(row[tag]), 3))
                for tag in tags.tolist()
                if row[tag] >= min_confidence
            ]
            for row, tags in zip(confidence, best, strict=True)
        ]

    def _with(self, pairs: PairMoments, weight: float, means: tuple[Floats, Floats]) -> PairMoments:
        """Add own pairs to built-in ones, moved to where they would lie."""
        return replace(self.pair_moments, n=weight).moved(*means).plus(pairs) if weight else pairs

    @cached_property
    def _regression(self) -> tuple[Floats, Floats]:
        return self.pair_moments.regression(self.ridge)

    def _directions(self, features: Floats, view: str) -> Floats:
        mapped = self.map_features(features, view=view)
        if view == "text":
            return np.asarray(unit_rows(mapped))
        weights, intercept = self._regression
        return np.asarray(unit_rows(mapped @ weights + intercept))

    def _roots(self, rows: Floats) -> Floats:
        width = len(self.arrays["image_mean"])
        return np.asarray(unit_rows(np.sqrt(np.maximum(rows[:, :width], 0))))

    def _mapped_roots(self, rows: Floats) -> Floats:
        roots = self._roots(rows) - self._array("image_mean")
        return np.asarray(roots @ self._array("image_axes"))

    def _checked(self, features: Floats, view: str) -> Floats:
        rows, width = np.asarray(features, dtype=np.float32), len(self.arrays[f"{view}_mean"])
        widths = {width}
        if view == "image":
            width += len(_stored(_CLASSES_FILE)["evidence"])
        if rows.ndim != 2 or rows.shape[1] not in widths | {width}:
            encoder = "EfficientNetLite0" if view == "image" else "MiniLM"
            raise InvalidInputError(
                f"features of the view {view!r} have the shape {rows.shape}; give {width} columns, "
                f"as {encoder} makes them"
            )
        return rows

    def _array(self, name: str) -> Floats:
        return np.asarray(self.arrays[name], dtype=np.float32)


def _agreement(texts: Floats, images: Floats) -> Floats:
    """Return of every text the reciprocal rank of the own image."""
    scores = texts @ images.T
    ranks = (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)
    return np.asarray(1 / (1 + ranks))


class BuiltinMap(PlainEstimator):
    """The feature map of images or texts of the built-in model; fits nothing.

    Parameters
    ----------
    view : {"image", "text"}
    reduced : bool, default True
        Otherwise the unit roots of the features of images, without class evidence.

    Examples
    --------
    >>> from acqh.encoders.builtin import BuiltinMap
    >>> BuiltinMap("text").fit_transform(np.ones((2, 384), dtype=np.float32)).shape
    (2, 384)
    """

    _state_axes: ClassVar = {"version_": int}

    def __init__(self, view: str = "image", *, reduced: bool = True) -> None:
        self.view = view
        self.reduced = reduced

    def fit(self, X: Floats, y: Any = None) -> Self:  # noqa: ARG002
        """Check the rows.

        Parameters
        ----------
        X : (n_items, 2280) or (n_items, 384)
            Features of `EfficientNetLite0` or `MiniLM`.
        y : ignored

        Returns
        -------
        self
        """
        self.transform(X)
        return self

    def transform(self, X: Floats) -> Floats:
        """Return the mapped rows.

        Parameters
        ----------
        X : (n_items, 2280) or (n_items, 384)

        Returns
        -------
        (n_items, n_image) or (n_items, n_text) float32
        """
        model = builtin_model()
        if self.view == "text" or (self.reduced and self.version_ > _OLD_EVIDENCE):
            return model.map_features(X, view=self.view)
        rows = model._checked(X, "image")
        if not self.reduced:
            return model._roots(rows)
        mapped = model._mapped_roots(rows)
        if self.version_ == _WITHOUT_EVIDENCE:
            return mapped
        return _with_evidence(mapped, model.class_probabilities(rows), _OLD_CLASSES_FILE)

    @property
    def version_(self) -> int:
        """Version of the built-in image-text model that this map belongs to."""
        return getattr(self, "_version", builtin_model().version)

    @version_.setter
    def version_(self, version: int) -> None:
        newest = builtin_model().version
        if version not in (_WITHOUT_EVIDENCE, _OLD_EVIDENCE, _OLD_CODEBOOKS, newest):
            raise InvalidInputError(
                f"this was made with version {version} of the built-in model, and versions "
                f"{_WITHOUT_EVIDENCE} to {newest} can be loaded; build it again"
            )
        self._version = version

    @property
    def is_outdated(self) -> bool:
        """Whether a newer version of the built-in image-text model is installed."""
        return self.version_ < builtin_model().version


@cache
def builtin_model() -> BuiltinModel:
    """Return the model for images without captions.

    Trained on captioned photographs. "The built-in image-text model" in the documentation lists
    them and its limits. Features are those of `EfficientNetLite0` with its defaults
    and of `MiniLM`.

    Returns
    -------
    BuiltinModel

    Examples
    --------
    >>> import numpy as np
    >>> from acqh.encoders import builtin_model
    >>> model = builtin_model()
    >>> images = np.random.default_rng(0).random((3, 1280), dtype=np.float32)
    >>> model.item_vectors(images).shape == (3, model.n_components)
    True
    """
    arrays = _stored(_FILE)
    ridge, n_pairs = arrays["facts"].tolist()
    images = np.diag(arrays["image_variance"].astype(np.float64))
    cross = arrays["cross"].astype(np.float64)
    zero, mean = np.zeros(len(images)), arrays["text_average"].astype(np.float64)
    return BuiltinModel(arrays, PairMoments(n_pairs, zero, mean, images, cross), ridge)


@cache
def _stored(name: str) -> dict[str, Array]:
    packed = BytesIO((files("acqh.encoders.builtin") / name).read_bytes())
    with np.load(packed, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@cache
def _classifier() -> tuple[Floats, Floats]:
    """Return weights and bias of the classifier of features; text queries do without."""
    stored = _stored(_OLD_CLASSES_FILE)
    return stored["weights"] * stored["scales"].astype(np.float32), stored["bias"]


def _with_evidence(mapped: Floats, classes: Floats, name: str) -> Floats:
    """Return columns and class evidence, without what the others predict of it."""
    stored = _stored(name)
    further = classes @ _class_evidence(name) - stored["evidence_mean"]
    further -= mapped @ stored["evidence_from_image"].astype(np.float32)
    return np.hstack([mapped, further])


@cache
def _class_evidence(name: str) -> Floats:
    """Return what classes add to the mapped features of an image, (n_classes, n_columns)."""
    stored = _stored(name)
    return np.asarray(stored["evidence"] * stored["evidence_scales"].astype(np.float32))


@cache
def _tag_vectors() -> Floats:
    """Return the texts of the tags as directions, (n_tags, n_text)."""
    return np.asarray(unit_rows(_stored(_CLASSES_FILE)["tag_vectors"].astype(np.float32)))
