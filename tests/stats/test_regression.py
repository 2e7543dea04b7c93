import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from acqh.stats import Statistics, regress
from acqh.stats.ridge import RidgeSolver, regress_moments, regress_rows


def draw(seed=0, n_items=80, n_features=6):
    rng = np.random.default_rng(seed)
    labels = np.eye(4, dtype=np.uint8)[rng.integers(0, 4, n_items)]
    X = labels @ rng.normal(size=(4, n_features)) + rng.normal(size=(n_items, n_features))
    return X, labels, Statistics.from_views({"image": X}, labels)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, 0.3])
def test_regression_on_statistics_equals_regression_on_items(fit_intercept, ridge):
    X, labels, stats = draw()
    sets = stats.label_sets.matrix().astype(float)
    result = regress(stats.views["image"], sets, ridge, fit_intercept=fit_intercept)
    centred = X - X.mean(axis=0) if fit_intercept else X
    alpha = ridge * np.trace(centred.T @ centred) / X.shape[1]
    oracle = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X, labels)
    np.testing.assert_allclose(result.coefficients, oracle.coef_.T, atol=1e-10)
    np.testing.assert_allclose(result.intercept, oracle.intercept_, atol=1e-10)


def test_auto_ridge_predicts_strangers_as_well_as_leave_one_out_does():
    X, labels, stats = draw(n_items=60, n_features=40)
    strangers, truth, _ = draw(n_items=60, n_features=40)
    result = regress(stats.views["image"], stats.label_sets.matrix().astype(float), "auto")
    oracle = RidgeCV(alphas=np.logspace(-4, 4, 81)).fit(X, labels)
    ours = np.mean((truth - strangers @ result.coefficients - result.intercept) ** 2)
    theirs = np.mean((truth - oracle.predict(strangers)) ** 2)
    assert ours <= 1.1 * theirs


def test_residual_covariance_estimates_the_error_on_strangers():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 30))
    sample = lambda n: np.eye(3, dtype=np.uint8)[rng.integers(0, 3, n)]  # noqa: E731
    training, test = sample(300), sample(20_000)
    X, Y = (rows @ weights + 3 * rng.normal(size=(len(rows), 30)) for rows in (training, test))
    stats = Statistics.from_views({"image": X}, training)
    sets = stats.label_sets.matrix().astype(float)
    result = regress(stats.views["image"], sets, 1e-3)
    error = test - Y @ result.coefficients - result.intercept
    np.testing.assert_allclose(np.trace(result.residual), np.sum(error**2) / len(error), rtol=0.1)


def test_collinear_and_constant_features_are_no_problem():
    X, labels, _ = draw()
    X = np.hstack([X, X[:, :2], np.ones((len(X), 1)), np.zeros((len(X), 1))])
    stats = Statistics.from_views({"image": X}, labels)
    sets = stats.label_sets.matrix().astype(float)
    for ridge in (0.0, 1e-3, "auto"):
        result = regress(stats.views["image"], sets, ridge)
        assert np.isfinite(result.coefficients).all()
        assert np.abs(result.coefficients).max() < 1e3


@pytest.mark.parametrize("seed", range(5))
def test_auto_ridge_does_not_repeat_the_targets_where_features_are_as_many_as_items(seed):
    rng = np.random.default_rng(seed)
    labels = np.eye(2, dtype=np.uint8)[rng.integers(0, 2, 60)]
    X = rng.normal(size=(60, 60))  # nothing to be learnt: the best prediction is a weak one
    stats = Statistics.from_views({"image": X}, labels)
    result = regress(stats.views["image"], stats.label_sets.matrix().astype(float), "auto")
    rest = labels - X @ result.coefficients - result.intercept
    assert np.square(rest).mean() > 0.05


def leave_one_out_error(X, Y, ridge, fit_intercept):
    """Fit once for every row, without it."""
    centred = X - X.mean(axis=0) if fit_intercept else X
    alpha = ridge * np.trace(centred.T @ centred) / X.shape[1]
    total = 0.0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        model = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X[others], Y[others])
        total += np.sum((Y[i] - model.predict(X[[i]])) ** 2)
    return total / len(X)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_with_a_sample_the_ridge_minimizes_the_error_on_held_out_rows(fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12)) + 0.5
    Y = X[:, :3] @ rng.normal(size=(3, 2)) + 2 * rng.normal(size=(40, 2)) + 1.0
    result = regress_rows(X, Y, "auto", fit_intercept=fit_intercept)
    grid = result.ridge * 10.0 ** np.array([-0.5, -0.25, 0.0, 0.25, 0.5])
    errors = [leave_one_out_error(X, Y, ridge, fit_intercept) for ridge in grid]
    assert np.argmin(errors) == 2
    np.testing.assert_allclose(np.trace(result.residual), errors[2], rtol=1e-6)


def test_groups_of_similar_rows_do_not_make_the_ridge_small():
    # As in captions: words of a kind, of a family, of a variant; labels are those of the family.
    rng = np.random.default_rng(0)
    family = np.concatenate([np.arange(150), np.repeat(np.arange(150, 170), 7)])
    kind = rng.integers(0, 8, 170)
    label = np.where(rng.random(170) < 0.7, kind, rng.integers(0, 8, 170))[family]
    variant = np.eye(7)[np.arange(len(family)) % 7] * (family >= 150)[:, None]
    X = np.hstack([np.eye(8)[kind[family]], np.eye(170)[family], variant])
    Y = np.eye(8)[label]
    result = regress_rows(X, Y, "auto")
    sums = RidgeSolver(X.T @ X, X.sum(axis=0), float(len(X)))
    by_sums = regress_moments(sums, X.T @ Y, Y.sum(axis=0), Y.T @ Y, "auto")
    assert by_sums.ridge < 1e-4 < result.ridge
    errors = [leave_one_out_error(X, Y, fit.ridge, fit_intercept=True) for fit in (result, by_sums)]
    assert errors[0] <= errors[1]
    # Generalised cross-validation takes the error on strangers for next to nothing.
    assert np.trace(by_sums.residual) < 0.1 * errors[1]
    np.testing.assert_allclose(np.trace(result.residual), errors[0], rtol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_strong_ridge_keeps_the_coefficients_it_pulls_towards(fit_intercept):
    rng = np.random.default_rng(0)
    targets = np.eye(4)[rng.integers(0, 4, 60)]
    X, towards = targets + rng.normal(0, 0.3, (60, 4)), np.eye(4)
    sums = X.sum(axis=0), 60.0
    solver = RidgeSolver(X.T @ X, *sums, fit_intercept=fit_intercept, rows=X)
    inputs = X.T @ targets, targets.sum(axis=0), targets.T @ targets
    strong = regress_moments(solver, *inputs, 1e6, None, towards)
    np.testing.assert_allclose(strong.coefficients, towards, atol=1e-3)
    error = targets - X @ strong.coefficients - strong.intercept
    np.testing.assert_allclose(strong.residual, error.T @ error / 60, rtol=0.1, atol=1e-3)
    free = [
        regress_moments(solver, *inputs, 0.0, None, prior).coefficients for prior in (None, towards)
    ]
    np.testing.assert_allclose(*free, atol=1e-9)
    # A ridge chosen by statistics or by held-out rows predicts better than none.
    for held in (None, targets):
        chosen = regress_moments(solver, *inputs, "auto", held, towards)
        assert np.trace(chosen.residual) < np.trace(strong.residual) * 1.1
