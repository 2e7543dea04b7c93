import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import MultiViewData, read, save_npz
from acqh.errors import DuplicateIdError, InvalidInputError, LabelError, ViewError


def make(n=6, **options):
    rng = np.random.default_rng(0)
    views = {
        "image": rng.normal(size=(n, 3)).astype(np.float32),
        "text": sp.random_array((n, 5), density=0.5, format="csr", random_state=rng),
    }
    inputs = {
        "labels": np.eye(n, 4, dtype=np.uint8),
        "ids": [f"id{i}" for i in range(n)],
        "items": {"caption": [f"text {i}" for i in range(n)], "size": np.arange(n)},
    }
    return MultiViewData(views, **{**inputs, **options})


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def test_arrays_are_kept_without_a_copy_and_in_their_type():
    image, text = np.ones((2, 3), dtype=np.float16), sp.csr_array(np.eye(2, dtype=np.uint8))
    data = MultiViewData({"image": image, "text": text})
    assert np.shares_memory(data.views["image"], image)
    assert data.views["image"].dtype == np.float16
    assert np.shares_memory(data.views["text"].data, text.data)
    assert data.views["text"].dtype == np.uint8


def test_any_sparse_format_becomes_csr():
    data = MultiViewData({"text": sp.coo_matrix(np.eye(3))})
    assert isinstance(data.views["text"], sp.csr_array)


def test_defaults_are_row_numbers_as_ids_and_no_labels():
    data = MultiViewData({"image": np.eye(3)})
    assert data.ids.tolist() == [0, 1, 2]
    assert data.ids.dtype == np.int64
    assert data.labels is None
    assert data.label_names == ()
    assert data.present["image"].all()
    assert len(data) == data.n_items == 3
    assert data.name == "data"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["cat", "dog"], ("cat", "dog")),
        ([{"dog"}, {"cat", "dog"}], ("cat", "dog")),
        (np.eye(2), ("0", "1")),
        (sp.csr_array(np.eye(2)), ("0", "1")),
        ([5, 3], ("3", "5")),
    ],
)
def test_labels_of_every_form_are_a_0_1_matrix(labels, names):
    data = MultiViewData({"image": np.eye(2)}, labels)
    assert data.label_names == names
    assert data.labels.dtype == np.uint8
    assert data.labels.shape == (2, 2)


def test_attributes_and_mappings_cannot_be_changed():
    data = make()
    with pytest.raises(AttributeError):
        data.labels = None
    with pytest.raises(TypeError):
        data.views["image"] = np.eye(6)
    with pytest.raises(TypeError):
        data.items["caption"] = []


def with_nan(row):
    matrix = np.zeros((20, 2))
    matrix[row, 1] = np.nan
    return matrix


