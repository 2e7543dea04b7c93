"""CSV files: numbers of views, with labels, ids and an item table."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import list_chunks, read, read_chunks, read_records
from acqh.errors import DuplicateIdError, InvalidInputError, LabelError, ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


ITEMS = """image,text,labels,x_0
images/a.jpg,"red dress, people",people|portrait,1
images/b.jpg,sky,sky | clouds,2
images/c.jpg,,,3
"""
VIEWS = """id,image_0,image_1,text_0,caption,labels
a,1,2.5,-1e3,one,cat
b,3,4,,two,dog|cat
c,5,6,7,three,
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_columns_are_paths_texts_and_labels(tmp_path: Path) -> None:
    data = read(write(tmp_path / "photos.csv", ITEMS))
    assert data.items["image"][0] == str(tmp_path / "images" / "a.jpg")
    assert data.items["text"].tolist() == ["red dress, people", "sky", ""]
    assert data.label_names == ("clouds", "people", "portrait", "sky")
    assert data.labels.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert data.ids.tolist() == [0, 1, 2]
    assert (
        repr(data) == "MultiViewData('photos': 3 items; x 1 float64; 4 labels; items image, text)"
    )


def test_a_view_and_a_text_may_share_a_name(tmp_path: Path) -> None:
    data = read(write(tmp_path / "a.csv", "image,image_0,Text,text_0\na.jpg,1,a dog,2\n"))
    assert list(data.views) == ["image", "text"]
    assert data.items["image"].tolist() == [str(tmp_path / "a.jpg")]
    assert data.items["text"].tolist() == ["a dog"]


def test_columns_can_be_named(tmp_path: Path) -> None:
    content = "kinds,key,note,x_0,y_0\nx;y,k1,n1,1,2\ny,k2,n2,3,4\n"
    data = read(
        write(tmp_path / "photos.csv", content),
        views={"image": "y"},
        labels="kinds",
        ids="key",
        label_separator=";",
        label_names=["y", "x"],
    )
    assert data.views["image"].tolist() == [[2], [4]]
    assert list(data.items) == ["x", "note"]
    assert data.ids.tolist() == ["k1", "k2"]
    assert data.label_names == ("y", "x")
    assert data.labels.tolist() == [[1, 1], [1, 0]]


def test_labels_are_optional(tmp_path: Path) -> None:
    for content in ("x_0\n1\n", "x_0,labels\n1,\n"):
        path = write(tmp_path / "a.csv", content)
        assert read(path).labels is None
        assert next(read_in_chunks(path)).labels is None


def test_tabs_bom_windows_lines_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("text\tlabels\tx_0\r\n\r\nä, b\tx\t1\r\n\r\n".encode("utf-8-sig"))
    data = read(path)
    assert data.items["text"].tolist() == ["ä, b"]
    assert data.label_names == ("x",)


def test_images_stay_plain_paths(tmp_path: Path) -> None:
    content = 'image,x_0\n/somewhere/else.jpg,1\n"",2\nnot there.jpg,3\n'
    expected = ["/somewhere/else.jpg", "", str(tmp_path / "not there.jpg")]
    assert read(write(tmp_path / "a.csv", content)).items["image"].tolist() == expected


def test_a_split_column_gives_the_official_split(tmp_path: Path) -> None:
    data = read(write(tmp_path / "a.csv", "x_0,split\n1,train\n2,test\n3,train\n"))
    assert data.splits["train"].tolist() == [0, 2]
    assert data.splits["test"].tolist() == [1]


def test_numbered_columns_are_views(tmp_path: Path) -> None:
    data = read(write(tmp_path / "a.csv", VIEWS))
    np.testing.assert_array_equal(data.views["image"], [[1, 2.5], [3, 4], [5, 6]])
    np.testing.assert_array_equal(data.views["text"], [[-1000], [0], [7]])
    assert data.present["text"].tolist() == [True, False, True]
    assert data.ids.tolist() == ["a", "b", "c"]
    assert data.items["caption"].tolist() == ["one", "two", "three"]
    assert data.label_names == ("cat", "dog")


def test_numbered_columns_may_be_in_any_order(tmp_path: Path) -> None:
    content = "image_10," + ",".join(f"image_{j}" for j in range(10)) + "\n"
    content += "10," + ",".join(map(str, range(10))) + "\n"
    np.testing.assert_array_equal(
        read(write(tmp_path / "a.csv", content)).views["image"][0], np.arange(11)
    )


def test_numbers_that_do_not_start_at_0_are_an_item_column(tmp_path: Path) -> None:
    data = read(write(tmp_path / "a.csv", "x_0,take_2\n1,yes\n"))
    assert data.items["take_2"].tolist() == ["yes"]


