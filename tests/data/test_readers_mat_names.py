"""Matlab files: names of variables, orientation, and ambiguous contents."""

import sys
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import MultiViewData, list_chunks, read, read_chunks
from acqh.errors import InvalidInputError, MissingExtraError, ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(9, 5))
TEXT = RNG.normal(size=(9, 4)).astype(np.float32)
LABELS = (RNG.random((9, 3)) < 0.5).astype(float)
CLASSES = np.array([1, 2, 3, 1, 2, 3, 1, 2, 3.0])


def assert_holds(data: MultiViewData, image, text, labels) -> None:
    np.testing.assert_array_equal(data.views["image"], image)
    result = data.views["text"]
    np.testing.assert_array_equal(result.toarray() if sp.issparse(result) else result, text)
    result = data.labels
    np.testing.assert_array_equal(result.toarray() if sp.issparse(result) else result, labels)


def two_parts(names: str, turn: bool = False, labels: np.ndarray = LABELS) -> dict[str, Any]:
    """Return six training and three test items under names such as "I_tr T_tr L_tr I_te ..."."""
    matrices = [m[rows] for rows in (slice(6), slice(6, 9)) for m in (IMAGE, TEXT, labels)]
    return dict(zip(names.split(), [m.T if turn else m for m in matrices], strict=True))


def test_variables_can_be_named(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", {"first": IMAGE, "second": TEXT, "third": LABELS})
    with pytest.raises(InvalidInputError, match="variables"):
        read(tmp_path / "a.mat")
    names = {"audio": "first", "text": "second"}
    data = read(tmp_path / "a.mat", views=names, labels="third", label_names=["x", "y", "z"])
    assert list(data.views) == ["audio", "text"]
    assert data.label_names == ("x", "y", "z")


def test_variables_of_parts_can_be_named(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", two_parts("a b c d e f"))
    names = {"image": {"train": "a", "test": "d"}, "text": {"train": "b", "test": "e"}}
    data = read(tmp_path / "a.mat", views=names, labels={"train": "c", "test": "f"})
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert data.splits["test"].tolist() == [6, 7, 8]


def test_row_numbers_can_be_named(tmp_path, save_mat) -> None:
    variables = {"X": IMAGE, "L": LABELS, "a": np.array([[1, 2]]), "b": np.array([[3, 4]])}
    save_mat(tmp_path / "a.mat", variables)
    names = {"views": {"image": "X"}, "labels": "L", "splits": {"train": "a", "test": "b"}}
    assert read(tmp_path / "a.mat", **names).splits["test"].tolist() == [2, 3]


def test_the_variables_are_listed_where_the_layout_is_unknown(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", {"foo": IMAGE, "bar": sp.csc_matrix(LABELS), "note": "hi"})
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / "a.mat")
    message = str(caught.value)
    assert "foo 9 x 5 double" in message
    assert "bar 9 x 3 sparse" in message
    assert "note" in message
    assert "views={'image': NAME" in message


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"LAll": LABELS[:5]}, {}, ViewError, "common number of items"),
        ({"YAll": TEXT[:5]}, {}, ViewError, "common number of items"),
        ({"X_all": IMAGE}, {}, InvalidInputError, "both 'XAll' and 'X_all' could be the image"),
        ({"XTrain": IMAGE}, {}, InvalidInputError, "both whole matrices and parts"),
        ({}, {"views": {"image": "I"}}, InvalidInputError, "variable 'I'"),
        ({"n": "x"}, {"views": {"image": "n"}}, InvalidInputError, "not a matrix of numbers"),
        ({}, {"labels": "LAll"}, InvalidInputError, "no view"),
        (
            {},
            {"views": {"image": {"training": "XAll"}}},
            InvalidInputError,
            "'training'",
        ),
        (
            {},
            {"views": {"image": "XAll", "text": {"train": "YAll"}}},
            InvalidInputError,
            "both whole matrices and parts",
        ),
        ({}, {"orientation": "down"}, InvalidInputError, "must be 'rows' or 'columns'"),
        ({}, {"orientation": "columns"}, ViewError, "common number of items"),
        ({"XAll": IMAGE * 1j}, {}, InvalidInputError, "'XAll' seems to be the image but is not"),
        ({"XAll": np.ones((9, 5, 2))}, {}, InvalidInputError, "'XAll' seems to be the image"),
        ({"XAll": np.full((9, 5), np.nan)}, {}, ViewError, "NaN"),
    ],
)
def test_ambiguous_files_are_rejected_with_the_reason(
    tmp_path, change, options, error, message
) -> None:
    variables = {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, **change}
    scipy.io.savemat(tmp_path / "a.mat", variables)
    with pytest.raises(error, match=message):
        read(tmp_path / "a.mat", **options)


def test_a_part_that_lacks_a_variable_is_named(tmp_path, save_mat) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    del variables["L_te"]
    save_mat(tmp_path / "a.mat", variables)
    with pytest.raises(InvalidInputError, match="'test'"):
        read(tmp_path / "a.mat")


def test_without_labels_y_could_be_text_or_labels(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", {"X": IMAGE, "Y": TEXT})
    with pytest.raises(InvalidInputError, match="'Y'"):
        read(tmp_path / "a.mat")


def test_square_matrices_need_an_orientation(tmp_path, save_mat) -> None:
    square = np.arange(16.0).reshape(4, 4)
    labels = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1.0]])
    save_mat(tmp_path / "a.mat", {"XAll": square, "YAll": square + 1, "LAll": labels})
    with pytest.raises(InvalidInputError, match="orientation='rows' or orientation='columns'"):
        read(tmp_path / "a.mat")
    rows = read(tmp_path / "a.mat", orientation="rows")
    np.testing.assert_array_equal(rows.views["image"], square)
    np.testing.assert_array_equal(rows.labels, labels)
    columns = read(tmp_path / "a.mat", orientation="columns")
    np.testing.assert_array_equal(columns.views["image"], square.T)
    np.testing.assert_array_equal(columns.labels, labels.T)


def test_a_square_part_is_decided_by_the_other_part(tmp_path, save_mat) -> None:
    image, text = RNG.normal(size=(9, 3)), RNG.normal(size=(9, 3))
    parts = {}
    for part, rows in {"tr": slice(6), "te": slice(6, 9)}.items():
        parts |= {
            f"I_{part}": image[rows].T,
            f"T_{part}": text[rows].T,
            f"L_{part}": LABELS[rows].T,
        }
    save_mat(tmp_path / "a.mat", parts)
    assert_holds(read(tmp_path / "a.mat"), image, text, LABELS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_chunks_of_a_matlab_file_are_cut_from_the_whole(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS})
    chunks = list(read_in_chunks(tmp_path / "a.mat", chunk_size=4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 1]
    assert_holds(MultiViewData.concat(chunks), IMAGE, TEXT, LABELS)


def test_version_73_without_h5py_names_the_extra(tmp_path, save_new_mat, monkeypatch) -> None:
    save_new_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[mat\]"):
        read(tmp_path / "a.mat")
