"""Matlab files of both formats and of the usual layouts."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import MultiViewData, read
from acqh.errors import InvalidInputError, LabelError

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
def test_two_parts_become_one_with_the_official_split(tmp_path, save_mat, names, turn) -> None:
    save_mat(tmp_path / "a.mat", two_parts(names, turn))
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
def test_whole_matrices_have_no_split(tmp_path, save_mat, names, turn) -> None:
    matrices = [m.T if turn else m for m in (IMAGE, TEXT, LABELS)]
    save_mat(tmp_path / "a.mat", dict(zip(names.split(), matrices, strict=True)))
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert not data.splits


@pytest.mark.parametrize("shape", [(9, 1), (1, 9)])
@pytest.mark.parametrize("turn", [False, True])
def test_class_numbers_become_label_columns(tmp_path, save_mat, shape, turn) -> None:
    variables = {
        "XAll": IMAGE.T if turn else IMAGE,
        "YAll": TEXT.T if turn else TEXT,
        "LAll": CLASSES.reshape(shape),
    }
    save_mat(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, np.eye(3)[CLASSES.astype(int) - 1])
    assert data.label_names == ("1", "2", "3")


def test_class_numbers_of_both_parts_share_their_columns(tmp_path, save_mat) -> None:
    classes = np.array([1, 1, 2, 2, 3, 3, 2, 3, 4.0])[:, None]
    save_mat(tmp_path / "a.mat", two_parts("I_tr T_tr L_tr I_te T_te L_te", labels=classes))
    data = read(tmp_path / "a.mat")
    assert data.label_names == ("1", "2", "3", "4")
    np.testing.assert_array_equal(data.labels.argmax(axis=1) + 1, classes.ravel())


@pytest.mark.parametrize("first", [0, 1])
def test_class_numbers_take_the_names_they_count(tmp_path, save_mat, first) -> None:
    classes = np.array([2, 0, 1, 2, 0, 1, 2, 0, 1]) + first
    save_mat(tmp_path / "a.mat", {"XAll": IMAGE, "LAll": classes[:, None].astype(float)})
    data = read(tmp_path / "a.mat", label_names=["art", "sport", "war"])
    assert data.label_names == ("art", "sport", "war")
    np.testing.assert_array_equal(data.labels.argmax(axis=1), classes - first)
    with pytest.raises(LabelError, match="2 label names"):
        read(tmp_path / "a.mat", label_names=["art", "sport"])


def test_labels_may_lie_the_other_way_round(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS.T})
    assert_holds(read(tmp_path / "a.mat"), IMAGE, TEXT, LABELS)


@pytest.mark.parametrize("turn", [False, True])
def test_sparse_matrices_stay_sparse(tmp_path, save_mat, turn) -> None:
    tags = sp.random_array((9, 4), density=0.3, rng=RNG).toarray()
    variables = {
        "XAll": IMAGE.T if turn else IMAGE,
        "YAll": sp.csc_matrix(tags.T if turn else tags),
        "LAll": sp.csc_matrix(LABELS.T if turn else LABELS),
    }
    save_mat(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert sp.issparse(data.views["text"])
    assert_holds(data, IMAGE, tags, LABELS)


def test_sparse_parts_are_joined(tmp_path, save_mat) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    variables["T_tr"] = sp.csc_matrix(variables["T_tr"].astype(float))
    save_mat(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert sp.issparse(data.views["text"])
    np.testing.assert_array_equal(data.views["text"].toarray(), TEXT)


def test_a_sparse_matrix_without_entries(tmp_path, save_mat) -> None:
    variables = {"XAll": IMAGE, "YAll": sp.csc_matrix((9, 4)), "LAll": LABELS}
    save_mat(tmp_path / "a.mat", variables)
    assert read(tmp_path / "a.mat").views["text"].nnz == 0


@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_in_a_struct_give_the_split(tmp_path, save_mat, first) -> None:
    param = {
        "indexQuery": np.array([[0, 4]]) + first,
        "indexRetrieval": np.array([[8, 1, 2, 3, 5, 6, 7]]) + first,
        "indexTrain": np.array([[8, 1, 2]]) + first,
        "bits": 16.0,
        "method": "any",
    }
    save_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, "param": param})
    data = read(tmp_path / "a.mat")
    assert data.splits["test"].tolist() == [0, 4]
    assert data.splits["train"].tolist() == [8, 1, 2]
    assert data.splits["database"].tolist() == [3, 5, 6, 7]


def test_row_numbers_next_to_the_matrices_define_the_split(tmp_path, save_mat) -> None:
    rows = {"train_idx": np.arange(1, 7)[:, None], "idx_test": np.array([[7, 8, 9]])}
    save_mat(tmp_path / "a.mat", {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, **rows})
    data = read(tmp_path / "a.mat")
    assert data.splits["train"].tolist() == list(range(6))
    assert data.splits["test"].tolist() == [6, 7, 8]


@pytest.mark.parametrize(
    ("rows", "message"),
    [([[1, 2.5]], "'indexTest'"), ([[5, 12]], "from 4 to 11")],
)
def test_row_numbers_that_cannot_be(tmp_path, save_mat, rows, message) -> None:
    variables = {"XAll": IMAGE, "YAll": TEXT, "LAll": LABELS, "indexTest": np.array(rows)}
    save_mat(tmp_path / "a.mat", variables)
    with pytest.raises(InvalidInputError, match=message):
        read(tmp_path / "a.mat")


def three_parts(train_rows: list[int]) -> dict[str, Any]:
    variables = two_parts("I_db T_db L_db I_te T_te L_te")
    for letter, matrix in zip("ITL", (IMAGE, TEXT, LABELS), strict=True):
        variables[f"{letter}_tr"] = matrix[train_rows]
    return variables


def test_training_items_repeated_in_the_database_are_read_once(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", three_parts([4, 1, 3]))
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE, TEXT, LABELS)
    assert data.splits["train"].tolist() == [4, 1, 3]
    assert data.splits["database"].tolist() == [0, 2, 5]
    assert data.splits["test"].tolist() == [6, 7, 8]


def test_a_database_of_training_items_alone_is_the_training_part(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", three_parts([0, 1, 2, 3, 4, 5]))
    data = read(tmp_path / "a.mat")
    assert len(data) == 9
    assert sorted(data.splits) == ["test", "train"]


def test_one_part_alone_has_no_split(tmp_path, save_mat) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    save_mat(tmp_path / "a.mat", {name: variables[name] for name in ("I_tr", "T_tr", "L_tr")})
    data = read(tmp_path / "a.mat")
    assert_holds(data, IMAGE[:6], TEXT[:6], LABELS[:6])
    assert not data.splits


def test_a_training_part_apart_from_the_database_is_added(tmp_path, save_mat) -> None:
    variables = three_parts([0, 1])
    variables["I_tr"] = variables["I_tr"] + 1
    save_mat(tmp_path / "a.mat", variables)
    data = read(tmp_path / "a.mat")
    assert len(data) == 11
    assert {part: len(rows) for part, rows in data.splits.items()} == {
        "train": 2,
        "database": 6,
        "test": 3,
    }


def test_sparse_training_items_are_found_in_the_database(tmp_path, save_mat) -> None:
    variables = three_parts([5, 0])
    for name in ("T_tr", "T_db", "T_te"):
        variables[name] = sp.csc_matrix(variables[name].astype(float))
    save_mat(tmp_path / "a.mat", variables)
    assert read(tmp_path / "a.mat").splits["train"].tolist() == [5, 0]


def test_a_training_part_half_in_the_database_is_an_error(tmp_path, save_mat) -> None:
    save_mat(tmp_path / "a.mat", three_parts([0, 7]))
    with pytest.raises(InvalidInputError, match="1 of the 2"):
        read(tmp_path / "a.mat")


def test_parts_without_labels_are_read_without_labels(tmp_path, save_mat) -> None:
    variables = two_parts("I_tr T_tr L_tr I_te T_te L_te")
    save_mat(tmp_path / "a.mat", {k: v for k, v in variables.items() if k[0] != "L"})
    data = read(tmp_path / "a.mat")
    assert data.labels is None
    assert len(data.splits["train"]) == 6


def test_scalars_and_texts_of_the_workspace_are_ignored(tmp_path, save_mat) -> None:
    stray = {"i": 3.0, "t": 7.0, "bits": np.array([[8.0, 16.0]]), "name": "wiki"}
    save_mat(tmp_path / "a.mat", {**two_parts("I_tr T_tr L_tr I_te T_te L_te"), **stray})
    assert_holds(read(tmp_path / "a.mat"), IMAGE, TEXT, LABELS)