def test_a_large_file_is_joined_from_its_blocks(tmp_path: Path) -> None:
    n_rows = 20_000
    rows = "".join(f"{i},{i / 2},caption {i},{i % 3}\n" for i in range(n_rows))
    data = read(write(tmp_path / "a.csv", f"id,image_0,text,labels\n{rows}"))
    assert len(data) == n_rows
    np.testing.assert_array_equal(data.views["image"].ravel(), np.arange(n_rows) / 2)
    assert data.items["text"][-1] == f"caption {n_rows - 1}"
    assert data.labels[-1].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", InvalidInputError, r"a\.csv is empty; give a header"),
        ("\n\n", InvalidInputError, r"a\.csv is empty; give a header"),
        ("image,,text\nx,y,z\n", InvalidInputError, "line 1: column 2 has no name"),
        ("image,text,text\nx,y,z\n", InvalidInputError, "line 1: column 'text' is there twice"),
        ("text,labels\na,x\nb\n", InvalidInputError, "line 3: 1 fields, but the first line has 2"),
        ("text\na\nb,c\n", InvalidInputError, "line 3: 2 fields, but the first line has 1"),
        ('text\na\n"b\nc\n', InvalidInputError, "line 3: unexpected end of data"),
        ('text\n"a"b\n', InvalidInputError, "line 2: .*quote fields"),
        ("text\n" + "x" * 2**24 + "\n", InvalidInputError, "line 2: the line is longer than"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, content, error, message) -> None:
    path = write(tmp_path / "a.csv", content)
    for action in (read, read_records, list_chunks):
        with pytest.raises(error, match=message):
            list(action(path))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("text\na\n", InvalidInputError, "no numbers of views .* acqh.data.read_records"),
        ("image,x_0\n", InvalidInputError, "has a header but no rows"),
        ('x_0,t,id\n1,"two\nlines",k\n2,z,k\n', DuplicateIdError, "'k' is on the lines 2 and 4"),
        ("x_0,id\n1,\n", InvalidInputError, "line 2: the id is empty"),
        ("image_0,image_2\n1,2\n", InvalidInputError, "line 1: view 'image' has no column image_1"),
        ("image_0,image_00\n1,2\n", InvalidInputError, "line 1: two columns are number 0 of 'im"),
        ("x_0,x_1\n1,2\n1,\n", InvalidInputError, "line 3: x_1 must be a number, got 'nothing'"),
        ("x_0\n1\nabc\n", InvalidInputError, "line 3: x_0 must be a number, got 'abc'"),
        ("x_0\n1\nnan\n", InvalidInputError, "line 3: view 'x' has a NaN or infinite value"),
        ("x_0,text\n1,a\n,b\n", ViewError, "row 1 .* is in no view"),
    ],
)
def test_a_file_that_has_no_readable_views(tmp_path: Path, content, error, message) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(error, match=message):
        read(path)
    with pytest.raises(error, match=message):
        list(read_in_chunks(path))


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\nfine\nm\xfcde\n")
    with pytest.raises(InvalidInputError, match="line 3"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("option", ["labels", "ids"])
def test_a_missing_named_column_is_rejected(tmp_path: Path, option: str) -> None:
    path = write(tmp_path / "a.csv", ITEMS)
    message = f"'other', requested for {option}"
    with pytest.raises(InvalidInputError, match=message):
        read(path, **{option: "other"})


def test_ids_are_compared_through_the_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,x_0\na,1\nb,1\nc,1\na,1\n")
    with pytest.raises(DuplicateIdError, match="'a' is on the lines 2 and 5"):
        next(read_in_chunks(path, chunk_size=2))


def test_labels_outside_the_label_names_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ITEMS)
    with pytest.raises(LabelError, match="row 0"):
        read(path, label_names=["sky"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.sampled_from('text,labels\n\r"|ä_01'), max_size=60))
def test_any_text_is_a_table_or_one_of_our_errors(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8", newline="")
    try:
        assert len(read(path)) >= 1
    except ValueError:
        return


def test_a_tsv_file_in_capitals_is_cut_at_tabs(tmp_path) -> None:
    (tmp_path / "A.TSV").write_text("image_0\timage_1\tnote\n1\t2\ta, b\n")
    assert read(tmp_path / "A.TSV").items["note"].tolist() == ["a, b"]


def test_long_texts_are_read(tmp_path) -> None:
    text = "word " * 100_000
    (tmp_path / "a.csv").write_text(f'text,image_0\n"{text}",1\n')
    assert read(tmp_path / "a.csv").items["text"][0] == text
    assert next(read_records(tmp_path / "a.csv"))[1]["text"] == text
