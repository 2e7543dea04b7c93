"""Label similarities, and vectors whose inner products are those similarities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from acqh._core.arrays import Array, Floats, Matrix, is_sparse, slices, unit_rows
from acqh._core.device import is_tensor
from acqh._core.labels import as_label_matrix
from acqh._core.linalg import fix_signs
from acqh.errors import InvalidInputError
from acqh.stats.label_sets import LabelSets

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
