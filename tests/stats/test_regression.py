import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from acqh.stats import Statistics, regress


def draw(seed=0, n_items=80, n_features=6):
    rng = np.random.default_rng(seed)
    labels = np.eye(4, dtype=np.uint8)[rng.integers(0, 4, n_items)]
    X = labels @ rng.normal(size=(4, n_features)) + rng.normal(size=(n_items, n_features))
    return X, labels, Statistics.of({"image": X}, labels)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, 0.3])
def test_regression_on_sums_is_regression_on_items(fit_intercept, ridge):
    X, labels, stats = draw()
    sets = stats.label_sets.matrix().astype(float)
    found = regress(stats.views["image"], sets, ridge, fit_intercept=fit_intercept)
    centred = X - X.mean(axis=0) if fit_intercept else X
    alpha = ridge * np.trace(centred.T @ centred) / X.shape[1]
    oracle = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X, labels)
    np.testing.assert_allclose(found.coefficients, oracle.coef_.T, atol=1e-10)
    np.testing.assert_allclose(found.intercept, oracle.intercept_, atol=1e-10)
    np.testing.assert_allclose(found.agreement, labels.T @ oracle.predict(X), atol=1e-9)


def test_auto_ridge_predicts_strangers_as_well_as_leave_one_out_does():
    X, labels, stats = draw(n_items=60, n_features=40)
    strangers, truth, _ = draw(n_items=60, n_features=40)
    found = regress(stats.views["image"], stats.label_sets.matrix().astype(float), "auto")
    oracle = RidgeCV(alphas=np.logspace(-4, 4, 81)).fit(X, labels)
    ours = np.mean((truth - strangers @ found.coefficients - found.intercept) ** 2)
    theirs = np.mean((truth - oracle.predict(strangers)) ** 2)
    assert ours <= 1.1 * theirs


def test_residual_covariance_estimates_the_error_on_strangers():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 30))
    sample = lambda n: np.eye(3, dtype=np.uint8)[rng.integers(0, 3, n)]  # noqa: E731
    seen, unseen = sample(300), sample(20_000)
    X, Y = (each @ weights + 3 * rng.normal(size=(len(each), 30)) for each in (seen, unseen))
    stats = Statistics.of({"image": X}, seen)
    sets = stats.label_sets.matrix().astype(float)
    found = regress(stats.views["image"], sets, 1e-3)
    error = unseen - Y @ found.coefficients - found.intercept
    np.testing.assert_allclose(np.trace(found.residual), np.sum(error**2) / len(error), rtol=0.1)


def test_collinear_and_constant_features_are_no_problem():
    X, labels, _ = draw()
    X = np.hstack([X, X[:, :2], np.ones((len(X), 1)), np.zeros((len(X), 1))])
    stats = Statistics.of({"image": X}, labels)
    sets = stats.label_sets.matrix().astype(float)
    for ridge in (0.0, 1e-3, "auto"):
        found = regress(stats.views["image"], sets, ridge)
        assert np.isfinite(found.coefficients).all()
        assert np.abs(found.coefficients).max() < 1e3


@pytest.mark.parametrize("seed", range(5))
def test_auto_ridge_does_not_repeat_the_targets_where_features_are_as_many_as_items(seed):
    rng = np.random.default_rng(seed)
    labels = np.eye(2, dtype=np.uint8)[rng.integers(0, 2, 60)]
    X = rng.normal(size=(60, 60))  # nothing to be learnt: the best prediction is a weak one
    stats = Statistics.of({"image": X}, labels)
    found = regress(stats.views["image"], stats.label_sets.matrix().astype(float), "auto")
    rest = labels - X @ found.coefficients - found.intercept
    assert np.square(rest).mean() > 0.05
