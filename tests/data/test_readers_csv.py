"""CSV files: manifests of images and texts, and numbers of views."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import (
    MultiViewData,
    read,
    read_chunks,
    read_manifest,
    read_manifest_chunks,
    read_records,
)
from acqh.errors import DuplicateIdError, InvalidInputError, LabelError, ViewError

MANIFEST = """image,text,labels
images/a.jpg,"red dress, people",people|portrait
images/b.jpg,sky,sky | clouds
images/c.jpg,,
"""
VIEWS = """id,image_0,image_1,text_0,caption,labels
a,1,2.5,-1e3,one,cat
b,3,4,,two,dog|cat
c,5,6,7,three,
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_a_manifest_has_paths_texts_and_labels(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path / "photos.csv", MANIFEST))
    assert len(manifest) == 3
    assert manifest.items["image"][0] == str(tmp_path / "images" / "a.jpg")
    assert manifest.items["text"].tolist() == ["red dress, people", "sky", ""]
    assert manifest.label_names == ("clouds", "people", "portrait", "sky")
    assert manifest.labels.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert manifest.ids.tolist() == [0, 1, 2]
    assert repr(manifest) == "Manifest('photos': 3 items; 4 labels; items image, text)"


def test_the_photographs_manifest_is_read_without_opening_a_picture(data_dir: Path) -> None:
    path = data_dir.parent / "photos" / "manifest.csv"
    if not path.is_file():
        pytest.skip("the photographs are not here")
    manifest = read_manifest(path)
    assert len(manifest) == 4_000
    assert len(manifest.label_names) == 24
    assert Path(manifest.items["image"][0]).is_absolute()


def test_a_manifest_with_views_is_data(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path / "photos.csv", MANIFEST))
    data = manifest.with_views({"image": np.eye(3)})
    assert isinstance(data, MultiViewData)
    assert data.name == "photos"
    assert data.label_names == manifest.label_names
    assert data.items["text"].tolist() == manifest.items["text"].tolist()
    with pytest.raises(ViewError, match="view 'image' has 2 rows, but the manifest has 3 items"):
        manifest.with_views({"image": np.eye(2)})
    with pytest.raises(ViewError, match="has 2 rows"):
        manifest.with_views({"image": [[1.0], [2.0]]})


def test_columns_can_be_named(tmp_path: Path) -> None:
    content = "photo,tags,kinds,key,note\na.jpg,one two,x;y,k1,n1\nb.jpg,three,y,k2,n2\n"
    manifest = read_manifest(
        write(tmp_path / "photos.csv", content),
        image="photo",
        text="tags",
        labels="kinds",
        ids="key",
        label_separator=";",
        label_names=["y", "x"],
    )
    assert list(manifest.items) == ["image", "text", "note"]
    assert manifest.ids.tolist() == ["k1", "k2"]
    assert manifest.label_names == ("y", "x")
    assert manifest.labels.tolist() == [[1, 1], [1, 0]]


def test_a_manifest_need_not_have_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text\nhello\n")
    assert read_manifest(path).labels is None
    path = write(tmp_path / "b.csv", "text,labels\nhello,\n")
    assert read_manifest(path).labels is None
    assert next(read_manifest_chunks(path)).labels is None


def test_tabs_bom_windows_lines_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("text\tlabels\r\n\r\nä, b\tx\r\n\r\n".encode("utf-8-sig"))
    manifest = read_manifest(path)
    assert manifest.items["text"].tolist() == ["ä, b"]
    assert manifest.label_names == ("x",)


def test_pictures_stay_plain_paths(tmp_path: Path) -> None:
    content = 'image\n/somewhere/else.jpg\n""\nnot there.jpg\n'
    manifest = read_manifest(write(tmp_path / "a.csv", content))
    expected = ["/somewhere/else.jpg", "", str(tmp_path / "not there.jpg")]
    assert manifest.items["image"].tolist() == expected


def test_a_split_column_gives_the_official_split(tmp_path: Path) -> None:
    content = "text,split\na,train\nb,test\nc,train\n"
    manifest = read_manifest(write(tmp_path / "a.csv", content))
    data = manifest.with_views({"text": np.eye(3)})
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


def test_numbered_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    content = "image_10," + ",".join(f"image_{j}" for j in range(10)) + "\n"
    content += "10," + ",".join(map(str, range(10))) + "\n"
    np.testing.assert_array_equal(
        read(write(tmp_path / "a.csv", content)).views["image"][0], np.arange(11)
    )


