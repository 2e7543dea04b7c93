"""The space in which queries and items of any kind meet: from what is known to vectors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from acqh._core.arrays import (
    CHUNK_ROWS,
    Array,
    Bools,
    Floats,
    Ints,
    Matrix,
    count_paired,
    group_rows,
    is_sparse,
    is_tensor,
    slices,
    unit_rows,
)
from acqh._core.device import to_tensor
from acqh._core.labels import as_label_matrix
from acqh._core.linalg import RANK_TOLERANCE, fix_signs, mean_diagonal, solve_spd
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.targets import LABELS, MapRows, Target
from acqh.stats import Regression
from acqh.stats.moments import LabelSets
from acqh.stats.sample import RowSample

# From two 0/1 matrices (n, n_labels) and (m, n_labels) to similarities (n, m).
Similarity: TypeAlias = Callable[[Array, Array], Array]

# More embedding dimensions than this have never changed a figure.
MAX_DIMENSIONS = 64
# Directions with less than this share of the strongest one's eigenvalue are rounding noise.
_EIGENVALUE_TOLERANCE = 1e-6
# With more label sets than this the embedding is learnt from a sample of them.
MAX_LANDMARKS = 4096
# Above this many labels the label vectors themselves are too long to be the embedding.
_MAX_LABELS = 2048
# From so many labels on, of which items have less than such a share, shared ones are counted by
# sparse products, whose cost does not grow with the number of labels.
_WIDE_LABELS, _FEW_LABELS = 128, 0.02
# Label sets are compared with the landmarks in blocks of this many.
_BLOCK_SETS = 8192
# Up to this many sets all eigenpairs are computed, above those of a Krylov space of this size.
_DENSE_EIGEN_SETS = 512
_BLOCK_VECTORS = MAX_DIMENSIONS // 2
_N_BLOCKS = 5


# Of the number of shared labels, and those of either: the counts are (n,), (n, 1) or numbers.
_FORMULAS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    # The paper's ``S = L L^T``.
    "dot": lambda common, one, other: common,  # noqa: ARG005
    # Over the geometric mean of the numbers of labels.
    "cosine": lambda common, one, other: common / np.sqrt(np.maximum(one * other, 1.0)),
    # Over all labels of either.
    "jaccard": lambda common, one, other: common / np.maximum(one + other - common, 1.0),
    # 1 if a label is shared, otherwise 0: what an evaluation calls relevant.
    "shared": lambda common, one, other: np.minimum(common, 1.0, out=common),  # noqa: ARG005
}


def compare_labels(name: str, a: Array, b: Array) -> Matrix:
    """Return the similarities of label sets, (n_sets, n_others), all zero where none is shared.

    CSR where sets have few of many labels, so that the cost does not grow with their number.

    Examples
    --------
    >>> compare_labels("jaccard", np.array([[1, 1, 0]]), np.array([[1, 0, 0], [0, 0, 1]]))
    array([[0.5, 0. ]])
    """
    ours, theirs = (it.sum(axis=1, dtype=np.float64) for it in (a, b))
    if a.shape[1] < _WIDE_LABELS or ours.sum() > _FEW_LABELS * a.size:
        common = np.asarray(a, dtype=np.float64) @ np.asarray(b, dtype=np.float64).T
        return _FORMULAS[name](common, ours[:, np.newaxis], theirs)
    ones, others = (sp.csr_array(it.astype(bool)).astype(np.float64) for it in (a, b))
    shared = sp.coo_array(ones @ others.T)
    values = _FORMULAS[name](shared.data, ours[shared.row], theirs[shared.col])
    return sp.csr_array((values, shared.coords), shape=shared.shape)


SIMILARITIES = tuple(sorted(_FORMULAS))


@dataclass(frozen=True)
class LabelEmbedding:
    """Vectors of label sets whose inner products are close to their similarities."""

    similarity: str | Similarity
    # uint8 (n_landmarks, n_labels): the label sets that any other is compared with; none where the
    # vectors are the labels.
    landmarks: Array
    # (n_landmarks, n_dimensions): from similarities with the landmarks to the vector: the Nyström
    # extension.
    map: Floats

    def transform(self, labels: Matrix) -> Floats:
        """Return the vectors of label sets, also of sets never seen.

        `labels`: 0/1 (n_items, n_labels), dense or CSR. Gives (n_items, n_dimensions) float64.
        """
        width = self.map.shape[1] if len(self.landmarks) else labels.shape[1]
        blocks: list[Floats] = [np.zeros((0, width))]
        for rows in slices(labels.shape[0], _BLOCK_SETS):
            part = labels[rows]
            block = np.asarray(part.toarray() if is_sparse(part) else part)
            if len(self.landmarks):
                blocks.append(_compare(self.similarity, block, self.landmarks) @ self.map)
            else:
                wide = block.astype(np.float64)
                blocks.append(unit_rows(wide) if self.similarity == "cosine" else wide)
        return np.concatenate(blocks)


def embed(
    similarity: str | Similarity, sets: Array, counts: Floats, rng: np.random.Generator
) -> LabelEmbedding:
    """Find vectors of label sets whose inner products are close to their similarities.

    The label vectors themselves for ``"dot"``, their unit vectors for ``"cosine"``. Otherwise
    the leading positive eigenpairs of the similarity matrix weighted by how many items carry
    each set, which is the best embedding of that many dimensions over the items. The matrix
    has one row per distinct set, or a sample of `MAX_LANDMARKS` of them where there are more:
    half of them the most frequent, the others drawn evenly.

    `similarity`: a callable gets two 0/1 matrices and returns the matrix of similarities. `sets`:
    uint8 (n_sets, n_labels); distinct label sets. `counts`: (n_sets,); how many items carry each.

    Examples
    --------
    >>> sets = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8)
    >>> found = embed("jaccard", sets, np.ones(3), np.random.default_rng(0)).transform(sets)
    >>> np.round(found @ found.T, 2)
    array([[1. , 0. , 0.5],
           [0. , 1. , 0.5],
           [0.5, 0.5, 1. ]])
    """
    n_labels = sets.shape[1]
    if similarity in ("dot", "cosine") and n_labels <= _MAX_LABELS:
        return LabelEmbedding(similarity, np.zeros((0, n_labels), np.uint8), np.zeros((0, 0)))
    landmarks, weights = _choose_landmarks(sets, counts, rng)
    root = np.sqrt(weights)
    matrix = _compare(similarity, landmarks, landmarks)
    if callable(similarity) and not np.allclose(matrix, matrix.T, atol=1e-8):
        raise InvalidInputError("the similarity is not symmetric: s(a, b) must equal s(b, a)")
    if is_sparse(matrix):
        matrix = sp.diags_array(root) @ matrix @ sp.diags_array(root)
    else:
        matrix *= root
        matrix *= root[:, None]
    values, vectors = _leading_eigenpairs(matrix)
    return LabelEmbedding(similarity, landmarks, root[:, None] * vectors / np.sqrt(values))


def embed_items(similarity: str | Similarity, labels: Matrix, rng: np.random.Generator) -> Floats:
    """Return the vectors of the label sets of items, rows of NaN where an item has no labels.

    `labels`: 0/1 (n_items, n_labels), dense, CSR or tensor. Gives (n_items, n_dimensions).
    """
    found = LabelSets(labels.shape[1])
    if is_tensor(labels):
        labels, _ = as_label_matrix(labels.cpu().numpy())
    numbers = found.number(labels)
    sets, counts = found.matrix(), np.bincount(numbers[numbers >= 0], minlength=len(found))
    vectors = embed(similarity, sets, counts.astype(np.float64), rng).transform(sets)
    return np.where(numbers[:, np.newaxis] >= 0, vectors[numbers], np.nan)


def _compare(similarity: str | Similarity, block: Array, landmarks: Array) -> Matrix:
    if isinstance(similarity, str):
        return compare_labels(similarity, block, landmarks)
    # Functions of one's own need not care for how small integers overflow.
    wide = block.astype(np.float64), landmarks.astype(np.float64)
    found = np.asarray(similarity(*wide), dtype=np.float64)
    if found.shape != (len(block), len(landmarks)) or not np.isfinite(found).all():
        raise InvalidInputError(
            f"the similarity must give finite numbers of shape {(len(block), len(landmarks))}, "
            f"got shape {found.shape}"
        )
    return found


def _choose_landmarks(
    sets: Array, counts: Floats, rng: np.random.Generator
) -> tuple[Array, Floats]:
    if len(sets) <= MAX_LANDMARKS:
        return sets, counts
    order = np.argsort(-counts, kind="stable")
    frequent, rest = np.split(order, [MAX_LANDMARKS // 2])
    drawn = np.sort(rng.choice(rest, MAX_LANDMARKS - len(frequent), replace=False))
    # Those drawn stand for all the rest.
    scale = counts[rest].sum() / counts[drawn].sum()
    chosen = np.concatenate([frequent, drawn])
    return sets[chosen], np.concatenate([counts[frequent], scale * counts[drawn]])


def _leading_eigenpairs(matrix: Matrix) -> tuple[Floats, Floats]:
    """Return the leading positive eigenvalues, falling, and their vectors.

    Of large matrices those within a block Krylov space, which settles the strong directions to
    rounding and the weakest ones to what they matter.
    """
    basis = None
    if matrix.shape[0] > _DENSE_EIGEN_SETS:
        basis, matrix = _project_krylov(matrix)
    elif is_sparse(matrix):
        matrix = matrix.toarray()
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    values = values[::-1][:MAX_DIMENSIONS]
    vectors = vectors[:, ::-1][:, :MAX_DIMENSIONS]
    keep = values > _EIGENVALUE_TOLERANCE * max(values[0], 0.0)
    if not keep.any():
        raise InvalidInputError("the similarity of every label set with itself must be positive")
    vectors = vectors[:, keep] if basis is None else basis @ vectors[:, keep]
    return values[keep], fix_signs(vectors)


def _project_krylov(matrix: Matrix) -> tuple[Floats, Floats]:
    """Return an orthonormal basis of a block Krylov space, and the matrix in that basis."""
    block = np.random.default_rng(0).standard_normal((matrix.shape[0], _BLOCK_VECTORS))
    basis = np.zeros((matrix.shape[0], 0))
    image = np.zeros((matrix.shape[0], 0))
    product = matrix @ block
    for _ in range(_N_BLOCKS):
        block = product
        for _ in range(2):  # once more for what rounding left
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
        product = matrix @ block
        basis = np.hstack([basis, block])
        image = np.hstack([image, product])
    return basis, basis.T @ image


# No direction of a prediction is trusted more than this much over knowing nothing, or, where that
# does not count, over the least trusted direction.
_LEAST_ERROR = 1e-6


@dataclass(frozen=True)
class Block:
    """The vectors of one target; the inner products of two of them are their similarity."""

    target: Target  # with the rank that was used
    # The view that gives the vectors exactly, or ``"labels"``; empty where nothing does.
    source: str
    # (n_features, rank): from the features of the source, of unit length for a cosine, to vectors.
    map: Floats
    offset: Floats  # (rank,): added
    mean: Floats  # (rank,): over all items that have the target
    spread: Floats  # (rank, rank): symmetric root of their covariance
    # How often what is known without any source counts where several predict the vectors: once, or
    # not at all, where the vectors are code vectors of labels alone.
    prior: float = 1.0

    @property
    def rank(self) -> int:
        """Length of the vectors."""
        return int(self.map.shape[1])

    @property
    def is_unit(self) -> bool:
        """Whether the features are scaled to unit length first."""
        return self.target.similarity == "cosine"

    def transform(self, features: Matrix) -> Floats:
        """Return the vectors of rows of the source's features."""
        return np.asarray(features @ self.map + self.offset)


