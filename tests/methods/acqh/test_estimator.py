import tracemalloc
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import acqh
from acqh.errors import InvalidInputError, LabelError, NotFittedError, ViewError
from acqh.features import RBFAnchors
from acqh.stats import Statistics

SMALL = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(400, n_labels=6, single_label=False, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return acqh.ACQH(5, **SMALL).fit(data.views, data.labels)


def assert_same_model(first, second, rtol=1e-9):
    for view, projection in first.projections_.items():
        other = second.projections_[view]
        scale = np.abs(projection).max()
        # The sign of a principal component is arbitrary, but equal statistics give the same sign.
        np.testing.assert_allclose(other, projection, rtol=0, atol=rtol * scale)
    scale = np.abs(first.codebooks_).max()
    np.testing.assert_allclose(second.codebooks_, first.codebooks_, rtol=0, atol=rtol * scale)


def in_float64(data):
    views = {name: matrix.astype(np.float64) for name, matrix in data.views.items()}
    return data.with_views(views)


@pytest.mark.parametrize("chunk", [1, 7, 133, 400])
def test_any_chunking_gives_the_same_model(data, chunk):
    wide = in_float64(data)
    full = acqh.ACQH(5, ridge=1e-3, **SMALL).fit(wide)
    assert_same_model(full, acqh.ACQH(5, ridge=1e-3, **SMALL).fit(wide.chunks(chunk)))


def test_any_order_of_items_gives_the_same_model(data):
    wide = in_float64(data)
    shuffled = wide.subset(np.random.default_rng(0).permutation(len(wide)))
    full = acqh.ACQH(5, ridge=1e-3, **SMALL).fit(wide)
    assert_same_model(full, acqh.ACQH(5, ridge=1e-3, **SMALL).fit(shuffled), rtol=1e-8)


def test_partial_fit_and_forget_equal_a_fit_of_the_remaining_items(data):
    wide = in_float64(data)
    first, second, third = (wide.subset(np.arange(s, s + 130)) for s in (0, 130, 260))
    both = acqh.MultiViewData.concat([first, second])
    expected = acqh.ACQH(5, ridge=1e-3, **SMALL).fit(both)
    grown = acqh.ACQH(5, ridge=1e-3, **SMALL).partial_fit(first).partial_fit(second)
    assert_same_model(expected, grown, rtol=1e-8)
    shrunk = acqh.ACQH(5, ridge=1e-3, **SMALL).fit([first, third, second]).forget(third)
    assert_same_model(expected, shrunk, rtol=1e-6)


def test_precomputed_statistics_give_the_same_model(data):
    wide = in_float64(data)
    expected = acqh.ACQH(5, **SMALL).fit(wide)
    stats = Statistics.from_views(wide.views, wide.labels)
    assert_same_model(expected, acqh.ACQH(5, **SMALL).fit_stats(stats))


def test_the_similarity_can_be_changed_after_the_pass(data):
    wide = in_float64(data)
    model = acqh.ACQH(5, similarity="dot", **SMALL).fit(wide)
    expected = acqh.ACQH(5, similarity="jaccard", **SMALL).fit(wide)
    model.set_params(similarity="jaccard").fit_stats(model.stats_)
    assert_same_model(expected, model)


def test_the_order_of_views_and_labels_does_not_change_scores(data):
    wide = in_float64(data)
    scores = []
    for views, columns in (
        (["image", "text"], np.arange(6)),
        (["text", "image"], np.array([3, 1, 5, 0, 2, 4])),
    ):
        model = acqh.ACQH(8, similarity="dot", **SMALL)
        model.fit({name: wide.views[name] for name in views}, wide.labels[:, columns])
        queries = model.project(wide.views["image"], view="image")
        scores.append(queries @ model.embed(labels=wide.labels[:, columns]).T)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-7)


def test_the_scale_of_a_view_does_not_change_scores(data):
    wide = in_float64(data)
    scores = []
    for scale in (1.0, 1e3):
        views = {"image": wide.views["image"] * scale, "text": wide.views["text"]}
        model = acqh.ACQH(8, **SMALL).fit(views, wide.labels)
        queries = model.project(views["image"], view="image")
        scores.append(queries @ model.embed(labels=wide.labels).T)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-7)


