"""Ambiguous files are rejected, or read as intended."""

import numpy as np
import pytest

from acqh.data import MultiViewData, read
from acqh.errors import InvalidInputError


@pytest.mark.parametrize("name", ["L", "y", "Classes", "target"])
def test_an_array_that_may_be_the_labels_is_no_view(tmp_path, name):
    path = tmp_path / "x.npz"
    np.savez(path, image=np.eye(3), **{name: np.eye(3, 2)})
    with pytest.raises(InvalidInputError, match=f"'{name}'; rename it"):
        read(path)
    assert read(path, labels=name, views={"image": "image"}).label_names == ("0", "1")
    assert list(read(path, views={"image": "image"}).views) == ["image"]


def test_labels_with_commas_are_rejected_without_a_separator(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('x_0,labels\n1,"sea, sky"\n2,sea\n')
    with pytest.raises(InvalidInputError, match=r"^x\.csv, line 2: .* label_separator=','"):
        read(path)
    assert read(path, label_separator=",").label_names == ("sea", "sky")
    assert read(path, label_separator="|").label_names == ("sea", "sea, sky")


def test_semicolons_and_capital_headings_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("ID;Image;Text;Labels;x_0\np1;a.jpg;a, b;sea|sky;1\n")
    result = read(path)
    assert result.ids.tolist() == ["p1"]
    assert result.items["text"].tolist() == ["a, b"]
    assert result.items["image"][0].endswith("a.jpg")
    assert result.label_names == ("sea", "sky")


def test_the_columns_of_a_table_of_labels_keep_their_names():
    pandas = pytest.importorskip("pandas")
    labels = pandas.DataFrame({"sea": [1, 0], "sky": [1, 1]})
    assert MultiViewData({"image": np.eye(2)}, labels).label_names == ("sea", "sky")
