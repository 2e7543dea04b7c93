import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.data import MultiViewData, split_rows
from acqh.data.splits import official_rows
from acqh.errors import InvalidInputError, LabelError


def make(n, **options):
    return MultiViewData({"image": np.ones((n, 1))}, **options)


@given(st.integers(2, 60), st.data())
def test_parts_have_the_requested_size_and_share_no_row(n, draw):
    n_test = draw.draw(st.integers(1, n - 1))
    train, test = split_rows(make(n), n_test, random_state=0)
    assert len(test) == n_test
    assert sorted([*train, *test]) == list(range(n))
    assert list(train) == sorted(train)
    assert list(test) == sorted(test)


def test_a_share_is_rounded_and_leaves_no_part_empty():
    assert len(split_rows(make(10), 0.25)[1]) == 2
    assert len(split_rows(make(10), 0.01)[1]) == 1
    assert len(split_rows(make(10), 0.99)[0]) == 1


def test_the_same_seed_gives_the_same_split_and_another_one_another():
    data = make(100)
    first = data.split(0.3, random_state=5)[1].ids
    np.testing.assert_array_equal(first, data.split(0.3, random_state=5)[1].ids)
    assert first.tolist() != data.split(0.3, random_state=6)[1].ids.tolist()


@given(st.lists(st.integers(0, 6), min_size=4, max_size=60), st.floats(0.05, 0.95))
def test_a_group_stays_on_one_side_and_the_size_is_nearly_met(groups, share):
    sizes = np.bincount(groups)
    if np.count_nonzero(sizes) < 2:
        return
    train, test = split_rows(make(len(groups)), share, groups=groups, random_state=1)
    groups = np.array(groups)
    assert set(groups[train]).isdisjoint(groups[test])
    assert len(train)
    assert len(test)
    n_groups = min(max(round(len(groups) * share), 1), len(groups) - 1)
    smallest_left = np.bincount(groups[train], minlength=1)
    smallest_left = smallest_left[smallest_left > 0].min()
    # Nothing that is left would have fitted, unless no group fits at all.
    assert len(test) <= n_groups < len(test) + smallest_left or sizes[sizes > 0].min() > n_groups


def test_groups_may_be_a_column_of_the_item_table():
    data = make(40, items={"family": [f"f{i // 4}" for i in range(40)]})
    train, test = data.split(test_size=0.2, groups="family", random_state=0)
    assert len(test) == 8
    assert set(train.items["family"]).isdisjoint(test.items["family"])


@given(st.lists(st.integers(0, 4), min_size=2, max_size=80), st.data(), st.booleans())
def test_a_stratified_split_gives_every_class_its_share_up_to_rounding(classes, draw, sparse):
    n = len(classes)
    n_test = draw.draw(st.integers(1, n - 1))
    labels = np.eye(5, dtype=np.uint8)[classes]
    data = make(n, labels=sp.csr_array(labels) if sparse else labels)
    _, test = split_rows(data, n_test, stratify=True, random_state=2)
    assert len(test) == n_test
    exact = np.bincount(classes, minlength=5) * n_test / n
    drawn = np.bincount(np.array(classes)[test], minlength=5)
    assert np.all(np.abs(drawn - exact) < 1)


def test_auto_stratifies_single_labels_only():
    single = make(20, labels=[0] * 10 + [1] * 10)
    for seed in range(5):
        test = single.split(4, stratify="auto", random_state=seed)[1]
        assert test.labels.sum(axis=0).tolist() == [2, 2]
    multi = make(20, labels=np.ones((20, 2)))
    plain = multi.split(4, random_state=0)[1].ids
    np.testing.assert_array_equal(multi.split(4, stratify="auto", random_state=0)[1].ids, plain)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"test_size": 0}, InvalidInputError, "from 1 to 3 of 4 items, got 0"),
        ({"test_size": 4}, InvalidInputError, "from 1 to 3 of 4 items, got 4"),
        ({"test_size": 1.5}, InvalidInputError, "between 0 and 1"),
        ({"test_size": float("nan")}, InvalidInputError, "between 0 and 1"),
        ({"test_size": True}, InvalidInputError, "must be a number"),
        ({"test_size": "half"}, InvalidInputError, "must be a number"),
        ({"groups": "family"}, InvalidInputError, "no column 'family'; it has \\['kind'\\]"),
        ({"groups": [1, 2]}, InvalidInputError, r"shape \(2,\)"),
        ({"groups": [1, 1, 1, 1]}, InvalidInputError, "all items are in one group"),
        ({"groups": "kind", "stratify": "auto"}, InvalidInputError, "not both"),
        ({"stratify": True}, LabelError, "exactly one label per row"),
        ({"stratify": "yes"}, InvalidInputError, "got 'yes'"),
    ],
)
def test_an_impossible_split_is_rejected_with_the_reason(options, error, message):
    data = make(4, items={"kind": [1, 2, 1, 2]}, labels=np.ones((4, 2)))
    with pytest.raises(error, match=message):
        data.split(**options)


def test_one_item_cannot_be_split():
    with pytest.raises(InvalidInputError, match="split"):
        make(1).split()


def test_only_the_selected_rows_are_split():
    data = make(20, items={"family": np.arange(20) // 2})
    rows = np.array([3, 2, 9, 8, 15, 14])
    for groups in (None, "family"):
        train, test = split_rows(data, 2, groups=groups, rows=rows, random_state=0)
        assert sorted([*train, *test]) == sorted(rows)
        assert len(test) == 2


def test_two_names_of_one_part_of_a_split_are_rejected() -> None:
    splits = {"train_few": [0], "few_train": [1], "test_few": [2], "train": [0], "test": [1]}
    data = MultiViewData({"image": np.eye(3)}, splits=splits)
    with pytest.raises(InvalidInputError, match="'train_few'"):
        official_rows(data, "few")
    assert [rows.tolist() for rows in official_rows(data)] == [[0], [1]]
