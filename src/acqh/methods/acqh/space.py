"""The space of queries and items: label embeddings, blocks of targets, and maps to vectors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from acqh._core.arrays import (
    CHUNK_ROWS,
    Array,
    Bools,
    Floats,
    Matrix,
    count_paired,
    device_of,
    group_rows,
    is_sparse,
    is_tensor,
    slices,
    unit_rows,
)
from acqh._core.device import to_tensor
from acqh._core.linalg import RANK_TOLERANCE, fix_signs, solve_spd
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.targets import LABELS, MapRows, Target
from acqh.stats import Regression
from acqh.stats.moments import LabelSets

# From two 0/1 matrices (n, n_labels) and (m, n_labels) to similarities (n, m).
Similarity: TypeAlias = Callable[[Array, Array], Array]

# More embedding dimensions than this have never changed a result.
MAX_DIMENSIONS = 64
# Directions with less than this share of the strongest one's eigenvalue are rounding noise.
_EIGENVALUE_TOLERANCE = 1e-6
# With more label sets than this the embedding is learnt from a sample of them.
MAX_LANDMARKS = 4096
# Above this many labels the label vectors themselves are too long to be the embedding.
_MAX_LABELS = 2048
# From this many labels on, and below this share of labels per item, sparse products count shared
# labels: their cost does not grow with the number of labels.
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
    ours, theirs = (labels.sum(axis=1, dtype=np.float64) for labels in (a, b))
    if a.shape[1] < _WIDE_LABELS or ours.sum() > _FEW_LABELS * a.size:
        common = np.asarray(a, dtype=np.float64) @ np.asarray(b, dtype=np.float64).T
        return _FORMULAS[name](common, ours[:, np.newaxis], theirs)
    ones, others = (sp.csr_array(labels.astype(bool)).astype(np.float64) for labels in (a, b))
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

    `labels`: 0/1 (n_items, n_labels), dense or CSR. Gives (n_items, n_dimensions).
    """
    distinct = LabelSets(labels.shape[1])
    numbers = distinct.number(labels)
    sets, counts = distinct.matrix(), np.bincount(numbers[numbers >= 0], minlength=len(distinct))
    vectors = embed(similarity, sets, counts.astype(np.float64), rng).transform(sets)
    return np.where(numbers[:, np.newaxis] >= 0, vectors[numbers], np.nan)


def _compare(similarity: str | Similarity, block: Array, landmarks: Array) -> Matrix:
    if isinstance(similarity, str):
        return compare_labels(similarity, block, landmarks)
    # Functions of one's own need not care for how small integers overflow.
    wide = block.astype(np.float64), landmarks.astype(np.float64)
    similarities = np.asarray(similarity(*wide), dtype=np.float64)
    if similarities.shape != (len(block), len(landmarks)) or not np.isfinite(similarities).all():
        raise InvalidInputError(
            f"the similarity must give finite numbers of shape {(len(block), len(landmarks))}, "
            f"got shape {similarities.shape}"
        )
    return similarities


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


# No direction of a prediction is trusted more than this much over knowing nothing.
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


def vote_weights(block: Block, votes: Sequence[Regression]) -> list[Floats]:
    """Return the weight of each source if several predict a block, each (rank, rank).

    Given the block, sources are assumed to be independent, so their precisions add up,
    and the prior, the mean and covariance C of the block, must count once:

        mean + (C^-1 + sum_s (R_s^-1 - C^-1))^-1 sum_s R_s^-1 (y_s - mean)

    A source that cannot predict has R = C and says y = mean: it changes nothing. In rows,
    ``y - mean`` is multiplied by the weight of its source. In units of the block's spread, C is the
    identity, and no prediction has less precision than that. Directions without spread, such as
    the sum of the labels of items that have one each, are the mean.
    """
    spreads, axes = scipy.linalg.eigh(block.spread, check_finite=False)
    has_spread = spreads > 2.0 * np.sqrt(RANK_TOLERANCE) * spreads[-1]
    spreads, axes = spreads[has_spread], axes[:, has_spread]
    precisions = []
    for vote in votes:
        error = (axes / spreads).T @ vote.residual @ (axes / spreads)
        values, vectors = scipy.linalg.eigh((error + error.T) / 2.0, check_finite=False)
        precisions.append((vectors / np.clip(values, _LEAST_ERROR, 1.0)) @ vectors.T)
    total = np.sum(precisions, axis=0) - (len(votes) - 1) * np.eye(len(spreads))
    shared = solve_spd(total, (axes * spreads).T)
    return [(axes / spreads) @ precision @ shared for precision in precisions]


def rescale(blocks: Any, mean: Any, squared_length: float) -> Any:
    """Return blocks of items with this mean squared length.

    A prediction is the truth drawn towards the mean of all items. So each goes on from the mean
    in its direction, to where vectors are as long as exact ones are in the mean square. To
    scale the mean too would raise items whose predictions are all but the mean.
    """
    away = blocks - mean
    along, lengths = away @ mean, (away * away).sum(1)
    room = max(squared_length - float(mean @ mean), 0.0)
    # The positive root of |mean + step * away|^2 = squared_length; no step from the mean itself.
    is_away = lengths > RANK_TOLERANCE**2 * squared_length
    steps = is_away * ((along**2 + lengths * room) ** 0.5 - along) / (lengths + ~is_away)
    return mean + steps[:, None] * away


