"""Parquet and Arrow tables: a column for each view, whole and in chunks."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import MultiViewData, list_chunks, read, read_chunks, read_records
from acqh.errors import (
    AcqhError,
    CorruptBundleError,
    DuplicateIdError,
    InvalidInputError,
    LabelError,
    MissingExtraError,
    ViewError,
)


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FLOATS = pa.list_(pa.float32())
IMAGE = np.arange(18, dtype=np.float32).reshape(6, 3)
TEXT = np.arange(12, dtype=np.int16).reshape(6, 2)
NAMES = [["cat"], ["dog", "cat"], [], ["eel"], ["dog"], ["cat"]]
MULTI_HOT = [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]

Save = Callable[[Path, Any], Path]


def save_parquet(path: Path, table: Any) -> Path:
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=4)
    return path.with_suffix(".parquet")


def save_arrow(path: Path, table: Any) -> Path:
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return path.with_suffix(".arrow")


@pytest.fixture(params=[save_parquet, save_arrow], ids=["parquet", "arrow"])
def save(request) -> Save:
    return request.param


def pairs(**columns: Any) -> Any:
    return pa.table(
        {
            "image": pa.FixedSizeListArray.from_arrays(IMAGE.ravel(), 3),
            "text": pa.array(list(TEXT), pa.list_(pa.int16())),
            "labels": pa.array(NAMES, pa.list_(pa.string())),
            **columns,
        }
    )


def test_lists_are_views_and_other_columns_items(tmp_path: Path, save: Save) -> None:
    table = pairs(
        id=pa.array(list("abcdef")),
        caption=pa.array(["one", None, "three", "four", "five", "six"]),
        width=pa.array(range(6), pa.int32()),
    )
    data = read(save(tmp_path / "pairs", table))
    assert list(data.views) == ["image", "text"]
    np.testing.assert_array_equal(data.views["image"], IMAGE)
    np.testing.assert_array_equal(data.views["text"], TEXT)
    assert data.views["text"].dtype == np.int16
    assert data.label_names == ("cat", "dog", "eel")
    np.testing.assert_array_equal(data.labels, MULTI_HOT)
    assert data.ids.tolist() == list("abcdef")
    assert data.items["caption"].tolist() == ["one", None, "three", "four", "five", "six"]
    assert data.items["width"].dtype == np.int32
    assert data.name == "pairs"


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (pa.array(["b", "a", None, "a", "b", "c"]), ("a", "b", "c"), [1, 0, None, 0, 1, 2]),
        (pa.array([10, 2, 2, None, 10, 2]), ("2", "10"), [1, 0, 0, None, 1, 0]),
        (pa.array([[10], [2], [], None, [10], [2]]), ("2", "10"), [1, 0, None, None, 1, 0]),
        (
            pa.array(["b", "a", "a", "a", "b", "c"]).dictionary_encode(),
            ("a", "b", "c"),
            [1, 0, 0, 0, 1, 2],
        ),
    ],
)
def test_labels_as_names_and_numbers(tmp_path, save, labels, names, expected) -> None:
    data = read(save(tmp_path / "pairs", pairs(labels=labels)))
    assert data.label_names == names
    for row, column in zip(data.labels, expected, strict=True):
        assert row.tolist() == [int(j == column) for j in range(len(names))]


def test_labels_as_rows_of_zero_and_one(tmp_path: Path, save: Save) -> None:
    rows = [*MULTI_HOT[:5], None]
    labels = pa.array(rows, pa.list_(pa.uint8(), 3))
    data = read(save(tmp_path / "pairs", pairs(labels=labels)), label_names=["x", "y", "z"])
    assert data.label_names == ("x", "y", "z")
    np.testing.assert_array_equal(data.labels, [*MULTI_HOT[:5], [0, 0, 0]])


def test_a_label_column_without_any_label_means_no_labels(tmp_path: Path, save: Save) -> None:
    labels = pa.array([None] * 6, pa.list_(pa.string()))
    assert read(save(tmp_path / "pairs", pairs(labels=labels))).labels is None


def test_a_null_means_that_the_view_is_absent(tmp_path: Path, save: Save) -> None:
    image = pa.array([None, [1, 2], None, [3, 4], [5, 6], None], FLOATS)
    wide = pa.array([[1], None, [2], [3], None, [4]], pa.list_(pa.float64(), 1))
    data = read(save(tmp_path / "pairs", pairs(image=image, wide=wide)))
    assert data.present["image"].tolist() == [False, True, False, True, True, False]
    np.testing.assert_array_equal(data.views["image"][3:], [[3, 4], [5, 6], [0, 0]])
    assert data.present["wide"].tolist() == [True, False, True, True, False, True]
    np.testing.assert_array_equal(data.views["wide"].ravel(), [1, 0, 2, 3, 0, 4])
    assert data.present["text"].all()


@pytest.mark.parametrize("chunk_size", [2, 4, 7, 12])
def test_a_folder_of_files_is_one_table(tmp_path: Path, chunk_size: int) -> None:
    folder = tmp_path / "pairs"
    (folder / "later").mkdir(parents=True)
    save_parquet(folder / "a", pairs())
    save_arrow(folder / "later" / "b", pairs(labels=pa.array([["yak"]] * 6)))
    (folder / "_metadata.parquet").write_bytes(b"not data")
    full = read(folder)
    assert len(full) == 12
    assert full.label_names == ("cat", "dog", "eel", "yak")
    np.testing.assert_array_equal(full.views["image"], np.vstack([IMAGE, IMAGE]))
    together = MultiViewData.concat(list(read_in_chunks(folder, chunk_size=chunk_size)))
    np.testing.assert_array_equal(together.views["image"], full.views["image"])
    np.testing.assert_array_equal(together.labels, full.labels)


def test_files_of_a_folder_must_have_the_same_columns(tmp_path: Path) -> None:
    save_parquet(tmp_path / "a", pairs())
    save_parquet(tmp_path / "b", pairs(extra=pa.array(range(6))))
    with pytest.raises(InvalidInputError, match="parquet"):
        read(tmp_path)


def test_label_names_can_be_set(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pairs())
    assert read(path, label_names=["eel", "dog", "cat"]).labels[0].tolist() == [0, 0, 1]
    with pytest.raises(LabelError, match="'eel' in row 3 is not among the label names"):
        read(path, label_names=["dog", "cat"])


def test_columns_can_be_named(tmp_path: Path, save: Save) -> None:
    table = pairs(key=pa.array(range(10, 16)), kind=pa.array(list("xyxyxy")))
    path = save(tmp_path / "pairs", table)
    data = read(path, views={"audio": "image"}, labels="kind", ids="key")
    assert list(data.views) == ["audio"]
    assert data.label_names == ("x", "y")
    assert data.ids.tolist() == list(range(10, 16))
    assert set(data.items) == {"text", "labels"}


def test_a_split_column_gives_the_official_split(tmp_path: Path, save: Save) -> None:
    parts = ["train", "test", None, "train", "database", "test"]
    data = read(save(tmp_path / "pairs", pairs(split=pa.array(parts))))
    assert {part: rows.tolist() for part, rows in data.splits.items()} == {
        "database": [4],
        "test": [1, 5],
        "train": [0, 3],
    }


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (
            {"image": pa.array([[1, 2], [1, 2], [1], None, [1, 2], [1, 2]], FLOATS)},
            {},
            ViewError,
            "column 'image' of .* has 1 numbers in row 2, but 2 elsewhere",
        ),
        (
            {"image": pa.array([[1, 2], None, [1, None], [1, 2], [1, 2], [1, 2]], FLOATS)},
            {},
            ViewError,
            "null among its numbers in row 2",
        ),
        (
            {"image": pa.array([None] * 6, FLOATS)},
            {},
            ViewError,
            "'image' of .* is empty in every row",
        ),
        (
            {"image": pa.array([[0], [1], [2], [np.nan], [4], [5]], FLOATS)},
            {},
            ViewError,
            "NaN or infinite",
        ),
        ({}, {"views": {"image": "picture"}}, InvalidInputError, "'picture'"),
        ({}, {"views": {"image": "labels"}}, ViewError, "list of numbers"),
        ({}, {"labels": "tags"}, InvalidInputError, "'tags'"),
        ({}, {"ids": "key"}, InvalidInputError, "'key'"),
        ({"labels": pa.array([0.5] * 6)}, {}, LabelError, "'labels' of .* is double; give labels"),
        (
            {"labels": pa.array([["a"], ["b", None], None, [], [], []])},
            {},
            LabelError,
            "null in the list of row 1",
        ),
        (
            {"labels": pa.array([[1, None]] * 6, pa.list_(pa.uint8(), 2))},
            {},
            LabelError,
            "null among its numbers in row 0",
        ),
        (
            {"labels": pa.array([[1, 2]] * 6, pa.list_(pa.uint8(), 2))},
            {},
            LabelError,
            "must be 0 or 1, got",
        ),
        (
            {"id": pa.array(["a", "b", None, "d", "e", "f"])},
            {},
            InvalidInputError,
            "'id' of .* is null in row 2",
        ),
        ({"id": pa.array([0.5] * 6)}, {}, InvalidInputError, "ids are whole numbers or strings"),
        ({"id": pa.array([1, 2, 3, 1, 4, 5])}, {}, DuplicateIdError, "id 1 occurs more than once"),
    ],
)
def test_ambiguous_files_are_rejected_with_the_reason(
    tmp_path, save, columns, options, error, message
) -> None:
    path = save(tmp_path / "pairs", pairs(**columns))
    with pytest.raises(error, match=message):
        read(path, **options)


def test_the_row_of_a_mistake_counts_through_all_chunks(tmp_path: Path, save: Save) -> None:
    image = pa.array([[1, 2], [1, 2], [1, 2], [1, 2], [1, 2, 3], [1, 2]], FLOATS)
    chunks = read_in_chunks(save(tmp_path / "pairs", pairs(image=image)), chunk_size=2)
    assert len(next(chunks)) == 2
    assert len(next(chunks)) == 2
    with pytest.raises(ViewError, match="row 4"):
        next(chunks)


def test_a_table_without_views_lists_its_columns(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pa.table({"text": pa.array(["a"])}))
    with pytest.raises(InvalidInputError, match="text 1 texts"):
        read(path)


def test_a_table_without_rows(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pairs().slice(0, 0).drop_columns(["text"]))
    with pytest.raises(ViewError, match="has no rows"):
        read(path)
    with pytest.raises(ViewError, match="has no rows"):
        list(read_in_chunks(path))


def test_duplicate_column_names_are_rejected(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([[1.0]]), pa.array([[2.0]])], names=["a", "a"])
    with pytest.raises(InvalidInputError, match="columns"):
        read(save_arrow(tmp_path / "pairs", table))


def test_a_folder_without_tables_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_hidden.parquet").touch()
    with pytest.raises(InvalidInputError, match="Parquet"):
        read(tmp_path)


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("hello")
    with pytest.raises(CorruptBundleError, match="Parquet"):
        read(tmp_path / "a.parquet")


def test_a_file_cut_off_anywhere(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pairs())
    content = path.read_bytes()
    for length in range(0, len(content) - 1, 41):
        path.write_bytes(content[:length])
        with pytest.raises(CorruptBundleError, match=path.name):
            read(path)


def test_an_arrow_file_that_contradicts_itself_is_named(tmp_path: Path) -> None:
    path = save_arrow(tmp_path / "pairs", pairs())
    content = bytearray(path.read_bytes())
    content[-10:-6] = np.int32(8).tobytes()  # the length of the footer
    path.write_bytes(content)
    with pytest.raises(CorruptBundleError, match=r"pairs\.arrow"):
        read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_offsets_that_point_outside_an_arrow_file_are_rejected(tmp_path: Path, data) -> None:
    path = save_arrow(tmp_path / "pairs", pairs())
    content = bytearray(path.read_bytes())
    offsets = np.array([0, 2, 4, 6, 8], dtype=np.int32).tobytes()
    at = content.index(offsets) + 4 * data.draw(st.integers(0, 4))
    value = data.draw(st.integers(-(2**31), 2**31 - 1))
    content[at : at + 4] = np.int32(value).tobytes()
    path.write_bytes(content)
    if value in (0, 2, 4, 6, 8):
        return
    with pytest.raises((CorruptBundleError, ViewError)):
        read(path)


def test_a_small_file_of_very_many_values_is_rejected(tmp_path: Path) -> None:
    values = pa.array(np.zeros(5_000_000, dtype=np.uint8))
    table = pa.table({"image": pa.FixedSizeListArray.from_arrays(values, 1000)})
    path = save_parquet(tmp_path / "pairs", table)
    with pytest.raises(InvalidInputError, match="1,000,000"):
        read(path, max_bytes=1_000_000)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch) -> None:
    path = save_parquet(tmp_path / "pairs", pairs())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[parquet\]"):
        read(path)


@pytest.mark.parametrize("labels", [[0, 1, 1, 0, 1, 1], [[0], [1], [0, 1], [], None, [1]]])
def test_class_numbers_may_count_the_label_names(tmp_path: Path, save: Save, labels) -> None:
    path = save(tmp_path / "pairs", pairs(labels=pa.array(labels)))
    data = read(path, label_names=["cat", "dog"])
    assert data.label_names == ("cat", "dog")
    sets = [names if isinstance(names, list) else [names] for names in labels]
    expected = [[int(number in (row or [])) for number in (0, 1)] for row in sets]
    np.testing.assert_array_equal(data.labels, expected)
    chunks = list(read_in_chunks(path, chunk_size=4, label_names=["cat", "dog"]))
    np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), expected)


@pytest.mark.parametrize("classes", [(0, 1), (0, 2), (3, 4)])
def test_class_numbers_without_names_become_names(
    tmp_path: Path, save: Save, classes: tuple[int, int]
) -> None:
    labels = [classes[row % 2] for row in range(6)]
    data = read(save(tmp_path / "pairs", pairs(labels=pa.array(labels))))
    assert data.label_names == tuple(map(str, classes))
    np.testing.assert_array_equal(data.labels, [[1, 0], [0, 1]] * 3)


def test_class_numbers_beyond_the_label_names_are_rejected(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pairs(labels=pa.array([0, 1, 2, 0, 1, 2])))
    with pytest.raises(LabelError, match="from 0 to 2"):
        read(path, label_names=["cat", "dog"])


def test_a_folder_of_files_in_capitals_is_one_table(tmp_path: Path) -> None:
    for name in ("A", "B"):
        save_parquet(tmp_path / name, pairs()).rename(tmp_path / f"{name}.PARQUET")
    assert len(read(tmp_path)) == 12


def test_a_column_name_that_is_no_unicode_is_a_damaged_file(tmp_path: Path, save: Save) -> None:
    path = save(tmp_path / "pairs", pairs())
    content = path.read_bytes()
    assert b"image" in content
    path.write_bytes(content.replace(b"image", b"imag\xff"))
    with pytest.raises(CorruptBundleError, match=path.name):
        read(path)
    with pytest.raises(CorruptBundleError, match=path.name):
        list(read_records(path))


def test_a_list_of_a_negative_size_is_a_damaged_file(tmp_path: Path) -> None:
    image = pa.array([[1] * 77], pa.list_(pa.float32(), 77))
    path = save_arrow(tmp_path / "a", pa.table({"image": image}))
    content = path.read_bytes()
    path.write_bytes(content.replace(np.int32(77).tobytes(), np.int32(-77).tobytes()))
    with pytest.raises(CorruptBundleError, match=r"a\.arrow"):
        read(path)


def test_no_changed_byte_of_a_parquet_footer_ends_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"image": [[1.0, 2.0]], "year": [2000]})
    pq.write_table(table, path, store_schema=False)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in range(footer, len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x20
        path.write_bytes(changed)
        with contextlib.suppress(AcqhError, OSError):
            read(path)
        with contextlib.suppress(AcqhError, OSError):
            list(read_records(path))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
def test_files_are_closed_once_they_are_read(tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(40.0)), 4)
    pq.write_table(pa.table({"image": vectors}), tmp_path / "a.parquet")
    read(tmp_path / "a.parquet")
    names = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert str(tmp_path / "a.parquet") not in names