@pytest.mark.parametrize(
    ("views", "options", "error", "message"),
    [
        (
            {"image": np.ones((12, 2)), "text": np.ones((10, 2))},
            {},
            ViewError,
            r"^view 'text' has 10 rows, 'image' has 12; views are paired by row$",
        ),
        ({"image": with_nan(17)}, {}, ViewError, r"view 'image' has a NaN .* in row 17"),
        ({"image": sp.csr_array(with_nan(17))}, {}, ViewError, r"view 'image' .* row 17"),
        ({"image": np.full((2, 2), np.inf)}, {}, ViewError, r"infinite value in row 0"),
        ({}, {}, ViewError, "there are no views"),
        ([np.eye(2)], {}, ViewError, "mapping of names to matrices, got list"),
        ({"": np.eye(2)}, {}, ViewError, "non-empty strings, got ''"),
        ({"image": np.ones((0, 2))}, {}, ViewError, "the views have no rows"),
        ({"image": np.ones((2, 0))}, {}, ViewError, "view 'image' has no columns"),
        ({"image": np.ones(3)}, {}, ViewError, "view 'image' has 1 dimensions"),
        ({"image": [["a"], ["b"]]}, {}, ViewError, "view 'image' has dtype <U1"),
        ({"image": np.eye(2)}, {"labels": [[0, 2], [1, 0]]}, LabelError, "0 or 1, got .*2.* row 0"),
        ({"image": np.eye(2)}, {"labels": [0, 1, 1]}, LabelError, "3 rows, but the views have 2"),
        ({"image": np.eye(2)}, {"label_names": ["a"]}, LabelError, "without labels"),
        (
            {"image": np.eye(3)},
            {"ids": ["a", "b", "a"]},
            DuplicateIdError,
            r"id 'a' occurs more than once \(rows 0 and 2\)",
        ),
        ({"image": np.eye(3)}, {"ids": [4, 7, 7]}, DuplicateIdError, r"id 7 .*rows 1 and 2"),
        ({"image": np.eye(3)}, {"ids": [4, 7]}, InvalidInputError, r"shape \(2,\).* each of 3"),
        ({"image": np.eye(2)}, {"ids": [0.5, 1]}, InvalidInputError, "whole numbers or strings"),
        (
            {"image": np.eye(1)},
            {"ids": np.array([2**64 - 1], dtype=np.uint64)},
            InvalidInputError,
            "does not fit",
        ),
        (
            {"image": np.eye(2)},
            {"items": {"caption": ["one"]}},
            InvalidInputError,
            "column 'caption' of the item table has 1 entries, but there are 2 items",
        ),
        ({"image": np.eye(2)}, {"items": {"a": "xy"}}, InvalidInputError, "'a' .* a single value"),
        (
            {"image": np.eye(2)},
            {"present": {"image": [True]}},
            ViewError,
            r"present of view 'image' has shape \(1,\), but the view has 2 rows",
        ),
        ({"image": np.eye(2)}, {"present": {"image": [1, 0]}}, ViewError, "True or False per row"),
        (
            {"image": np.eye(2)},
            {"present": {"text": [True] * 2}},
            ViewError,
            "names the view 'text'",
        ),
        (
            {"image": np.eye(2), "text": np.eye(2)},
            {"present": {"image": [True, False], "text": [True, False]}, "ids": ["a", "b"]},
            ViewError,
            r"row 1 \(id b\) is in no view",
        ),
        (
            {"image": np.eye(2)},
            {"splits": {"train": [0, 2]}},
            InvalidInputError,
            "from 0 to 2, but",
        ),
        (
            {"image": np.eye(2)},
            {"splits": {"train": [0], "test": [0]}},
            InvalidInputError,
            "shares",
        ),
        ({"image": np.eye(2)}, {"splits": {"train": []}}, InvalidInputError, "non-empty"),
    ],
)
def test_the_constructor_rejects_wrong_input_with_the_reason(views, options, error, message):
    with pytest.raises(error, match=message):
        MultiViewData(views, **options)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_values_of_absent_rows_are_ignored_and_the_input_is_unchanged(form):
    values = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 0.0]])
    inputs = form(values)
    data = MultiViewData(
        {"image": inputs, "text": np.eye(3)}, present={"image": np.array([True, False, True])}
    )
    np.testing.assert_array_equal(dense(data.views["image"]), [[1, 2], [0, 0], [4, 0]])
    np.testing.assert_array_equal(dense(inputs), values)
    assert data.present["text"].all()


def test_texts_of_the_item_table_are_objects_and_numbers_are_numbers():
    data = make(2, items={"text": ["a", "b" * 1000], "n": [1, 2], "tags": [["x"], ["y"]]}, ids=None)
    assert data.items["text"].dtype == object
    assert data.items["n"].dtype == np.int64
    assert data.items["tags"][1] == ["y"]


@pytest.mark.parametrize(
    "rows",
    [
        [4, 0, 2],
        np.array([True, False, True, False, False, True]),
        slice(1, 4),
        slice(None, None, 2),
    ],
)
def test_subset_takes_the_same_rows_of_everything(rows):
    data = make(present={"text": np.array([True, True, False, True, True, True])})
    part = data.subset(rows)
    expected = np.arange(6)[rows]
    assert part.ids.tolist() == [f"id{i}" for i in expected]
    assert part.items["size"].tolist() == expected.tolist()
    assert part.items["caption"].tolist() == [f"text {i}" for i in expected]
    for name in data.views:
        np.testing.assert_array_equal(dense(part.views[name]), dense(data.views[name])[expected])
        np.testing.assert_array_equal(part.present[name], data.present[name][expected])
    np.testing.assert_array_equal(part.labels, data.labels[expected])
    assert part.label_names == data.label_names


def test_subset_counts_negative_rows_from_the_end():
    assert make().subset([-1]).ids.tolist() == ["id5"]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([0, 6], InvalidInputError, "row 6 does not exist; there are 6 items"),
        ([], InvalidInputError, "no rows were selected"),
        (slice(3, 3), InvalidInputError, "selects no rows"),
        (np.zeros(6, dtype=bool), InvalidInputError, "no rows were selected"),
        (np.ones(5, dtype=bool), InvalidInputError, "mask has 5 entries for 6"),
        ([0.5], InvalidInputError, "whole numbers"),
        ([[0]], InvalidInputError, "2 dimensions"),
        ([3, 1, 3], DuplicateIdError, "'id3' occurs more than once"),
    ],
)
def test_subset_rejects_invalid_rows(rows, error, message):
    with pytest.raises(error, match=message):
        make().subset(rows)


