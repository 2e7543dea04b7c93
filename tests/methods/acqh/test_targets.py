"""Targets of any kind: labels, content, a teacher, and items that lack some of them."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge

import acqh
from acqh import Target
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats import Statistics, StatisticsConfig

SMALL = {"n_codebooks": 3, "codebook_size": 16, "random_state": 0}
MIXED = {"labels": 0.5, "image": 0.25, "text": 0.25}


@pytest.fixture(scope="module")
def data():
    data = acqh.make_multiview(
        240, {"image": 12, "text": 9}, n_labels=5, single_label=False, random_state=0
    )
    return data.with_views({name: X.astype(np.float64) for name, X in data.views.items()})


@pytest.fixture(scope="module")
def partly(data):
    """Return items: some lack labels, some one view, none both views."""
    labels = data.labels.copy()
    labels[::3] = 0
    rows = np.arange(len(data))
    present = {"image": rows % 5 != 1, "text": rows % 7 != 2}
    present["text"] |= ~present["image"]
    return acqh.MultiViewData(
        dict(data.views), labels, label_names=data.label_names, present=present
    )


@pytest.fixture(scope="module")
def mixed(partly):
    return acqh.ACQH(8, targets=MIXED, **SMALL).fit(partly)


def assert_same(first, second, items, rtol=1e-7):
    for view, projection in first.projections_.items():
        scale = np.abs(projection).max()
        np.testing.assert_allclose(second.projections_[view], projection, rtol=0, atol=rtol * scale)
    np.testing.assert_array_equal(second.encode(items.views), first.encode(items.views))


def test_without_labels_the_content_of_all_views_is_fitted(data):
    model = acqh.ACQH(21, **SMALL).fit(data.views)
    assert sorted(model.targets_) == ["image", "text"]
    assert sum(target.weight for target in model.targets_.values()) == pytest.approx(1)
    assert model.targets_["text"].rank == 9
    scores = model.project(data.views["image"], view="image") @ model.embed(data.views).T
    own_scores = np.diag(scores)
    assert np.mean((scores > own_scores[:, None]).sum(axis=1) < 10) > 0.9


def test_with_labels_only_labels_are_fitted(data):
    plain = acqh.ACQH(8, **SMALL).fit(data)
    named = acqh.ACQH(8, targets={"labels": 4.0}, **SMALL).fit(data)
    assert [*plain.targets_] == ["labels"]
    np.testing.assert_array_equal(named.encode(data.views), plain.encode(data.views))
    assert not plain.stats_.config.pairs


def test_a_target_of_weight_zero_is_none(data):
    model = acqh.ACQH(8, targets={"labels": 1, "text": 0}, **SMALL).fit(data)
    assert [*model.targets_] == ["labels"]


@pytest.mark.parametrize("chunk", [1, 37, 240])
def test_any_chunking_gives_the_same_codes(partly, mixed, chunk):
    assert_same(mixed, acqh.ACQH(8, targets=MIXED, **SMALL).fit(partly.chunks(chunk)), partly)


def test_any_order_of_items_gives_the_same_codes(partly, mixed):
    shuffled = partly.subset(np.random.default_rng(0).permutation(len(partly)))
    assert_same(mixed, acqh.ACQH(8, targets=MIXED, **SMALL).fit(shuffled), partly)


def test_a_small_sample_is_the_same_for_any_order_and_chunking(partly, monkeypatch):
    monkeypatch.setattr(acqh.ACQH, "_sample_size", 50)
    model = acqh.ACQH(8, targets=MIXED, **SMALL)
    full = clone(model).fit(partly)
    assert len(full.stats_.sample) == 50
    shuffled = partly.subset(np.random.default_rng(1).permutation(len(partly)))
    assert_same(full, clone(model).fit(shuffled.chunks(31)), partly)


def test_partial_fit_and_forget_equal_a_fit_of_the_remaining_items(partly):
    first, second, third = (partly.subset(np.arange(s, s + 80)) for s in (0, 80, 160))
    model = acqh.ACQH(8, targets=MIXED, ridge=1e-2, **SMALL)
    expected = clone(model).fit(acqh.MultiViewData.concat([first, second]))
    assert_same(expected, clone(model).partial_fit(first).partial_fit(second), partly)
    assert_same(expected, clone(model).fit([first, third, second]).forget(third), partly, 1e-6)


def test_items_never_fitted_cannot_be_forgotten(data):
    model = acqh.ACQH(8, **SMALL).fit(data.subset(np.arange(100)).without_labels())
    with pytest.raises(InvalidInputError, match="not fitted"):
        model.forget(data.subset(np.arange(150, 160)).without_labels())


def test_weights_can_be_changed_after_the_pass(partly):
    model = acqh.ACQH(8, targets={**MIXED, "text": 9.0}, **SMALL).fit(partly)
    expected = acqh.ACQH(8, targets=MIXED, **SMALL).fit(partly)
    assert_same(expected, model.set_params(targets=MIXED).fit_stats(model.stats_), partly)
    needed = acqh.ACQH(8, targets={"image": 1.0}, **SMALL).fit(partly)
    assert needed.stats_.config.pairs == {("image", "text")}


def test_missing_statistics_cannot_become_a_target(data):
    views = {**data.views, "sound": data.views["text"][:, :3] ** 2}
    model = acqh.ACQH(8, targets={"sound": 1.0}, **SMALL).fit(views)
    with pytest.raises(InvalidInputError, match="collect with these targets"):
        model.set_params(targets={"image": 1.0}).fit_stats(model.stats_)
    with pytest.raises(InvalidInputError, match="cosine"):
        model.set_params(targets={"image": Target(1, "cosine")}).fit_stats(model.stats_)
    plain = acqh.ACQH(8, **SMALL).fit(data)
    with pytest.raises(InvalidInputError, match="collect"):
        plain.set_params(targets={"image": 1.0}).fit_stats(plain.stats_)


def test_precomputed_statistics_give_the_same_model(data):
    stats = Statistics.from_views(data.views, None)
    assert_same(acqh.ACQH(8, **SMALL).fit(data.views), acqh.ACQH(8, **SMALL).fit_stats(stats), data)


def test_sparse_views_give_the_same_codes(data):
    views = {name: np.where(X > 0, X, 0.0) for name, X in data.views.items()}
    dense = acqh.ACQH(8, **SMALL).fit(views)
    sparse = acqh.ACQH(8, **SMALL).fit({name: sp.csr_array(X) for name, X in views.items()})
    inputs = {name: sp.csr_array(X) for name, X in views.items()}
    np.testing.assert_array_equal(sparse.encode(inputs), dense.encode(views))


@pytest.mark.parametrize("similarity", ["content", "inner", "cosine"])
def test_a_teacher_is_used_in_training_only(data, similarity, tmp_path):
    teacher = data.views["image"] @ np.random.default_rng(0).normal(size=(12, 6)) + 1.0
    views = {**data.views, "teacher": teacher}
    targets = {"teacher": Target(1.0, similarity)}
    model = acqh.ACQH(6, targets=targets, normalize_items=False, **SMALL).fit(views)
    scores = model.project(data.views["image"], view="image") @ model.embed({"teacher": teacher}).T
    expected = {
        "content": teacher - teacher.mean(axis=0),
        "inner": teacher,
        "cosine": teacher / np.linalg.norm(teacher, axis=1, keepdims=True),
    }[similarity]
    # The image predicts the teacher exactly, except for a cosine, which is not a linear map of it.
    like = np.corrcoef(scores.ravel(), (expected @ expected.T).ravel())[0, 1]
    assert like > (0.9 if similarity == "cosine" else 0.999)
    model.save(tmp_path / "model")
    again = acqh.methods.load_method(tmp_path / "model")
    for view, X in views.items():
        np.testing.assert_array_equal(again.project(X, view=view), model.project(X, view=view))
        np.testing.assert_array_equal(again.encode({view: X}), model.encode({view: X}))


def test_items_are_encoded_from_any_subset_of_views(data, mixed):
    views, labels = data.views, data.labels
    ways = [
        (views, labels),
        (views, None),
        ({"image": views["image"]}, labels),
        ({"text": views["text"]}, None),
        (None, labels),
    ]
    full = mixed.embed(views, labels=labels)
    errors = []
    for inputs, expected in ways:
        vectors = mixed.embed(inputs, labels=expected)
        codes = mixed.encode(inputs, labels=expected)
        assert codes.shape == (240, 3)
        # The more is known, the nearer an item is to where it belongs.
        errors.append(np.mean((vectors - full) ** 2))
    assert errors[0] == 0 < errors[1] < errors[3]
    assert errors[2] < errors[4]


def test_rows_are_encoded_from_the_views_they_have(data, mixed):
    labels = data.labels.copy()
    labels[::2] = 0
    present = {"text": np.arange(240) % 3 > 0}
    some = acqh.MultiViewData(dict(data.views), present=present)
    together = mixed.embed(some, labels=labels)
    for row in (0, 1, 2, 3):
        names = ["image", "text"] if present["text"][row] else ["image"]
        alone = mixed.embed(
            {name: data.views[name][[row]] for name in names},
            labels=labels[[row]] if labels[row].any() else None,
        )
        np.testing.assert_allclose(together[[row]], alone, atol=1e-12)


def test_a_useless_view_changes_predictions_no_more_than_rounding_allows(data):
    rng = np.random.default_rng(0)
    views = {"image": data.views["image"], "noise": rng.normal(size=(240, 5))}
    model = acqh.ACQH(8, targets={"labels": 1.0}, normalize_items=True, **SMALL).fit(
        views, data.labels
    )
    alone = model.embed({"image": views["image"]})
    both = model.embed(views)
    truth = model.embed(labels=data.labels)
    error = np.mean((alone - truth) ** 2)
    assert np.mean((both - truth) ** 2) < 1.05 * error


def test_a_few_labels_are_enough_to_use_them(data):
    labels = data.labels.copy()
    labels[24:] = 0
    some = acqh.ACQH(8, targets=MIXED, **SMALL).fit(data.views, labels)
    assert some.stats_.n_items == 240
    assert round(some.stats_.counts.sum()) == np.count_nonzero(labels.any(axis=1))
    assert set(some.ridges_["image"]) == {"labels", "text"}
    assert some.encode(data.views).shape == (240, 3)


def test_views_that_no_item_has_both_of_meet_in_the_labels(data):
    first = np.arange(len(data)) % 2 == 0
    # As many items with one label each: their labels differ, and the sums of these.
    labels = np.eye(5, dtype=np.uint8)[np.where(first, np.arange(240) % 3, np.arange(240) % 5)]
    apart = acqh.MultiViewData(data.views, labels, present={"image": first, "text": ~first})
    model = acqh.ACQH(8, targets=MIXED, similarity="dot", ridge=1e-3, **SMALL).fit(apart)
    assert model.encode(apart, labels=labels).shape == (len(data), model.n_codebooks)
    space = model.space_
    for name, rows in (("image", first), ("text", ~first)):
        features = space.embedding.transform(labels[rows])
        centred = features - features.mean(axis=0)
        alpha = 1e-3 * np.sum(centred**2) / features.shape[1]
        block = space.blocks[name].transform(data.views[name][rows])
        expected = Ridge(alpha=alpha).fit(features, block)
        result = space.predictors["labels"][name]
        np.testing.assert_allclose(result.coefficients, expected.coef_.T, atol=1e-9)


def test_unlabelled_items_are_as_long_as_labelled_ones(data):
    labels = data.labels.copy()
    labels[::2] = 0
    fair = acqh.ACQH(8, targets=MIXED, **SMALL).fit(data.views, labels)
    plain = acqh.ACQH(8, targets=MIXED, normalize_items=False, **SMALL).fit(data.views, labels)
    ratios = []
    for model in (fair, plain):
        joined = np.concatenate(
            [
                model.embed({"image": data.views["image"]}),
                model.embed(dict(data.views)),
            ]
        )
        placed = joined @ np.linalg.pinv(model.space_.target_map)
        lengths = np.linalg.norm(placed, axis=1)
        ratios.append(lengths[:240].mean() / lengths[240:].mean())
    assert abs(ratios[0] - 1) < abs(ratios[1] - 1)


def test_cosine_targets_give_items_of_unit_norm(data):
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=(240, 6)) + 2.0
    teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
    targets = {"teacher": Target(1.0, "cosine")}
    model = acqh.ACQH(6, targets=targets, **SMALL).fit({**data.views, "teacher": teacher})
    scores = model.project(teacher, view="teacher") @ model.embed({"teacher": teacher}).T
    np.testing.assert_allclose(scores, teacher @ teacher.T, atol=1e-9)
    given_scores, guessed = (
        model.space_.scale(model.space_.join_blocks({name: X}))
        for name, X in (("teacher", teacher), ("text", data.views["text"]))
    )
    for joined in (given_scores, guessed):
        np.testing.assert_allclose(np.linalg.norm(joined, axis=1), 1.0, atol=1e-9)


def test_an_item_without_any_view_is_scored_like_the_mean(data):
    views = {**data.views, "noise": np.zeros((240, 2))}
    model = acqh.ACQH(24, targets=MIXED, **SMALL).fit(views, data.labels)
    space = model.space_
    vague = space.embed({"noise": np.zeros((1, 2))})
    inputs = dict(data.views, labels=space.embedding.transform(data.labels))
    mean = space.join_blocks(inputs).mean(axis=0)
    np.testing.assert_allclose(vague[0], mean @ space.target_map, atol=1e-9)


@pytest.mark.parametrize("by", ["codes", "views", "labels"])
@pytest.mark.parametrize("targets", [None, MIXED])
def test_another_encoder_of_queries_finds_the_same_items(data, targets, by, tmp_path):
    model = acqh.ACQH(8, targets=targets, **SMALL).fit(data)
    codes = model.encode(data.views, labels=data.labels)
    newer = np.tanh(data.views["text"] @ np.random.default_rng(0).normal(size=(9, 20)))
    before = model.project(data.views["text"], view="text") @ model.decode(codes).T
    inputs = {"codes": codes, "views": dict(data.views), "labels": {"labels": data.labels}}[by]
    model.refit_queries({"text": newer}, inputs)
    after = model.project(newer, view="text") @ model.decode(codes).T
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.6
    assert model.encode({"text": newer}).shape == (240, 3)
    model.save(tmp_path / "model")
    again = acqh.methods.load_method(tmp_path / "model")
    np.testing.assert_array_equal(
        again.project(newer, view="text"), model.project(newer, view="text")
    )
    with pytest.raises(InvalidInputError, match="query encoder"):
        again.partial_fit(data)


def test_a_new_query_encoder_can_have_more_components_than_labels(data):
    model = acqh.ACQH(40, similarity="dot", **SMALL).fit(data)
    codes = model.encode(labels=data.labels)
    before = model.project(data.views["text"], view="text") @ model.decode(codes).T
    model.refit_queries({"text": data.views["text"]}, {"labels": data.labels})
    after = model.project(data.views["text"], view="text") @ model.decode(codes).T
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.99


def test_models_of_targets_are_saved_whole(partly, mixed, tmp_path):
    model = clone(mixed).set_params(
        targets={**MIXED, "text": Target(0.25, rank=4, caption_weight="auto")}
    )
    model.fit(partly)
    model.save(tmp_path / "model")
    again = acqh.methods.load_method(tmp_path / "model")
    assert again.targets_ == model.targets_
    assert again.targets == model.targets
    np.testing.assert_array_equal(
        again.encode(partly, labels=partly.labels), model.encode(partly, labels=partly.labels)
    )
    more = partly.subset(np.arange(60))
    assert_same(model.partial_fit(more), again.partial_fit(more), partly)


def test_the_error_never_rises_and_stays_above_its_bound(mixed):
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(mixed.objective_))
    assert mixed.objective_[-1] >= mixed.lower_bound_ > 0


def test_wrong_input_is_rejected_with_the_reason(data):
    views = data.views
    absent = acqh.MultiViewData(
        {**views, "teacher": views["text"]}, present={"teacher": np.zeros(240, dtype=bool)}
    )
    text = views["text"]

    def fit(targets=None, views=views, labels=None, **settings):
        return acqh.ACQH(8, targets=targets, **SMALL, **settings).fit(views, labels)

    model = fit()
    cases = [
        (ViewError, "'sound' is not a view", lambda: fit({"sound": 1})),
        (InvalidInputError, "at least zero", lambda: fit({"text": -1})),
        (InvalidInputError, "at least zero", lambda: fit({"text": "much"})),
        (InvalidInputError, "above zero", lambda: fit({"text": 0, "image": 0})),
        (InvalidInputError, "above zero", lambda: fit({})),
        (InvalidInputError, "mapping", lambda: fit(["text"])),
        (InvalidInputError, "similarity", lambda: fit({"text": Target(1, "euclid")})),
        (InvalidInputError, "rank", lambda: fit({"text": Target(1, rank=0)})),
        (InvalidInputError, "from 0 to 1", lambda: fit({"text": Target(1, caption_weight=2)})),
        (InvalidInputError, "from 0 to 1", lambda: fit({"text": Target(1, caption_weight="much")})),
        (InvalidInputError, "labels is the argument", lambda: fit({"labels": Target(1, "inner")}, labels=data.labels)),  # noqa: E501
        (ViewError, "no item has view 'teacher'", lambda: fit({"teacher": 1}, absent)),
        (ViewError, "no item has view 'teacher' and a target, text", lambda: fit({"text": 1}, absent)),  # noqa: E501
        (LabelError, "labels are needed", lambda: fit({"labels": 1, "text": 1})),
        (LabelError, "no item has a label", lambda: fit({"labels": 1, "text": 1}, labels=data.labels * 0)),  # noqa: E501
        (ViewError, "'labels'", lambda: fit(views={"labels": text})),
        (InvalidInputError, "no target", lambda: model.encode(labels=data.labels)),
        (InvalidInputError, "mapping", lambda: model.refit_queries(text, text)),
        (ViewError, "rows", lambda: model.refit_queries({"text": text[:9]}, views)),
        (InvalidInputError, "shape", lambda: model.refit_queries({"text": text}, text)),
        (ViewError, "'labels'", lambda: model.refit_queries({"labels": text}, views)),
    ]  # fmt: skip
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()


def test_statistics_that_keep_different_things_do_not_add_up(data):
    few = Statistics.from_views(data.views, None, config=StatisticsConfig(frozenset(), 10))
    with pytest.raises(InvalidInputError, match="configs"):
        few + Statistics.from_views(data.views, None)


def test_a_failed_fit_of_a_query_encoder_leaves_the_model_unchanged(data):
    model = acqh.ACQH(8, targets=MIXED, **SMALL).fit(data)
    codes = model.encode(data.views, labels=data.labels)
    before = {view: model.project(rows, view=view) for view, rows in data.views.items()}
    newer = {"text": data.views["text"] ** 2, "image": np.full((len(data), 3), 1e300)}
    with pytest.raises(ViewError):
        model.refit_queries(newer, codes)
    assert model.refitted_ == ()
    for view, rows in data.views.items():
        np.testing.assert_array_equal(model.project(rows, view=view), before[view])
