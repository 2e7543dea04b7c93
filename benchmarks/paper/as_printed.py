"""Algorithm 1 of the ACQH paper as it is printed, errors included.

`acqh.methods.ACQHPaper` is the same with the errors corrected; docs/explanation/paper-errors.md has
the list. Matrices that have no inverse get their pseudo-inverse. The first codes are the nearest to
M^T L for random M and C, as the paper says, so items with equal labels always have equal codes, and
every step runs on label sets and their counts.
"""

import numpy as np
import scipy.sparse as sp

N_CODEWORDS, LABEL_WEIGHT, LABEL_RIDGE, N_SWEEPS = 256, 1e-4, 1e-2, 40


def run(views, labels, n_components, n_codebooks, rng, weight_in_h=1.0):
    """Return the projections of views, a vector per item, and the objective after each sweep.

    `views`: each (n_items, n_features). `labels`: 0/1, (n_items, n_labels). `weight_in_h`: of the
    last term of h, whose lambda is not printed. The objective is relative to that of vectors that
    are zero.
    """
    sets, set_of, counts = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
    sets = sets.astype(float)
    roots = np.sqrt(counts)[:, np.newaxis]
    set_of = set_of.ravel()
    members = sp.csr_array((np.ones(len(labels)), (set_of, np.arange(len(labels)))))
    predictors, agreement = {}, 0.0  # (X^T X)^-1 X^T L, and L^T X times that, of all views
    for view, matrix in views.items():
        rows = matrix.astype(np.float64)
        products = sets.T @ _dense(members @ rows)
        predictors[view] = np.linalg.pinv(_dense(rows.T @ rows)) @ products.T
        agreement = agreement + products @ predictors[view]
    power = sets.T @ (sets * counts[:, np.newaxis])
    constant = len(views) * np.sum(power * power)
    codebooks = rng.normal(size=(n_codebooks, N_CODEWORDS, n_components))
    start = sets @ rng.normal(size=(sets.shape[1], n_components))
    codes = _search(codebooks, np.eye(n_components), start)
    drift, objective = np.zeros(len(sets)), []
    identity = np.eye(n_components)
    for _ in range(N_SWEEPS):
        vectors = _decode(codebooks, codes)
        # Equations 8 and 9.
        weighted = vectors * counts[:, np.newaxis]
        query_map = sets.T @ weighted @ np.linalg.pinv(vectors.T @ weighted)
        # Equation 11, with the opposite sign of the minimum.
        label_map = np.linalg.solve(
            power + LABEL_RIDGE / LABEL_WEIGHT * np.eye(len(power)),
            (sets * counts[:, np.newaxis]).T @ (drift[:, np.newaxis] - vectors),
        )
        drift = (vectors - sets @ label_map).mean(axis=1)  # equation 12
        metric = query_map.T @ agreement @ query_map
        similar, regressed = sets @ agreement @ query_map, sets @ label_map + drift[:, np.newaxis]
        # Equation 13.
        indicators = np.zeros((len(sets), n_codebooks, N_CODEWORDS))
        np.put_along_axis(indicators, codes[:, :, np.newaxis], 1, axis=2)
        indicators = indicators.reshape(len(sets), -1)
        targets = (similar + LABEL_WEIGHT * regressed) @ np.linalg.inv(
            metric + LABEL_WEIGHT * identity
        )
        solved = np.linalg.pinv(roots * indicators) @ (roots * targets)
        codebooks = solved.reshape(codebooks.shape)
        # Equations 14 to 18: no item keeps its old code.
        codes = _search(
            codebooks,
            metric + LABEL_WEIGHT * identity,
            similar + weight_in_h * regressed,
            reduced_by=metric + weight_in_h * identity,
        )
        vectors = _decode(codebooks, codes)
        weighted = vectors * counts[:, np.newaxis]
        misfit = vectors - sets @ label_map - drift[:, np.newaxis]
        objective.append(
            np.sum(metric * (vectors.T @ weighted))
            - 2 * np.sum((query_map.T @ agreement) * (weighted.T @ sets))
            + constant
            + LABEL_WEIGHT * (counts @ np.sum(misfit**2, axis=1))
            + LABEL_RIDGE * np.sum(label_map**2)
        )
    projections = {view: predictor @ query_map for view, predictor in predictors.items()}
    return projections, vectors[set_of], [value / constant for value in objective]


def _search(codebooks, metric, targets, reduced_by=None):
    """Return codes, one codebook after the other: the nearest codewords to what is left."""
    left, codes = targets.copy(), []
    for words in codebooks:
        quadratic = np.sum(words @ metric * words, axis=1)
        codes.append(np.argmin(quadratic - 2 * left @ words.T, axis=1))
        left -= words[codes[-1]] @ (metric if reduced_by is None else reduced_by)
    return np.stack(codes, axis=1)


def _decode(codebooks, codes):
    return sum(words[codes[:, number]] for number, words in enumerate(codebooks))


def _dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