@dataclass(frozen=True)
class Predictor:
    """The linear prediction of a block from one source, and how far it is to be trusted."""

    coefficients: Floats  # (n_features, rank)
    intercept: Floats  # (rank,)
    # (rank, rank): inverse covariance of the error on items not seen, in units of the spread.
    precision: Floats
    ridge: float  # strength used, relative to the mean diagonal of the Gram matrix

    def predict(self, features: Matrix) -> Floats:
        """Return the vectors that rows of features predict."""
        return np.asarray(features @ self.coefficients + self.intercept)


def make_predictor(block: Block, learnt: Regression) -> Predictor:
    """Return the prediction of a block, with its precision in units of the block's own spread.

    There, knowing nothing is the identity; no prediction has less precision than that.
    """
    if block.prior:
        error = np.linalg.solve(block.spread, np.linalg.solve(block.spread, learnt.residual).T)
        values, vectors = scipy.linalg.eigh((error + error.T) / 2.0, check_finite=False)
        precision = (vectors / np.clip(values, _LEAST_ERROR, 1.0)) @ vectors.T
    else:
        error = learnt.residual
        # Where nothing is ever wrong, all sources are trusted alike.
        floor = max(_LEAST_ERROR * mean_diagonal(error), 0.0) or 1.0
        identity = np.eye(block.rank)
        precision = solve_spd(error + floor * identity, identity)
    return Predictor(learnt.coefficients, learnt.intercept, np.asarray(precision), learnt.ridge)