@pytest.mark.parametrize("similarity", ["dot", "shared", "cosine", "jaccard"])
def test_unquantized_scores_are_predicted_similarities(data, similarity):
    """With enough components, a score is the inner product of embedding and prediction."""
    from acqh.methods.acqh.space import compare_labels

    wide = in_float64(data)
    model = acqh.ACQH(64, similarity=similarity, ridge=0.0, **SMALL).fit(wide)
    queries = model.project(wide.views["image"], view="image")
    scores = queries @ model.embed(labels=wide.labels).T
    X = np.hstack([wide.views["image"], np.ones((len(wide), 1))])
    # The embedding keeps the positive part of a similarity; only "shared" has another.
    values, vectors = np.linalg.eigh(compare_labels(similarity, wide.labels, wide.labels))
    expected = (vectors * np.maximum(values, 0.0)) @ vectors.T
    predicted = X @ np.linalg.lstsq(X, expected, rcond=None)[0]
    # Similarities are scaled to a mean of one with oneself.
    wanted_scale = np.trace(expected) / len(expected)
    np.testing.assert_allclose(wanted_scale * scores, predicted, atol=1e-3 * np.abs(expected).max())


def test_items_with_the_same_labels_have_the_same_code(data, model):
    codes = model.encode(labels=data.labels)
    for row in np.unique(data.labels, axis=0):
        same = (data.labels == row).all(axis=1)
        assert len(np.unique(codes[same], axis=0)) == 1


def test_unseen_label_sets_get_the_nearest_code(data, model):
    label_sets = {tuple(row) for row in data.labels.tolist()}
    every = (np.arange(1, 64)[:, None] >> np.arange(6)) & 1
    unseen = np.array(
        [row for row in every.tolist() if tuple(row) not in label_sets], dtype=np.uint8
    )
    assert len(unseen)
    first, second = np.divmod(np.arange(256), 16)
    all_codes = np.stack([first, second], axis=1).astype(np.uint8)
    target = model.embed(labels=unseen)
    distances = np.sum((target[:, None] - model.decode(all_codes)) ** 2, axis=2)
    result = np.sum((target - model.decode(model.encode(labels=unseen))) ** 2, axis=1)
    np.testing.assert_allclose(result, distances.min(axis=1), rtol=1e-4)


def test_more_bytes_never_raise_the_error(data):
    errors = []
    for n_codebooks in (1, 2, 3):
        model = acqh.ACQH(6, n_codebooks=n_codebooks, codebook_size=16, random_state=0).fit(data)
        target = model.embed(data.views)
        errors.append(np.sum((model.decode(model.encode(data.views)) - target) ** 2))
    assert errors[0] > errors[1] > errors[2]


def test_views_of_an_item_are_weighted_by_how_well_they_predict(data, model):
    """Precisions add up and the prior counts once, except for precisions below the prior."""
    space = model.space_
    block = space.blocks["labels"]
    prior = np.linalg.inv(block.spread @ block.spread)
    total, votes = prior.copy(), 0.0
    for view, X in data.views.items():
        precision = np.linalg.inv(space.predictors[view]["labels"].residual)
        total += precision - prior
        votes += (space.join_blocks({view: X}) - block.mean) @ precision
    joined = space.join_blocks(dict(data.views))
    np.testing.assert_allclose(joined, block.mean + votes @ np.linalg.inv(total), atol=0.03)
    embedded = {view: model.embed({view: X}).astype(np.float64) for view, X in data.views.items()}
    both = model.embed(dict(data.views))
    truth = model.embed(labels=data.labels)
    error = {view: np.mean((points - truth) ** 2) for view, points in embedded.items()}
    assert np.mean((both - truth) ** 2) < min(error.values())


def test_a_noise_view_hardly_disturbs_a_good_one(data):
    rng = np.random.default_rng(0)
    views = {"image": data.views["image"], "noise": rng.normal(size=(len(data), 5))}
    model = acqh.ACQH(5, **SMALL).fit(views, data.labels)
    truth = model.embed(labels=data.labels)
    alone = np.mean((model.embed({"image": views["image"]}) - truth) ** 2)
    together = np.mean((model.embed(views) - truth) ** 2)
    plain = (model.embed({"image": views["image"]}) + model.embed({"noise": views["noise"]})) / 2
    assert together < 1.25 * alone
    assert together < np.mean((plain - truth) ** 2)


