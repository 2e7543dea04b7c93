import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.data import MultiViewData
from acqh.errors import DuplicateIdError, InvalidInputError, ViewError


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_concat_undoes_a_cut_into_parts(sizes, sparse_view, sparse_labels):
    n = sum(sizes)
    rng = np.random.default_rng(n)
    image = rng.integers(0, 3, size=(n, 3)).astype(float)
    labels = rng.integers(0, 2, size=(n, 4))
    data = MultiViewData(
        {"image": sp.csr_array(image) if sparse_view else image},
        sp.csr_array(labels) if sparse_labels else labels,
        items={"row": np.arange(n)},
    )
    ends = np.cumsum(sizes)
    parts = [data.subset(slice(e - s, e)) for s, e in zip(sizes, ends, strict=True)]
    again = MultiViewData.concat(parts)
    np.testing.assert_array_equal(dense(again.views["image"]), image)
    np.testing.assert_array_equal(dense(again.labels), labels)
    assert sp.issparse(again.views["image"]) == sparse_view
    assert again.labels.dtype == np.uint8
    assert again.ids.tolist() == again.items["row"].tolist() == list(range(n))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_label_columns_are_matched_by_name(form):
    first = MultiViewData({"x": np.eye(2)}, form([[1, 0], [1, 1]]), label_names=["a", "b"])
    second = MultiViewData({"x": np.eye(2)}, form([[1, 0], [0, 1]]), label_names=["c", "a"])
    both = MultiViewData.concat([first, second], ids=range(4))
    assert both.label_names == ("a", "b", "c")
    expected = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]]
    np.testing.assert_array_equal(dense(both.labels), expected)


def test_a_part_without_labels_has_rows_without_labels():
    first = MultiViewData({"x": np.eye(1)}, [[1]], ids=[0])
    second = MultiViewData({"x": np.eye(1)}, ids=[1])
    assert MultiViewData.concat([first, second]).labels.tolist() == [[1], [0]]
    assert MultiViewData.concat([second]).labels is None


def test_views_may_be_missing_or_sparse_in_single_parts():
    first = MultiViewData({"x": np.eye(2), "y": np.ones((2, 3))}, ids=[0, 1], name="first")
    second = MultiViewData({"y": sp.csr_array(np.ones((1, 3)))}, ids=[2])
    both = MultiViewData.concat([first, second])
    assert both.present["x"].tolist() == [True, True, False]
    assert both.present["y"].all()
    assert both.views["x"].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert sp.issparse(both.views["y"])
    assert both.name == "first"


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        ({"views": {"x": np.ones((1, 3))}}, ViewError, "columns"),
        ({"ids": [1]}, DuplicateIdError, "id 1 occurs more than once"),
        ({"ids": ["a"]}, InvalidInputError, "numbers as ids, others strings"),
        ({"items": {"z": [1]}}, InvalidInputError, r"columns \['caption'\], another \['z'\]"),
    ],
)
def test_parts_that_do_not_fit_are_rejected(other, error, message):
    first = MultiViewData({"x": np.eye(2)}, items={"caption": ["a", "b"]})
    options = {"views": {"x": np.ones((1, 2))}, "ids": [2], "items": {"caption": ["c"]}}
    with pytest.raises(error, match=message):
        MultiViewData.concat([first, MultiViewData(**{**options, **other})])


def test_nothing_cannot_be_put_together():
    with pytest.raises(InvalidInputError, match="concatenate"):
        MultiViewData.concat([])


def test_numbers_next_to_texts_stay_numbers() -> None:
    parts = [
        MultiViewData({"image": np.eye(2)}, ids=ids, items={"year": column})
        for ids, column in (
            (["a", "b"], [2000, 2001]),
            (["c", "d"], np.array(["x", "y"])),
            (["e", "f"], [True, False]),
        )
    ]
    year = MultiViewData.concat(parts).items["year"].tolist()
    assert year == [2000, 2001, "x", "y", True, False]
    assert [type(value) for value in year[::2]] == [int, str, bool]