def test_chunks_are_views_of_dense_arrays_and_cover_all_rows():
    data = make(7)
    chunks = list(data.chunks(3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert np.concatenate([chunk.ids for chunk in chunks]).tolist() == data.ids.tolist()
    for chunk in chunks:
        assert np.shares_memory(chunk.views["image"], data.views["image"])
    np.testing.assert_array_equal(
        np.vstack([dense(chunk.views["text"]) for chunk in chunks]), dense(data.views["text"])
    )


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_chunks_rejects_a_size_that_is_no_positive_integer(size):
    with pytest.raises(InvalidInputError, match="number"):
        make().chunks(size)


def test_with_views_replaces_adds_and_keeps_who_has_a_view():
    mask = np.array([True, False, True, True, True, True])
    data = make(present={"image": mask}, splits={"train": [0, 1], "test": [2]})
    new = data.with_views({"image": np.ones((6, 8))}, pixels=np.ones((6, 2)))
    assert list(new.views) == ["image", "text", "pixels"]
    assert new.views["text"] is data.views["text"]
    assert new.views["image"][1].tolist() == [0] * 8
    np.testing.assert_array_equal(new.present["image"], mask)
    assert new.present["pixels"].all()
    assert list(new.splits) == ["train", "test"]
    full = data.with_views(image=np.ones((6, 8)), present={"image": np.ones(6, bool)})
    assert full.present["image"].all()


@pytest.mark.parametrize(
    ("views", "present", "message"),
    [
        ({"image": np.ones((5, 2))}, None, "view 'image' has 5 rows, there are 6 items"),
        ({"image": np.full((6, 2), np.nan)}, None, "row 0"),
        ({}, None, "no views"),
        ({"image": np.ones((6, 2))}, {"text": np.ones(6, bool)}, "names the view 'text'"),
    ],
)
def test_with_views_checks_new_views(views, present, message):
    with pytest.raises(ViewError, match=message):
        make().with_views(views, present=present)


def test_without_labels_hides_them():
    hidden = make().without_labels()
    assert hidden.labels is None
    assert hidden.label_names == ()
    assert "no labels" in repr(hidden)


def test_the_official_split_is_that_of_the_source():
    train, test = make(splits={"train": [5, 0], "test": [1, 2]}).official_split()
    assert train.ids.tolist() == ["id5", "id0"]
    assert test.ids.tolist() == ["id1", "id2"]
    with pytest.raises(InvalidInputError, match="no official split"):
        train.official_split()


def test_of_several_splits_one_is_chosen_by_name(tmp_path):
    splits = {"train": [0, 1], "test": [2, 3], "train_few": [3], "test_few": [0, 1, 2]}
    save_npz(make(splits=splits), tmp_path / "two.npz")
    data = MultiViewData.from_files(tmp_path / "two.npz")
    assert [len(part) for part in data.official_split()] == [2, 2]
    assert [len(part) for part in data.official_split("few")] == [1, 3]
    with pytest.raises(InvalidInputError, match="'many'"):
        data.official_split("many")
    with pytest.raises(InvalidInputError, match="shares"):
        make(splits={**splits, "val_few": [3]})


def test_columns_of_a_table_give_several_splits(tmp_path):
    lines = ["x_0,split,split_few", "1,train,test", "2,train,train", "3,test,train"]
    (tmp_path / "m.csv").write_text("\n".join(lines))
    splits = read(tmp_path / "m.csv").splits
    assert {name: rows.tolist() for name, rows in splits.items()} == {
        "train": [0, 1], "test": [2], "train_few": [1, 2], "test_few": [0],
    }  # fmt: skip


def test_repr_names_views_labels_and_splits():
    mask = np.array([True, False, True, True, True, True])
    assert repr(make(name="toy", present={"image": mask})) == (
        "MultiViewData('toy': 6 items; image 3 float32 (absent in 1), text 5 float64 sparse; "
        "4 labels; items caption, size)"
    )


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))],  # noqa: S301
)
def test_data_can_be_sent_to_another_process(clone):
    data = make()
    again = clone(data)
    assert repr(again) == repr(data)
    np.testing.assert_array_equal(again.views["image"], data.views["image"])
    with pytest.raises(TypeError):
        again.views["image"] = None


def test_an_unknown_keyword_of_split_names_the_nearest_one():
    data = MultiViewData({"image": np.eye(4)})
    with pytest.raises(TypeError, match="did you mean 'random_state'"):
        data.split(seed=0)