def test_items_are_encoded_from_labels_or_else_from_views(data, model):
    labels = data.labels.copy()
    labels[::3] = 0
    mixed = model.encode(data.views, labels=labels)
    by_label, by_view = model.encode(labels=data.labels), model.encode(data.views)
    np.testing.assert_array_equal(mixed[1::3], by_label[1::3])
    np.testing.assert_array_equal(mixed[::3], by_view[::3])


def test_items_without_a_view_are_encoded_from_the_others(data, model):
    present = {"text": np.arange(len(data)) % 4 > 0}
    partial = acqh.MultiViewData(dict(data.views), present=present)
    codes = model.encode(partial)
    has = present["text"]
    image = data.views["image"][~has]
    np.testing.assert_array_equal(codes[has], model.encode(data.views)[has])
    np.testing.assert_array_equal(codes[~has], model.encode({"image": image}))


def test_training_items_may_lack_a_view(data):
    present = {"text": np.arange(len(data)) % 2 == 0}
    partial = acqh.MultiViewData(dict(data.views), data.labels, present=present)
    model = acqh.ACQH(5, **SMALL).fit(partial)
    assert model.stats_.views["text"].n_items == 200
    assert model.stats_.views["image"].n_items == 400
    assert np.isfinite(model.projections_["text"]).all()


def test_one_view_or_three_are_enough(data):
    one = acqh.ACQH(5, **SMALL).fit({"image": data.views["image"]}, data.labels)
    assert one.encode(labels=data.labels).shape == (400, 2)
    three = acqh.make_multiview(200, widths={"a": 4, "b": 5, "c": 6}, n_labels=3, random_state=0)
    model = acqh.ACQH(4, **SMALL).fit(three)
    assert set(model.projections_) == {"a", "b", "c"}


@pytest.mark.parametrize("make", [acqh.ACQH, partial(acqh.methods.ACQHPaper, max_iter=3)])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda views, labels: (views, labels[:, :1] * 0 + 1),  # one class
        lambda views, labels: (views, np.hstack([labels, labels[:, :1] * 0])),  # empty class
        lambda views, labels: ({**views, "image": np.ones_like(views["image"])}, labels),
        lambda views, labels: ({**views, "image": np.repeat(views["text"], 2, axis=1)}, labels),
        lambda views, labels: ({k: v[:3] for k, v in views.items()}, labels[:3]),  # 3 items
        lambda views, labels: ({k: v[:1] for k, v in views.items()}, labels[:1]),  # 1 item
    ],
)
def test_degenerate_data_give_finite_models(data, make, spoil):
    views, labels = spoil(dict(data.views), data.labels)
    model = make(n_components=40, codebook_size=256, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(views, labels)
    everything = [model.codebooks_, *model.projections_.values(), model.embed(views)]
    assert all(np.isfinite(array).all() for array in everything)
    assert np.isfinite([*model.objective_, model.optimality_gap_]).all()
    assert model.project(views["text"], view="text").shape == (len(labels), 40)
    assert model.encode(views).shape == (len(labels), 4)


def test_components_beyond_the_rank_are_zero(data):
    model = acqh.ACQH(40, similarity="dot", **SMALL).fit(data)
    assert not model.codebooks_[:, :, 6:].any()
    assert not model.projections_["image"][:, 6:].any()


def test_four_codebooks_of_label_sets_are_close_to_the_optimum(data):
    one, four = (
        acqh.ACQH(4, n_codebooks=m, codebook_size=4, complete_share=1.0, random_state=0).fit(data)
        for m in (1, 4)
    )
    assert four.optimality_gap_ < 0.2 < one.optimality_gap_
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(four.objective_))


def test_the_share_of_complete_items_is_a_parameter_that_copies_keep(data, tmp_path):
    model = acqh.ACQH(4, complete_share=0.9, **SMALL).fit(data)
    assert clone(model).complete_share == 0.9
    model.save(tmp_path / "model")
    assert acqh.methods.load_method(tmp_path / "model").complete_share == 0.9


def test_algorithm_one_falls_and_stays_above_the_spectral_bound(data):
    paper = acqh.methods.ACQHPaper(n_components=4, random_state=0).fit(data)
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(paper.objective_))
    assert paper.objective_[-1] >= paper.lower_bound_


def test_reaching_the_maximum_number_of_sweeps_warns(data):
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps"):
        acqh.methods.ACQHPaper(n_components=4, random_state=0, max_iter=2).fit(data)