# One linear map of a source: the source, whether its rows are scaled to unit length first, the
# dimensions that it is added to, and (n_features, n_dimensions), array or tensor.
Part: TypeAlias = tuple[str, bool, slice, Any]


@dataclass(frozen=True)
class Space:
    """From the views and labels of an item to its vector, and from a query to its own.

    The vector of an item concatenates the blocks of all targets, scaled by the roots of their
    weights. A block is exact if the item has its source, otherwise predicted.
    """

    blocks: dict[str, Block]  # by target
    # By source, then by target: of the blocks that the source does not give exactly.
    predictors: dict[str, dict[str, Regression]]
    embedding: LabelEmbedding | None  # of label sets; None if labels are no target
    query_map: Floats  # (n_dimensions, n_components): from all blocks to query vectors
    target_map: Floats  # (n_dimensions, n_components): from all blocks to code vectors
    is_normalized: bool  # whether the blocks of an item get the usual length; see `rescale`
    _folded: dict[Any, tuple[list[Part], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def targets(self) -> dict[str, Target]:
        """The targets, with the ranks that were used."""
        return {name: block.target for name, block in self.blocks.items()}

    @property
    def metric(self) -> Floats:
        """``J^T J``: makes the query vector of a code vector, (n_components, n_components)."""
        return self.query_map.T @ self.query_map

    @cached_property
    def usual(self) -> tuple[Floats, float]:
        """Mean of all blocks, and their mean squared length."""
        blocks = self.blocks.values()
        mean = np.concatenate([np.sqrt(block.target.weight) * block.mean for block in blocks])
        return mean, float(np.sum([block.target.weight for block in blocks]))

    def join_blocks(self, features: Mapping[str, Any]) -> Any:
        """Return all blocks of rows with these sources and no others, (n_rows, n_dimensions).

        `features`: each (n_rows, n_features), arrays, CSR or tensors: mapped features of views, and
        for ``"labels"`` embeddings of the label sets.
        """
        return _apply(*self.fold(features, device_of(features)), features)

    def embed(self, features: Mapping[str, Any]) -> Any:
        """Return code vectors of rows, (n_rows, n_components); same `features` as `join_blocks`."""
        if self.is_normalized:
            vectors, target_map = self.scale(self.join_blocks(features)), self.target_map
            return vectors @ (
                to_tensor(target_map, vectors.device) if is_tensor(vectors) else target_map
            )
        return _apply(*self.fold(features, device_of(features), to_codes=True), features)

    def scale(self, vectors: Any) -> Any:
        """Return blocks of items as they are encoded: of the usual length, if normalized."""
        if not self.is_normalized:
            return vectors
        mean, squared_length = self.usual
        mean = to_tensor(mean, vectors.device) if is_tensor(vectors) else mean
        return rescale(vectors, mean, squared_length)

    def fold(
        self, sources: Iterable[str], device: Any = None, *, to_codes: bool = False
    ) -> tuple[list[Part], Any]:
        """Return the linear maps of items with these sources, and what is added; cached.

        The maps lead to all blocks or, with `to_codes`, on to code vectors. `device`: of the maps.
        """
        key = tuple(sources), device, to_codes
        if key not in self._folded:
            parts, offset = self._fold_blocks(key[0])
            if to_codes:
                parts, offset = _compose(parts, offset, self.target_map)
            if device is not None:
                parts = [(*part[:3], to_tensor(part[3], device)) for part in parts]
                offset = to_tensor(offset, device)
            self._folded[key] = parts, offset
        return self._folded[key]

    def _fold_blocks(self, sources: Sequence[str]) -> tuple[list[Part], Floats]:
        parts: list[Part] = []
        offset = np.empty(sum(block.rank for block in self.blocks.values()))
        for name, block, place in self._placed():
            scale = np.sqrt(block.target.weight)
            maps, added = self._fold_block(name, block, sources)
            offset[place] = scale * added
            parts += [
                (source, block.is_unit and source == block.source, place, scale * feature_map)
                for source, feature_map in maps.items()
            ]
        return parts, offset

    def _fold_block(
        self, name: str, block: Block, sources: Sequence[str]
    ) -> tuple[dict[str, Floats], Floats]:
        """Return the maps of one block, by source, and what is added."""
        from_source = {
            source: self.predictors[source][name]
            for source in sources
            if source != block.source and name in self.predictors[source]
        }
        is_given = block.source in sources
        own_weight = float(block.target.caption_weight) if from_source else 1.0
        if is_given and own_weight == 1:
            return {block.source: block.map}, block.offset
        maps: dict[str, Floats] = {}
        offset = block.mean
        if len(from_source) == 1:
            ((source, only),) = from_source.items()
            maps, offset = {source: only.coefficients}, only.intercept
        elif from_source:
            weights = vote_weights(block, [*from_source.values()])
            for (source, vote), weight in zip(from_source.items(), weights, strict=True):
                maps[source] = vote.coefficients @ weight
                offset = offset + (vote.intercept - block.mean) @ weight
        if is_given:
            maps = {source: (1 - own_weight) * part for source, part in maps.items()}
            maps[block.source] = own_weight * block.map
            offset = own_weight * block.offset + (1 - own_weight) * offset
        return maps, offset

    def _placed(self) -> Iterator[tuple[str, Block, slice]]:
        """Yield every block, and its dimensions among those of all blocks side by side."""
        start = 0
        for name, block in self.blocks.items():
            yield name, block, slice(start, start + block.rank)
            start += block.rank

    def fold_query(self, view: str) -> tuple[Floats, Floats, Floats | None]:
        """Return the map from a view's features to query vectors, with all blocks in one.

        Returns
        -------
        projection : (n_features, n_components)
        intercept : (n_components,)
        unit : (n_features, n_components) or None
            Added for features scaled to unit length; None where no block needs it.
        """
        parts, offset = _compose(*self.fold([view]), self.query_map)
        maps = {is_unit: matrix for _, is_unit, _, matrix in parts}
        nothing = np.zeros_like(maps[True]) if True in maps else np.zeros((0, 0))
        return maps.get(False, nothing), offset, maps.get(True)

    def rows(
        self,
        views: Mapping[str, Any],
        present: Mapping[str, Bools],
        labels: Matrix | None,
        map_rows: MapRows,
        n_rows: int = CHUNK_ROWS,
    ) -> Iterator[tuple[Any, dict[str, Any], Any]]:
        """Yield rows that have the same sources, some at a time.

        `present`: of views that some items lack. Yields a slice or (n_rows,) numbers of the rows,
        their features by source, as for `join_blocks`, and which row of the features each is:
        items with the same labels share theirs where nothing else counts.

        Raises InvalidInputError, LabelError, ViewError: there are no items; an item has nothing.
        """
        n_items = count_paired(views, labels)
        if n_items == 0:
            raise InvalidInputError("there are no items to encode")
        masks = {name: present.get(name, np.ones(n_items, dtype=bool)) for name in views}
        numbers = np.full(n_items, -1)
        vectors: Floats = np.zeros((0, 0))
        if labels is not None and self.embedding is not None:
            sets = LabelSets(labels.shape[1])
            numbers = sets.number(labels)
            vectors = self.embedding.transform(sets.matrix())
        masks[LABELS] = numbers >= 0
        nothing = np.flatnonzero(~np.any([*masks.values()], axis=0))
        if nothing.size and labels is not None:
            raise LabelError(
                f"item {nothing[0]} has no labels; give its views too, and they encode it"
            )
        if nothing.size:
            raise ViewError(f"item {nothing[0]} has none of the views {sorted(views)}")
        for names, group in group_rows(masks, np.arange(n_items)):
            used = {source for source, *_ in self.fold(names)[0]}
            if used == {LABELS}:
                yield group, {LABELS: vectors}, numbers[group]
                continue
            for chunk in slices(len(group), n_rows):
                part = group[chunk]
                is_whole = len(part) == part[-1] - part[0] + 1
                place = slice(int(part[0]), int(part[-1]) + 1) if is_whole else part
                rows = {name: views[name][place] for name in names if name != LABELS}
                features = dict(map_rows(rows))
                if LABELS in names:
                    features[LABELS] = vectors[numbers[part]]
                yield place, features, slice(None)

    def refitted(
        self, source: str, target_vectors: Floats, learn: Callable[[Floats], Regression]
    ) -> "Space":
        """Return the space with another encoder for a view, or with one more.

        `target_vectors`: blocks of items from `join_blocks`. `learn`: how the new features predict
        any vectors. What the view gave exactly, its new features only predict.
        """
        predictors = {
            name: learn(target_vectors[:, place] / np.sqrt(block.target.weight))
            for name, block, place in self._placed()
        }
        blocks = {
            name: replace(block, source="") if block.source == source else block
            for name, block in self.blocks.items()
        }
        return replace(self, blocks=blocks, predictors={**self.predictors, source: predictors})


def _apply(parts: list[Part], offset: Any, features: Mapping[str, Any]) -> Any:
    """Return the sum of linear maps of rows, in float64."""
    first = next(iter(features.values()))
    if is_tensor(first):
        total = offset.repeat(first.shape[0], 1)
        features = {source: rows.to(total.dtype) for source, rows in features.items()}
    else:
        total = np.tile(offset, (first.shape[0], 1))
    for source, is_unit, place, matrix in parts:
        total[:, place] += (unit_rows(features[source]) if is_unit else features[source]) @ matrix
    return total


def _compose(parts: list[Part], offset: Floats, after: Floats) -> tuple[list[Part], Floats]:
    """Return maps with another linear map, (n_dimensions, n_components), after them."""
    total: dict[tuple[str, bool], Floats] = {}
    for source, is_unit, place, matrix in parts:
        total[source, is_unit] = total.get((source, is_unit), 0.0) + matrix @ after[place]
    everywhere = slice(0, after.shape[1])
    return [(*key, everywhere, matrix) for key, matrix in total.items()], offset @ after