def vote_weights(block: Block, votes: Sequence[Predictor]) -> list[Floats]:
    """Return what each source counts where several predict a block, each (rank, rank).

    Sources are taken to be independent but for the block itself, so their precisions add up,
    and what is known without any, the mean and covariance C of the block, must count once:

        mean + (C^-1 + sum_s (R_s^-1 - C^-1))^-1 sum_s R_s^-1 (y_s - mean)

    A source that cannot predict has R = C and says y = mean: it changes nothing. In rows,
    ``y - mean`` is multiplied by the weight of its source.
    """
    total = np.sum([it.precision for it in votes], axis=0)
    total -= block.prior * (len(votes) - 1) * np.eye(block.rank)
    shared = solve_spd(total, block.spread)
    return [np.linalg.solve(block.spread, it.precision) @ shared for it in votes]


class Part(NamedTuple):
    """One linear map of a source, and where what it gives is added."""

    source: str
    is_unit: bool  # whether of rows scaled to unit length
    place: slice
    map: Any  # (n_features, n_places): array or tensor


@dataclass(frozen=True)
class ItemMaps:
    """Vectors of items that are known by certain sources and no others: a sum of linear maps."""

    parts: list[Part]
    offset: Any  # (n_dimensions,): added
    # (n_dimensions,) and a number: mean and mean squared length that the sum is scaled by; None:
    # not at all.
    usual: tuple[Any, float] | None = None
    target_map: Any = None  # (n_dimensions, n_components): comes after; None: the sum is the vector

    def on(self, device: Any) -> "ItemMaps":
        """Return the same maps as tensors."""
        return ItemMaps(
            [part._replace(map=to_tensor(part.map, device)) for part in self.parts],
            to_tensor(self.offset, device),
            None if self.usual is None else (to_tensor(self.usual[0], device), self.usual[1]),
            None if self.target_map is None else to_tensor(self.target_map, device),
        )

    def apply(self, known: Mapping[str, Any]) -> Any:
        """Return the vectors of rows, (n_rows, n_dimensions) float64.

        `known`: each (n_rows, n_features), arrays, CSR or tensors: mapped features of every view,
        and for ``"labels"`` embeddings of the label sets.
        """
        first = next(iter(known.values()))
        if is_tensor(first):
            total = self.offset.repeat(first.shape[0], 1)
            known = {source: rows.to(total.dtype) for source, rows in known.items()}
        else:
            total = np.tile(self.offset, (first.shape[0], 1))
        for source, is_unit, place, own in self.parts:
            total[:, place] += (unit_rows(known[source]) if is_unit else known[source]) @ own
        if self.usual is not None:
            total = stretch(total, *self.usual)
        return total if self.target_map is None else total @ self.target_map


