import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.bench import make_split, plan
from acqh.data import MultiViewData, make_multiview, make_multiview_like
from acqh.errors import InvalidInputError, LabelError


def test_labelled_database_is_the_training_set_and_all_that_is_no_query():
    split = make_split(make_multiview(100, random_state=0), seed=1)
    np.testing.assert_array_equal(split.train, split.database)
    assert sorted([*split.train, *split.query]) == list(range(100))
    assert len(split.query) == 20


@given(st.integers(10, 80), st.integers(0, 5), st.integers(1, 4), st.integers(1, 4))
def test_unlabelled_parts_are_disjoint_and_of_the_requested_size(n, seed, n_query, n_train):
    data = make_multiview(n, random_state=0)
    split = make_split(data, "unlabelled", seed=seed, n_query=n_query, n_train=n_train)
    assert len(split.query) == n_query
    assert len(split.train) == n_train
    assert sorted([*split.train, *split.query, *split.database]) == list(range(n))


def test_protocols_share_queries_for_one_seed_and_differ_between_seeds():
    data = make_multiview(200, random_state=0)
    labelled, unlabelled = (make_split(data, name, seed=2) for name in ("labelled", "unlabelled"))
    np.testing.assert_array_equal(labelled.query, unlabelled.query)
    assert labelled.query.tolist() != make_split(data, seed=3).query.tolist()
    assert labelled.sha256 == make_split(data, seed=2).sha256
    assert labelled.sha256 != make_split(data, seed=3).sha256


@pytest.mark.parametrize(
    ("name", "n", "n_query", "n_train"),
    [
        ("wiki", None, 693, 1_086),
        ("uci_mfeat", None, 500, 750),
        ("mirflickr25k", None, 2_000, 5_000),
        ("nuswide10", 8_000, 2_000, 3_000),
        ("nuswide10", 1_000, 200, 400),
        ("mirflickr25k", 6_500, 2_000, 2_250),
    ],
)
def test_the_numbers_are_the_papers_where_the_data_are_large_enough(name, n, n_query, n_train):
    split = make_split(make_multiview_like(name, n, random_state=0), "unlabelled")
    assert len(split.query) == n_query
    assert len(split.train) == n_train


def test_the_deep_features_of_mirflickr_have_its_numbers():
    data = make_multiview_like("mirflickr25k", 9_000, random_state=0)
    data = MultiViewData(data.views, data.labels, name="mirflickr25k_deep")
    assert len(make_split(data).query) == 2_000


def test_an_official_split_is_chosen_by_name():
    few = {"train_few": [0, 1, 2], "test_few": [6, 7]}
    data = MultiViewData(
        {"image": np.ones((8, 1))}, [0, 1] * 4, splits={"train": [0, 7], "test": [3], **few}
    )
    assert make_split(data, official=True).query.tolist() == [3]
    assert make_split(data, official="few").query.tolist() == [6, 7]


def test_an_unknown_split_is_rejected_before_any_run(tmp_path):
    few = {"train_few": [0, 1, 2], "test_few": [6, 7]}
    data = MultiViewData(
        {"image": np.ones((8, 1)), "text": np.ones((8, 1))}, [0, 1] * 4, splits=few
    )
    with pytest.raises(InvalidInputError, match="'many'"):
        plan(data, out=tmp_path / "out", methods="acqh", official="many")


def test_the_official_queries_are_the_test_part():
    data = MultiViewData(
        {"image": np.ones((8, 1))}, [0, 1] * 4, splits={"train": [6, 0, 1, 2], "test": [3, 4, 5]}
    )
    split = make_split(data, official=True)
    assert split.query.tolist() == [3, 4, 5]
    assert split.train.tolist() == split.database.tolist() == [0, 1, 2, 6]
    hidden = make_split(data, "unlabelled", official=True)
    assert hidden.query.tolist() == [3, 4, 5]
    assert sorted([*hidden.train, *hidden.database]) == [0, 1, 2, 6]
    assert len(hidden.train) == 2


def test_a_group_is_in_one_part_only():
    data = make_multiview(120, random_state=0)
    family = np.arange(120) // 3
    data = MultiViewData(data.views, data.labels, items={"family": family}, name="emoji")
    for split in (make_split(data, "unlabelled"), make_split(data, "unlabelled", groups="family")):
        parts = [set(family[rows]) for rows in (split.train, split.query, split.database)]
        assert sum(map(len, parts)) == 40


def test_queries_have_all_views_and_their_group_is_nowhere_else():
    data = make_multiview(200, missing=0.5, random_state=0)
    family = np.arange(200) // 2
    split = make_split(data, "unlabelled", groups=family, n_query=20)
    for mask in data.present.values():
        assert mask[split.query].all()
    assert set(family[split.query]).isdisjoint(family[np.r_[split.train, split.database]])
    everyone = make_split(data, n_query=20)
    assert len(everyone.train) == 180