def test_the_label_terms_are_the_papers_alone(data):
    assert not {"label_weight", "label_ridge"} & acqh.ACQH().get_params().keys()
    paper = partial(acqh.methods.ACQHPaper, n_components=4, max_iter=3, tol=1.0, random_state=0)
    assert paper(label_weight=1.0).fit(data).objective_ != paper().fit(data).objective_


@pytest.mark.parametrize("make", [acqh.ACQH, partial(acqh.methods.ACQHPaper, tol=1.0)])
def test_a_seed_makes_it_repeatable(data, make):
    one, two = (make(n_components=4, **SMALL).fit(data) for _ in range(2))
    np.testing.assert_array_equal(one.codebooks_, two.codebooks_)


def test_single_precision_in_is_single_precision_out(data, model):
    assert data.views["image"].dtype == np.float32
    assert model.project(data.views["image"], view="image").dtype == np.float32
    assert model.codebooks_.dtype == np.float32
    wide = acqh.ACQH(5, **SMALL).fit(in_float64(data))
    assert wide.codebooks_.dtype == np.float64


def test_sparse_views_and_labels_give_the_same_scores(data):
    views = {name: np.where(X > 0, X, 0).astype(np.float64) for name, X in data.views.items()}
    dense = acqh.ACQH(5, **SMALL).fit(views, data.labels)
    sparse_views = {name: sp.csr_array(X) for name, X in views.items()}
    sparse = acqh.ACQH(5, **SMALL).fit(sparse_views, sp.csr_array(data.labels))
    for view, X in views.items():
        np.testing.assert_allclose(
            sparse.project(sp.csr_array(X), view=view), dense.project(X, view=view), atol=1e-8
        )


def test_nonlinear_maps_go_through_fit_project_encode_and_files(data, tmp_path):
    maps = {"image": RBFAnchors(50, random_state=0)}
    model = acqh.ACQH(5, feature_maps=maps, **SMALL).fit(data)
    assert model.projections_["image"].shape[0] == 50
    model.save(tmp_path / "model.acqh")
    again = acqh.methods.load_method(tmp_path / "model.acqh")
    image = data.views["image"]
    np.testing.assert_array_equal(
        again.project(image, view="image"), model.project(image, view="image")
    )
    np.testing.assert_array_equal(again.encode(data.views), model.encode(data.views))
    np.testing.assert_array_equal(
        again.encode(labels=data.labels), model.encode(labels=data.labels)
    )
    assert again.objective_ == model.objective_
    more = data.with_views(dict(data.views))
    again.partial_fit(more)
    assert again.stats_.n_items == 2 * len(data)


def test_a_callable_similarity_works_but_cannot_be_stored(data, tmp_path):
    def overlap(a, b):
        common = a @ b.T
        return common / np.maximum(np.minimum(a.sum(1)[:, None], b.sum(1)), 1)

    model = acqh.ACQH(5, similarity=overlap, **SMALL).fit(data)
    assert model.encode(labels=data.labels).shape == (400, 2)
    with pytest.raises(InvalidInputError, match="similarity"):
        model.save(tmp_path / "model.acqh")
    assert not (tmp_path / "model.acqh").exists()