def stretch(described: Any, mean: Any, usual: float) -> Any:
    """Return blocks of items with the usual mean squared length.

    A prediction is the truth drawn towards the mean of all items. So each goes on from the mean
    in its direction, to where vectors are as long as known ones are in the mean square. To
    scale the mean too would raise items of which little is known, which are all but the mean.
    """
    away = described - mean
    along, lengths = away @ mean, (away * away).sum(1)
    room = max(usual - float(mean @ mean), 0.0)
    # The positive root of |mean + step * away|^2 = usual; where nothing is known, no step.
    known = lengths > RANK_TOLERANCE**2 * usual
    steps = known * ((along**2 + lengths * room) ** 0.5 - along) / (lengths + ~known)
    return mean + steps[:, None] * away


@dataclass(frozen=True)
class Space:
    """From whatever is known of an item to its vector, and from a query to its own.

    With labels alone there is one block, of code vectors, and label sets have codes of their own.
    """

    blocks: dict[str, Block]  # by target
    # By source, then by target: of the blocks that the source does not give exactly.
    predictors: dict[str, dict[str, Predictor]]
    embedding: LabelEmbedding | None  # of label sets; None where labels are no target
    # (n_dimensions, n_components): from all blocks, side by side, to query vectors; with labels
    # alone from label embeddings.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from all blocks to code vectors
    # Whether the blocks of an item, taken together, get the usual length; see `stretch`.
    is_normalized: bool
    # With labels alone, the fitted sets: uint8 (n_sets, ceil(n_labels / 8)), as bits.
    label_sets: Array | None = None
    label_codes: Array | None = None  # uint8 (n_sets, n_codebooks)
    _folded: dict[Any, ItemMaps] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def targets(self) -> dict[str, Target]:
        """The targets, with the ranks that were used."""
        return {name: block.target for name, block in self.blocks.items()}

    @property
    def knows_labels(self) -> bool:
        """Whether labels are a target."""
        return LABELS in self.blocks

    @property
    def is_plain(self) -> bool:
        """Whether labels are the only target, and label sets have codes of their own."""
        return self.label_codes is not None

    def fold(self, sources: Iterable[str]) -> ItemMaps:
        """Return the maps to all blocks, side by side, each by the root of its weight.

        Of items that are known by these sources and no others: exact where the source of a block is
        known and trusted, otherwise predicted from what is known.
        """
        key = tuple(sources)
        if key not in self._folded:
            self._folded[key] = self._fold(key)
        return self._folded[key]

    def _fold(self, sources: tuple[str, ...]) -> ItemMaps:
        parts: list[Part] = []
        offset = np.empty(sum(block.rank for block in self.blocks.values()))
        for name, block, place in self._placed():
            scale = np.sqrt(block.target.weight)
            maps, added = self._fold_block(name, block, sources)
            offset[place] = scale * added
            parts += [
                Part(source, block.is_unit and source == block.source, place, scale * own)
                for source, own in maps.items()
            ]
        return ItemMaps(parts, offset)

    def _fold_block(
        self, name: str, block: Block, sources: Sequence[str]
    ) -> tuple[dict[str, Floats], Floats]:
        """Return the maps of one block, by source, and what is added."""
        own = {
            source: self.predictors[source][name]
            for source in sources
            if source != block.source and name in self.predictors[source]
        }
        is_known = block.source in sources
        trust = float(block.target.trust) if own else 1.0
        if is_known and trust == 1:
            return {block.source: block.map}, block.offset
        maps: dict[str, Floats] = {}
        offset = block.mean
        if len(own) == 1:
            ((source, only),) = own.items()
            maps, offset = {source: only.coefficients}, only.intercept
        elif own:
            weights = vote_weights(block, [*own.values()])
            for (source, it), weight in zip(own.items(), weights, strict=True):
                maps[source] = it.coefficients @ weight
                offset = offset + (it.intercept - block.mean) @ weight
        if is_known:
            maps = {source: (1 - trust) * it for source, it in maps.items()}
            maps[block.source] = trust * block.map
            offset = trust * block.offset + (1 - trust) * offset
        return maps, offset

    def _placed(self) -> Iterator[tuple[str, Block, slice]]:
        """Yield every block, and where it stands among all of them side by side."""
        start = 0
        for name, block in self.blocks.items():
            yield name, block, slice(start, start + block.rank)
            start += block.rank

    def fold_items(self, sources: Iterable[str]) -> ItemMaps:
        """Return the maps to code vectors of items known by these sources and no others."""
        key = (*sources, "")
        if key not in self._folded:
            folded = self.fold(key[:-1])
            if self.is_normalized:
                folded = replace(folded, usual=self.usual, target_map=self.target_map)
            else:
                folded = _folded_into(folded, self.target_map)
            self._folded[key] = folded
        return self._folded[key]

    @property
    def metric(self) -> Floats:
        """``J^T J``: makes the query vector of a code vector, (n_components, n_components)."""
        return self.query_map.T @ self.query_map

    def fold_query(self, view: str) -> tuple[Floats, Floats, Floats | None]:
        """Return the map from a view's features to query vectors, with all blocks in one.

        Returns
        -------
        projection : (n_features, n_components)
        intercept : (n_components,)
        unit : (n_features, n_components) or None
            Added for features scaled to unit length; None where no block needs it.
        """
        after = self.metric if self.is_plain else self.query_map  # of labels alone: code vectors
        folded = self.fold([view])
        folded = _folded_into(folded, after[: len(folded.offset)])
        maps = {part.is_unit: part.map for part in folded.parts}
        nothing = np.zeros_like(maps[True]) if True in maps else np.zeros((0, 0))
        return maps.get(False, nothing), folded.offset, maps.get(True)

    def scale(self, described: Floats) -> Floats:
        """Return blocks of items as they are coded: of the usual length, if normalized."""
        return np.asarray(stretch(described, *self.usual)) if self.is_normalized else described

    @cached_property
    def usual(self) -> tuple[Floats, float]:
        """Mean of all blocks, and their mean squared length."""
        blocks = self.blocks.values()
        mean = np.concatenate([np.sqrt(block.target.weight) * block.mean for block in blocks])
        return mean, float(np.sum([block.target.weight for block in blocks]))

    def describe(self, items: "Items", map_rows: MapRows) -> Iterator[tuple[Any, Floats]]:
        """Yield all blocks of items, some rows at a time."""
        for rows, known in items.known(self, map_rows):
            yield rows, self.fold(known).apply(known)

    def describe_rows(self, rows: RowSample, map_rows: MapRows) -> Iterator[tuple[Any, Floats]]:
        """Yield all blocks of the rows of a sample, some at a time."""
        labels = rows.labels if self.knows_labels else None
        return self.describe(Items.of(rows.views, rows.present, labels), map_rows)

    def refitted(
        self, source: str, wanted: Floats, learn: Callable[[Floats], Regression]
    ) -> "Space":
        """Return the space with another encoder for a view, or with one more.

        `wanted`: blocks of items, as `described_by` or `describe` give them. `learn`: how the new
        features predict any vectors. What the view gave exactly, its new features only predict.
        """
        predictors = {
            name: make_predictor(block, learn(wanted[:, place] / np.sqrt(block.target.weight)))
            for name, block, place in self._placed()
        }
        blocks = {
            name: replace(block, source="") if block.source == source else block
            for name, block in self.blocks.items()
        }
        return replace(self, blocks=blocks, predictors={**self.predictors, source: predictors})

    def described_by(self, vectors: Floats) -> Floats:
        """Return the blocks that code vectors stand for."""
        rank = sum(block.rank for block in self.blocks.values())
        return vectors[:, :rank] if self.is_plain else np.asarray(vectors @ self.query_map.T)

    @cached_property
    def fitted_sets(self) -> LabelSets:
        """The fitted label sets, to look up their numbers; with labels alone."""
        n_labels = 0 if self.embedding is None else self.embedding.landmarks.shape[1]
        return LabelSets.from_packed(() if self.label_sets is None else self.label_sets, n_labels)

    def label_features(self, sets: Array) -> Floats:
        """Return what ``"labels"`` are as a source: the embedding of each label set."""
        if self.embedding is None:
            return np.zeros((len(sets), 0))
        return self.embedding.transform(sets)


