"""Matlab files of both formats and of the layouts the field uses."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh._core.errors import InvalidInputError, LabelError, MissingExtraError, ViewError
from acqh.data import MultiViewData, read, read_chunks

Save = Callable[[Path, Mapping[str, Any]], None]

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(9, 5))
TEXT = RNG.normal(size=(9, 4)).astype(np.float32)
LABELS = (RNG.random((9, 3)) < 0.5).astype(float)
CLASSES = np.array([1, 2, 3, 1, 2, 3, 1, 2, 3.0])


@pytest.fixture(params=["v5", "v5 compressed", "v7.3"])
def save(request, save_new_mat: Save) -> Save:
    if request.param == "v7.3":
        return save_new_mat
    compressed = request.param != "v5"
    return lambda path, variables: scipy.io.savemat(path, variables, do_compression=compressed)


def assert_holds(data: MultiViewData, image, text, labels) -> None:
    np.testing.assert_array_equal(data.views["image"], image)
    found = data.views["text"]
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, text)
    found = data.labels
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, labels)


def two_parts(names: str, turn: bool = False, labels: np.ndarray = LABELS) -> dict[str, Any]:
    """Return six training and three test items under names such as "I_tr T_tr L_tr I_te ..."."""
    matrices = [m[rows] for rows in (slice(6), slice(6, 9)) for m in (IMAGE, TEXT, labels)]
    return dict(zip(names.split(), [m.T if turn else m for m in matrices], strict=True))


@pytest.mark.parametrize(
    "names",
    [
        "I_tr T_tr L_tr I_te T_te L_te",
        "XTrain YTrain LTrain XTest YTest LTest",
        "XTrain YTrain trainL XQuery YQuery queryL",
        "XDatabase YDatabase databaseL XTest YTest testL",
        "I_db T_db L_db I_te T_te L_te",
        "XRetrieval YRetrieval LRetrieval XQuery YQuery LQuery",
        "train_img train_txt train_label test_img test_txt test_label",
        "img_train txt_train lab_train img_test txt_test lab_test",
        "images_tr texts_tr labels_tr images_te texts_te labels_te",
    ],
)
@pytest.mark.parametrize("turn", [False, True])
def test_two_parts_become_one_with_the_official_split(tmp_path, save, names, turn) -> None:
    save(tmp_path / "a.mat", two_parts(names, turn))
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert data.splits["train"].tolist() == list(range(6))
    assert data.splits["test"].tolist() == [6, 7, 8]
    assert data.views["text"].dtype == np.float32
    assert data.name == "a"


@pytest.mark.parametrize(
    "names", ["XAll YAll LAll", "FAll YAll LAll", "I T L", "image text labels", "img tags gnd"]
)
@pytest.mark.parametrize("turn", [False, True])
def test_whole_matrices_have_no_split(tmp_path, save, names, turn) -> None:
    matrices = [m.T if turn else m for m in (IMAGE, TEXT, LABELS)]
    save(tmp_path / "a.mat", dict(zip(names.split(), matrices, strict=True)))
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert not data.splits


@pytest.mark.parametrize("shape", [(9, 1), (1, 9)])
@pytest.mark.parametrize("turn", [False, True])
def test_class_numbers_become_label_columns(tmp_path, save, shape, turn) -> None:
    variables = {
        "XAll": IMAGE.T if turn else IMAGE,
        "YAll": TEXT.T if turn else TEXT,
        "LAll": CLASSES.reshape(shape),
    }
    save(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, np.eye(3)[CLASSES.astype(int) - 1])
    assert data.label_names == ("1", "2", "3")


def test_class_numbers_of_both_parts_share_their_columns(tmp_path, save) -> None:
    classes = np.array([1, 1, 2, 2, 3, 3, 2, 3, 4.0])[:, None]
    save(tmp_path / "a.mat", two_parts("I_tr T_tr L_tr I_te T_te L_te", labels=classes))
    data = read(tmp_path / "a.mat")
    assert data.label_names == ("1", "2", "3", "4")
    np.testing.assert_array_equal(data.labels.argmax(axis=1) + 1, classes.ravel())


@pytest.mark.parametrize("first", [0, 1])
def test_class_numbers_take_the_names_they_count(tmp_path, save, first) -> None:
    classes = np.array([2, 0, 1, 2, 0, 1, 2, 0, 1]) + first
    save(tmp_path / "a.mat", {"XAll": IMAGE, "LAll": classes[:, None].astype(float)})
    data = read(tmp_path / "a.mat", label_names=["art", "sport", "war"])
    assert data.label_names == ("art", "sport", "war")
    np.testing.assert_array_equal(data.labels.argmax(axis=1), classes - first)
    with pytest.raises(LabelError, match="do not count the 2 label names"):
        read(tmp_path / "a.mat", label_names=["art", "sport"])


def test_labels_may_lie_the_other_way_round(tmp_path, save) -> None:
    save(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS.T})
    assert_holds(read(tmp_path / "a.mat"), IMAGE, TEXT, LABELS)


@pytest.mark.parametrize("turn", [False, True])
def test_sparse_matrices_stay_sparse(tmp_path, save, turn) -> None:
    tags = sp.random_array((9, 4), density=0.3, rng=RNG).toarray()
    variables = {
        "XAll": IMAGE.T if turn else IMAGE,
        "YAll": sp.csc_matrix(tags.T if turn else tags),
        "LAll": sp.csc_matrix(LABELS.T if turn else LABELS),
    }
    save(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert sp.issparse(data.views["text"])
    assert_holds(data, IMAGE, tags, LABELS)


def test_sparse_parts_are_joined(tmp_path, save) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    variables["T_tr"] = sp.csc_matrix(variables["T_tr"].astype(float))
    save(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert sp.issparse(data.views["text"])
    np.testing.assert_array_equal(data.views["text"].toarray(), TEXT)


def test_a_sparse_matrix_without_entries(tmp_path, save) -> None:
    variables = {"XAll": IMAGE, "YAll": sp.csc_matrix((9, 4)), "LAll": LABELS}
    save(tmp_path / "a.mat", variables)
    assert read(tmp_path / "a.mat").views["text"].nnz == 0


@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_in_a_struct_give_the_split(tmp_path, save, first) -> None:
    param = {
        "indexQuery": np.array([[0, 4]]) + first,
        "indexRetrieval": np.array([[8, 1, 2, 3, 5, 6, 7]]) + first,
        "indexTrain": np.array([[8, 1, 2]]) + first,
        "bits": 16.0,
        "method": "any",
    }
    save(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, "param": param})
    data = read(tmp_path / "a.mat")
    assert data.splits["test"].tolist() == [0, 4]
    assert data.splits["train"].tolist() == [8, 1, 2]
    assert data.splits["database"].tolist() == [3, 5, 6, 7]


def test_row_numbers_beside_the_matrices_give_the_split(tmp_path, save) -> None:
    rows = {"train_idx": np.arange(1, 7)[:, None], "idx_test": np.array([[7, 8, 9]])}
    save(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, **rows})
    data = read(tmp_path / "a.mat")
    assert data.splits["train"].tolist() == list(range(6))
    assert data.splits["test"].tolist() == [6, 7, 8]


@pytest.mark.parametrize(
    ("rows", "message"),
    [([[1, 2.5]], "'indexTest' must be whole, but some are not"), ([[5, 12]], "from 4 to 11")],
)
def test_row_numbers_that_cannot_be(tmp_path, save, rows, message) -> None:
    variables = {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, "indexTest": np.array(rows)}
    save(tmp_path / "a.mat", variables)
    with pytest.raises(InvalidInputError, match=message):
        read(tmp_path / "a.mat")


def three_parts(train_rows: list[int]) -> dict[str, Any]:
    variables = two_parts("I_db T_db L_db I_te T_te L_te")
    for letter, matrix in zip("ITL", (IMAGE, TEXT, LABELS), strict=True):
        variables[f"{letter}_tr"] = matrix[train_rows]
    return variables


def test_training_items_repeated_in_the_database_are_read_once(tmp_path, save) -> None:
    save(tmp_path / "a.mat", three_parts([4, 1, 3]))
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert data.splits["train"].tolist() == [4, 1, 3]
    assert data.splits["database"].tolist() == [0, 2, 5]
    assert data.splits["test"].tolist() == [6, 7, 8]


def test_a_training_part_apart_from_the_database_is_added(tmp_path, save) -> None:
    variables = three_parts([0, 1])
    variables["I_tr"] = variables["I_tr"] + 1
    save(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert len(data) == 11
    assert {part: len(rows) for part, rows in data.splits.items()} == {
        "train": 2,
        "database": 6,
        "test": 3,
    }


def test_sparse_training_items_are_found_in_the_database(tmp_path, save) -> None:
    variables = three_parts([5, 0])
    for name in ("T_tr", "T_db", "T_te"):
        variables[name] = sp.csc_matrix(variables[name].astype(float))
    save(tmp_path / "a.mat", variables)
    assert read(tmp_path / "a.mat").splits["train"].tolist() == [5, 0]


def test_a_training_part_half_in_the_database_is_an_error(tmp_path, save) -> None:
    save(tmp_path / "a.mat", three_parts([0, 7]))
    with pytest.raises(InvalidInputError, match="1 of the 2 training items are also in the"):
        read(tmp_path / "a.mat")


def test_parts_without_labels_are_read_without_labels(tmp_path, save) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    save(tmp_path / "a.mat", {k: v for k, v in variables.items() if k[0] != "L"})
    data = read(tmp_path / "a.mat")
    assert data.labels is None
    assert len(data.splits["train"]) == 6


def test_scalars_and_texts_of_the_workspace_are_ignored(tmp_path, save) -> None:
    stray = {"i": 3.0, "t": 7.0, "bits": np.array([[8.0, 16.0]]), "name": "wiki"}
    save(tmp_path / "a.mat", {**two_parts("I_tr T_tr L_tr I_te T_te L_te"), **stray})
    assert_holds(read(tmp_path / "a.mat"), IMAGE, TEXT, LABELS)


def test_variables_can_be_named(tmp_path, save) -> None:
    save(tmp_path / "a.mat", {"first": IMAGE, "second": TEXT, "third": LABELS})
    with pytest.raises(InvalidInputError, match="no variables of a known layout"):
        read(tmp_path / "a.mat")
    names = {"audio": "first", "text": "second", "labels": "third"}
    data = read(tmp_path / "a.mat", variables=names, label_names=["x", "y", "z"])
    assert list(data.views) == ["audio", "text"]
    assert data.label_names == ("x", "y", "z")


def test_variables_of_parts_can_be_named(tmp_path, save) -> None:
    save(tmp_path / "a.mat", two_parts("a b c d e f"))
    names = {
        "image": {"train": "a", "test": "d"},
        "text": {"train": "b", "test": "e"},
        "labels": {"train": "c", "test": "f"},
    }
    data = read(tmp_path / "a.mat", variables=names)
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert data.splits["test"].tolist() == [6, 7, 8]


def test_row_numbers_can_be_named(tmp_path, save) -> None:
    variables = {"X": IMAGE, "L": LABELS, "a": np.array([[1, 2]]), "b": np.array([[3, 4]])}
    save(tmp_path / "a.mat", variables)
    names = {"image": "X", "labels": "L", "train_idx": "a", "test_idx": "b"}
    assert read(tmp_path / "a.mat", variables=names).splits["test"].tolist() == [2, 3]


def test_the_variables_are_listed_where_the_layout_is_unknown(tmp_path, save) -> None:
    save(tmp_path / "a.mat", {"foo": IMAGE, "bar": sp.csc_matrix(LABELS), "note": "hi"})
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / "a.mat")
    message = str(caught.value)
    assert "foo 9 x 5 double" in message
    assert "bar 9 x 3 sparse" in message
    assert "note" in message
    assert "variables={'image': NAME" in message


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"LAll": LABELS[:5]}, {}, ViewError, "do not pair by item, whichever way: XAll 9 x 5"),
        ({"YAll": TEXT[:5]}, {}, ViewError, "do not pair by item"),
        ({"X_all": IMAGE}, {}, InvalidInputError, "both 'XAll' and 'X_all' could be the image"),
        ({"XTrain": IMAGE}, {}, InvalidInputError, "both whole matrices and parts"),
        ({}, {"variables": {"image": "I"}}, InvalidInputError, "variable 'I' is not there"),
        ({"n": "x"}, {"variables": {"image": "n"}}, InvalidInputError, "not a matrix of numbers"),
        ({}, {"variables": {"labels": "LAll"}}, InvalidInputError, "no view is named"),
        (
            {},
            {"variables": {"image": {"training": "XAll"}}},
            InvalidInputError,
            "parts are called train, database, test, all, got 'training'",
        ),
        (
            {},
            {"variables": {"image": "XAll", "text": {"train": "YAll"}}},
            InvalidInputError,
            "either whole matrices or parts",
        ),
        ({}, {"orientation": "down"}, InvalidInputError, "must be 'rows' or 'columns'"),
        ({}, {"orientation": "columns"}, ViewError, "do not pair by item"),
        ({"XAll": IMAGE * 1j}, {}, InvalidInputError, "'XAll' seems to be the image but is not"),
        ({"XAll": np.ones((9, 5, 2))}, {}, InvalidInputError, "'XAll' seems to be the image"),
        ({"XAll": np.full((9, 5), np.nan)}, {}, ViewError, "NaN"),
    ],
)
def test_what_cannot_be_understood_is_said(tmp_path, change, options, error, message) -> None:
    variables = {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, **change}
    scipy.io.savemat(tmp_path / "a.mat", variables)
    with pytest.raises(error, match=message):
        read(tmp_path / "a.mat", **options)


def test_a_part_that_lacks_a_variable_is_named(tmp_path, save) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    del variables["L_te"]
    save(tmp_path / "a.mat", variables)
    with pytest.raises(InvalidInputError, match="no labels for the part 'test'"):
        read(tmp_path / "a.mat")


def test_without_labels_y_could_be_text_or_labels(tmp_path, save) -> None:
    save(tmp_path / "a.mat", {"X": IMAGE, "Y": TEXT})
    with pytest.raises(InvalidInputError, match="'Y' could be text or labels"):
        read(tmp_path / "a.mat")


def test_square_matrices_need_an_orientation(tmp_path, save) -> None:
    square = np.arange(16.0).reshape(4, 4)
    labels = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1.0]])
    save(tmp_path / "a.mat", {"XAll": square, "YAll": square + 1, "LAll": labels})
    with pytest.raises(InvalidInputError, match="orientation='rows' or orientation='columns'"):
        read(tmp_path / "a.mat")
    rows = read(tmp_path / "a.mat", orientation="rows")
    np.testing.assert_array_equal(rows.views["image"], square)
    np.testing.assert_array_equal(rows.labels, labels)
    columns = read(tmp_path / "a.mat", orientation="columns")
    np.testing.assert_array_equal(columns.views["image"], square.T)
    np.testing.assert_array_equal(columns.labels, labels.T)


def test_a_square_part_is_decided_by_the_other_part(tmp_path, save) -> None:
    image, text = RNG.normal(size=(9, 3)), RNG.normal(size=(9, 3))
    parts = {}
    for part, rows in {"tr": slice(6), "te": slice(6, 9)}.items():
        parts |= {
            f"I_{part}": image[rows].T,
            f"T_{part}": text[rows].T,
            f"L_{part}": LABELS[rows].T,
        }
    save(tmp_path / "a.mat", parts)
    assert_holds(read(tmp_path / "a.mat"), image, text, LABELS)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_train=st.integers(2, 6),
    n_test=st.integers(2, 6),
    widths=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)),
    turn=st.booleans(),
    turn_labels=st.booleans(),
)
def test_a_layout_is_read_right_or_needs_an_orientation(
    tmp_path, n_train, n_test, widths, turn, turn_labels
) -> None:
    rng = np.random.default_rng(0)
    n = n_train + n_test
    image, text = rng.normal(size=(n, widths[0])), rng.normal(size=(n, widths[1]))
    labels = np.ones((n, widths[2]))
    variables = {}
    for part, rows in {"tr": slice(n_train), "te": slice(n_train, n)}.items():
        variables[f"I_{part}"] = image[rows].T if turn else image[rows]
        variables[f"T_{part}"] = text[rows].T if turn else text[rows]
        variables[f"L_{part}"] = labels[rows].T if turn_labels else labels[rows]
    scipy.io.savemat(tmp_path / "a.mat", variables)
    try:
        data = read(tmp_path / "a.mat")
    except InvalidInputError:
        data = read(tmp_path / "a.mat", orientation="columns" if turn else "rows")
    np.testing.assert_array_equal(data.views["image"], image)
    np.testing.assert_array_equal(data.views["text"], text)


def test_chunks_of_a_matlab_file_are_cut_from_the_whole(tmp_path, save) -> None:
    save(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS})
    chunks = list(read_chunks(tmp_path / "a.mat", chunk_size=4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 1]
    assert_holds(MultiViewData.concat(chunks), IMAGE, TEXT, LABELS)


def test_version_73_without_h5py_names_the_extra(tmp_path, save_new_mat, monkeypatch) -> None:
    save_new_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[mat\]"):
        read(tmp_path / "a.mat")