def test_numbers_that_do_not_start_at_0_are_an_item_column(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path / "a.csv", "text,take_2\nhello,yes\n"))
    assert manifest.items["take_2"].tolist() == ["yes"]


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 50])
def test_chunks_put_together_are_the_whole(tmp_path: Path, chunk_size: int) -> None:
    path = write(tmp_path / "a.csv", VIEWS)
    whole = read(path)
    chunks = list(read_chunks(path, chunk_size=chunk_size))
    assert all(chunk.label_names == whole.label_names for chunk in chunks)
    together = MultiViewData.concat(chunks)
    for view in whole.views:
        np.testing.assert_array_equal(together.views[view], whole.views[view])
        np.testing.assert_array_equal(together.present[view], whole.present[view])
    np.testing.assert_array_equal(together.labels, whole.labels)
    np.testing.assert_array_equal(together.ids, whole.ids)
    assert together.items["caption"].tolist() == whole.items["caption"].tolist()


def test_manifests_can_be_read_in_chunks(tmp_path: Path) -> None:
    path = write(tmp_path / "photos.csv", MANIFEST)
    chunks = list(read_manifest_chunks(path, chunk_size=2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert chunks[1].ids.tolist() == [2]
    assert {chunk.label_names for chunk in chunks} == {read_manifest(path).label_names}


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
        ("image,text\n", InvalidInputError, "has a header but no rows"),
        ("image,,text\nx,y,z\n", InvalidInputError, "line 1: column 2 has no name"),
        ("image,text,text\nx,y,z\n", InvalidInputError, "line 1: column 'text' is there twice"),
        ("a,b\n1,2\n", InvalidInputError, "neither images nor texts nor views.* a, b; name"),
        ("text,labels\na,x\nb\n", InvalidInputError, "line 3: 1 fields, but the header has 2"),
        ("text\na\nb,c\n", InvalidInputError, "line 3: 2 fields, but the header has 1"),
        ('text\na\n"b\nc\n', InvalidInputError, "line 3: unexpected end of data"),
        ('text\n"a"b\n', InvalidInputError, "line 2: .*quote fields"),
        ('text,id\n"two\nlines",k\nz,k\n', DuplicateIdError, "'k' is on the lines 2 and 4"),
        ("text,id\na,\n", InvalidInputError, "line 2: the id is empty"),
        ("text\n" + "x" * 2**24 + "\n", InvalidInputError, "line 2: the line is longer than"),
    ],
)
def test_a_file_that_is_no_manifest(tmp_path: Path, content, error, message) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(error, match=message):
        read_manifest(path)
    with pytest.raises(error, match=message):
        list(read_manifest_chunks(path))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (MANIFEST, InvalidInputError, "no numbers of views .* acqh.data.read_manifest"),
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
        list(read_chunks(path))


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\nfine\nm\xfcde\n")
    with pytest.raises(InvalidInputError, match="line 3: not UTF-8 text"):
        read_manifest(tmp_path / "a.csv")


@pytest.mark.parametrize("option", ["image", "text", "labels", "ids"])
def test_a_named_column_that_is_not_there(tmp_path: Path, option: str) -> None:
    path = write(tmp_path / "a.csv", MANIFEST)
    with pytest.raises(
        InvalidInputError, match=r"no column 'other', named for .* image, text, lab"
    ):
        read_manifest(path, **{option: "other"})


def test_ids_are_compared_through_the_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,text\na,x\nb,x\nc,x\na,x\n")
    with pytest.raises(DuplicateIdError, match="'a' is on the lines 2 and 5"):
        read_manifest(path)


def test_labels_outside_the_names_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", MANIFEST)
    with pytest.raises(LabelError, match="in row 0 is not among the label names"):
        read_manifest(path, label_names=["sky"])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.sampled_from('text,labels\n\r"|ä_01'), max_size=60))
def test_any_text_is_a_manifest_or_one_of_our_errors(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8", newline="")
    try:
        manifest = read_manifest(path)
    except ValueError:
        return
    assert len(manifest) >= 1


def test_a_tsv_file_in_capitals_is_cut_at_tabs(tmp_path) -> None:
    (tmp_path / "A.TSV").write_text("image_0\timage_1\tnote\n1\t2\ta, b\n")
    assert read(tmp_path / "A.TSV").items["note"].tolist() == ["a, b"]


def test_long_texts_are_read(tmp_path) -> None:
    text = "word " * 100_000
    (tmp_path / "a.csv").write_text(f'text,image_0\n"{text}",1\n')
    assert read(tmp_path / "a.csv").items["text"][0] == text
    assert next(read_records(tmp_path / "a.csv"))[1]["text"] == text