def _folded_into(folded: ItemMaps, after: Floats) -> ItemMaps:
    """Return maps with another linear map, (n_dimensions, n_components), after them."""
    total: dict[tuple[str, bool], Floats] = {}
    for source, is_unit, place, own in folded.parts:
        key = source, is_unit
        total[key] = total.get(key, 0.0) + own @ after[place]
    everywhere = slice(0, after.shape[1])
    parts = [Part(*key, everywhere, own) for key, own in total.items()]
    return ItemMaps(parts, folded.offset @ after)


@dataclass(frozen=True)
class Items:
    """Checked views and labels of items, paired by row: arrays, or tensors on one device."""

    n_items: int
    views: Mapping[str, Any]  # each (n_items, n_features)
    present: Mapping[str, Bools]  # each bool (n_items,): for every view
    sets: Array  # 0/1 (n_sets, n_labels): the label sets
    numbers: Ints  # (n_items,): the set of each item; -1 where it has no labels

    @classmethod
    def of(
        cls,
        views: Mapping[str, Any],
        present: Mapping[str, Bools],
        labels: Any,
    ) -> "Items":
        """Check that everything is paired and that every item has something to be coded by."""
        n_items = count_paired(views, labels)
        if n_items == 0:
            raise InvalidInputError("there are no items to encode")
        masks = {name: present.get(name, np.ones(n_items, dtype=bool)) for name in views}
        sets, numbers = np.zeros((0, 0), np.uint8), np.full(n_items, -1)
        if labels is not None:
            distinct = LabelSets(labels.shape[1])
            numbers, sets = distinct.number(labels), distinct.matrix()
        seen = np.any([*masks.values(), np.zeros(n_items, dtype=bool)], axis=0)
        nothing = np.flatnonzero((numbers < 0) & ~seen)
        if nothing.size and labels is not None:
            raise LabelError(
                f"item {nothing[0]} has no labels; give its views too, and it is coded by them"
            )
        if nothing.size:
            raise ViewError(f"item {nothing[0]} has none of the views {sorted(views)}")
        return cls(n_items, views, masks, sets, numbers)

    def known(
        self,
        space: Space,
        map_rows: MapRows,
        n_rows: int = CHUNK_ROWS,
        device: Any = None,
        *,
        by_sets: bool = True,
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield rows that all have the same, some at a time, and what is known of them.

        Yields a slice or (n_rows,) numbers, and each (n_rows, n_features), by view, and
        ``"labels"``. With labels alone, nothing but the labels counts of items that have them; they
        are passed over unless `by_sets`.
        """
        has_labels = self.numbers >= 0
        skips = space.is_plain and not by_sets
        needed = has_labels.any() and not skips
        features = space.label_features(self.sets) if needed else np.zeros((0, 0))
        masks = {**self.present, LABELS: has_labels}
        for names, rows in group_rows(masks, np.arange(self.n_items)):
            if skips and LABELS in names:
                continue
            views = [] if space.is_plain and LABELS in names else [n for n in names if n != LABELS]
            for chunk in slices(len(rows), n_rows):
                part = rows[chunk]
                is_whole = len(part) == part[-1] - part[0] + 1
                place = slice(int(part[0]), int(part[-1]) + 1) if is_whole else part
                known = dict(map_rows({name: self.views[name][place] for name in views}))
                if LABELS in names:
                    own = features[self.numbers[part]]
                    known[LABELS] = own if device is None else to_tensor(own, device)
                yield place, known