def test_items_without_labels_are_in_no_part():
    labels = np.eye(40, 2)[:, [0, 1]]
    labels[2:, 0] = 1
    labels[10:20] = 0
    for form in (np.asarray, sp.csr_array):
        data = MultiViewData({"image": np.ones((40, 1))}, form(labels))
        split = make_split(data)
        assert sorted([*split.train, *split.query]) == [*range(10), *range(20, 40)]


def test_a_smaller_training_set_is_also_a_smaller_labelled_database():
    split = make_split(make_multiview(50, random_state=0), n_query=10, n_train=15)
    assert len(split.train) == len(split.database) == 15
    assert len(make_split(make_multiview(50), n_query=10, n_train=40).train) == 40


def test_parts_are_the_rows_and_hide_database_labels_until_scoring():
    data = make_multiview(60, random_state=0)
    split = make_split(data, "unlabelled")
    parts = split.parts(data)
    np.testing.assert_array_equal(parts.train.ids, split.train)
    np.testing.assert_array_equal(parts.query.ids, split.query)
    np.testing.assert_array_equal(parts.database.ids, split.database)
    assert parts.database.labels is None
    np.testing.assert_array_equal(parts.database_labels, data.labels[split.database])
    np.testing.assert_array_equal(parts.train.labels, data.labels[split.train])


def test_label_free_parts_are_the_unlabelled_ones_without_labels_in_training():
    data = make_multiview(100, random_state=0)
    without, with_labels = (make_split(data, name) for name in ("label-free", "unlabelled"))
    assert without.sha256 == with_labels.sha256
    parts = without.parts(data)
    assert parts.train.labels is None
    assert parts.database.labels is None
    assert parts.query.labels is not None
    np.testing.assert_array_equal(parts.database_labels, data.labels[without.database])


@pytest.mark.parametrize(("n_train", "expected"), [(None, 80), (30, 30)])
def test_the_database_of_the_field_is_all_that_is_no_query(n_train, expected):
    data = make_multiview(100, random_state=0)
    split = make_split(data, "field", n_train=n_train)
    np.testing.assert_array_equal(split.query, make_split(data, "labelled").query)
    assert sorted([*split.database, *split.query]) == list(range(100))
    assert len(split.train) == expected
    assert set(split.train) <= set(split.database)
    parts = split.parts(data)
    assert parts.train.labels is not None
    assert parts.database.labels is None


def test_the_field_protocol_trains_on_ten_thousand_pairs():
    split = make_split(make_multiview_like("mirflickr25k", n_items=16_000, random_state=0), "field")
    counts = len(split.train), len(split.query), len(split.database)
    assert counts == (10_000, 2_000, 14_000)


def test_labelled_parts_share_the_training_data():
    data = make_multiview(60, random_state=0)
    parts = make_split(data).parts(data)
    assert parts.database is parts.train
    assert parts.database_labels is parts.train.labels


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"protocol": "magic"}, InvalidInputError, "'magic'"),
        ({"seed": -1}, InvalidInputError, "seed"),
        ({"n_query": 0}, InvalidInputError, "n_query"),
        ({"n_query": 50}, InvalidInputError, "from 1 to 49 of 50"),
        ({"n_query": 10, "n_train": 41}, InvalidInputError, "n_train=41"),
        ({"protocol": "unlabelled", "n_query": 10, "n_train": 40}, InvalidInputError, "1 to 39"),
        ({"official": True}, InvalidInputError, "no official split"),
        ({"official": True, "n_query": 3}, InvalidInputError, "official"),
        ({"groups": "family"}, InvalidInputError, "no column 'family'"),
    ],
)
def test_an_impossible_split_is_rejected_with_the_reason(options, error, message):
    with pytest.raises(error, match=message):
        make_split(make_multiview(50, random_state=0), **options)


def test_data_without_labels_cannot_be_split_or_cut():
    data = make_multiview(50, random_state=0)
    with pytest.raises(LabelError, match="no labels"):
        make_split(data.without_labels())
    with pytest.raises(LabelError, match="no labels"):
        make_split(data).parts(data.without_labels())


def test_a_split_is_rejected_for_other_data():
    data = make_multiview(50, random_state=0)
    split = make_split(data)
    with pytest.raises(InvalidInputError, match=r"50 items"):
        split.parts(make_multiview(51))
    shuffled = data.subset(np.arange(50)[::-1])
    with pytest.raises(InvalidInputError, match="another order"):
        split.parts(shuffled)


def test_the_drawn_rows_stay_the_same_between_versions():
    digest = make_split(make_multiview(100, random_state=0), "unlabelled", seed=0).sha256
    assert digest == "3a06dffe8497fc6d5fb9a9eb09964117202454eb4a6dcac43c327a798847649f"