def test_wrong_input_is_rejected_with_the_reason(data, model):
    X = data.views["image"]
    cases = [
        (NotFittedError, "call fit first", lambda: acqh.ACQH().project(X, view="image")),
        (NotFittedError, "call fit first", lambda: acqh.ACQH().encode(labels=data.labels)),
        (NotFittedError, "call fit first", lambda: acqh.ACQH().forget(data)),
        (LabelError, "labels are needed", lambda: acqh.ACQH(targets={"labels": 1}).fit(data.views)),
        (LabelError, "no item has a label", lambda: acqh.ACQH().fit({"image": X}, X[:, :2] * 0)),
        (InvalidInputError, "n_codebooks", lambda: acqh.ACQH(n_codebooks=17).fit(data)),
        (InvalidInputError, "codebook_size", lambda: acqh.ACQH(codebook_size=257).fit(data)),
        (InvalidInputError, "n_components", lambda: acqh.ACQH(0).fit(data)),
        (InvalidInputError, "similarity", lambda: acqh.ACQH(similarity="nope").fit(data)),
        (ViewError, "'sound'", lambda: model.project(X, view="sound")),
        (ViewError, "features", lambda: model.project(X[:, :3], view="image")),
        (ViewError, "row 0", lambda: model.project(X * np.nan, view="image")),
        (ViewError, "'sound'", lambda: model.encode({"sound": X})),
        (ViewError, "number of rows", lambda: model.encode({**data.views, "image": X[:9]})),
        (ViewError, "number of rows", lambda: model.encode({"image": X}, labels=data.labels[:9])),
        (LabelError, "item 0 has no labels", lambda: model.encode(labels=data.labels * 0)),
        (LabelError, "3 columns, but 6", lambda: model.encode(labels=np.eye(3))),
        (InvalidInputError, "give labels", lambda: model.encode()),
        (InvalidInputError, "one view", lambda: model.encode(data.views, mode="single")),
        (InvalidInputError, "no items", lambda: model.encode({"image": X[:0]})),
        (InvalidInputError, "shape", lambda: model.decode(np.zeros((2, 3), dtype=np.uint8))),
        (InvalidInputError, "0 to 15", lambda: model.decode(np.full((1, 2), 16, dtype=np.uint8))),
        (InvalidInputError, "not fitted", lambda: clone(model).fit(data.subset([0])).forget(data)),
        (InvalidInputError, "would be left", lambda: clone(model).fit(data).forget(data)),
        (InvalidInputError, "Statistics", lambda: acqh.ACQH().fit_stats(None)),
        (InvalidInputError, "symmetric", lambda: acqh.ACQH(similarity=lambda a, b: a @ np.ones_like(b).T + np.arange(len(b))).fit(data)),  # noqa: E501
        (InvalidInputError, "shape", lambda: acqh.ACQH(similarity=lambda a, b: a[:, :2]).fit(data)),  # noqa: ARG005
    ]  # fmt: skip
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()


def test_a_failed_fit_leaves_the_model_as_it_was(data, model):
    before = clone(model).fit(data)
    codebooks_before = before.codebooks_.copy()
    with pytest.raises(ViewError):
        before.partial_fit({"image": data.views["image"]}, data.labels)
    np.testing.assert_array_equal(before.codebooks_, codebooks_before)
    assert before.stats_.n_items == len(data)


@pytest.mark.slow
def test_tens_of_thousands_of_label_sets_are_fitted_in_bounded_memory():
    rng = np.random.default_rng(0)
    labels = (rng.random((40_000, 40)) < 0.15).astype(np.uint8)
    X = (labels @ rng.normal(size=(40, 12)) + rng.normal(size=(40_000, 12))).astype(np.float32)
    model = acqh.ACQH(8, n_codebooks=1, codebook_size=32, random_state=0)
    tracemalloc.start()
    model.fit({"image": X}, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_sets = len(model.stats_.label_sets)
    assert n_sets > 30_000
    assert peak < 0.2 * n_sets**2 * 8
    assert model.objective_[-1] < model.objective_[0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.float16, np.float32])
def test_features_that_float32_holds_give_a_float32_model(data, dtype):
    views = {name: (10 * abs(view)).astype(dtype) for name, view in data.views.items()}
    model = acqh.ACQH(4, **SMALL).fit(views, data.labels)
    assert model.codebooks_.dtype == np.float32
    assert model.project(views["text"], view="text").dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_wider_features_give_a_float64_model(data, dtype):
    views = {name: (10 * view).astype(dtype) for name, view in data.views.items()}
    assert acqh.ACQH(4, **SMALL).fit(views, data.labels).codebooks_.dtype == np.float64


def test_encoding_labels_takes_no_memory_by_the_number_of_fitted_label_sets():
    rng = np.random.default_rng(0)
    labels = (rng.random((4_000, 40)) < 0.3).astype(np.uint8)
    model = acqh.ACQH(4, similarity="dot", **SMALL).fit(
        {"image": rng.normal(size=(4_000, 3))}, labels
    )
    first = model.encode(labels=labels[:1])
    tracemalloc.start()
    again = model.encode(labels=labels[:1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(again, first)
    assert len(model.stats_.label_sets) > 3_900
    assert peak < 100_000


def test_fitted_label_sets_keep_their_codes_among_new_ones(data):
    model = acqh.ACQH(4, **SMALL).fit(data)
    new = np.ones((1, data.labels.shape[1]), dtype=np.uint8)
    alone = model.encode(labels=new)
    mixed = model.encode(labels=np.concatenate([new, data.labels, new]))
    np.testing.assert_array_equal(mixed[1:-1], model.encode(labels=data.labels))
    np.testing.assert_array_equal(mixed[[0, -1]], np.repeat(alone, 2, axis=0))
