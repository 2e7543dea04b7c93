"""Tables as people write them, and hostile ones."""

import io
import json
import struct
import tarfile
import zlib

import numpy as np
import pytest
from PIL import Image

from acqh.collection import Collection, Item
from acqh.collection.build.sources import open_source
from acqh.errors import CollectionError, DuplicateIdError, ImageError, InvalidInputError

TEXTS = {"flower": "rose tulip petal", "vehicle": "car wheel engine"}
ROWS = [
    {"id": f"{label}{number}", "text": text, "labels": label, "year": number}
    for label, text in TEXTS.items()
    for number in range(4)
]


def write_csv(path, rows):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(columns)]
    lines += [",".join(str(row.get(name, "")) for name in columns) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_image(path, size=(20, 16)):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(path)
    return path


def bomb():
    """Return a PNG that claims to have 60,000 x 60,000 pixels."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_manifest_gives_the_same_items(tmp_path, ending):
    manifest = tmp_path / f"manifest.{ending}"
    if ending in ("csv", "tsv"):
        write_csv(manifest, ROWS)
        if ending == "tsv":
            manifest.write_text(manifest.read_text().replace(",", "\t"))
    elif ending == "jsonl":
        rows = [{**row, "labels": [row["labels"]]} for row in ROWS]
        manifest.write_text("\n".join(map(json.dumps, rows)))
    else:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(ROWS), manifest)
    with Collection.build(
        tmp_path, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert list(collection) == [row["id"] for row in ROWS]
        item = collection.item("vehicle2")
        assert (item.text, item.labels) == (TEXTS["vehicle"], ("vehicle",))
        assert str(item.fields["year"]) == "2"
        assert not item.has_thumbnail
        result = collection.search(text="tulip", where="year=2").hits
        assert [hit.id for hit in result] == ["flower2", "vehicle2"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"picture": "a.png", "labels": "x"}], "column image or text"),
        ([{"text": "", "labels": "x"}], "neither image nor text"),
        ([], "no items"),
    ],
)
def test_tables_without_usable_rows_are_rejected(tmp_path, rows, reason):
    manifest = write_csv(tmp_path / "m.csv", rows or [{"text": ""}])
    if not rows:
        manifest.write_text("text,labels\n")
    with pytest.raises(CollectionError, match=reason):
        Collection.build(manifest, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf")
    assert sorted(tmp_path.iterdir()) == [manifest]


def test_files_that_are_no_tables_are_rejected_by_name(tmp_path):
    for name, kind in (("none.csv", CollectionError), ("photo.png", InvalidInputError)):
        if name.endswith("png"):
            write_image(tmp_path / name)
        with pytest.raises(kind, match=name):
            Collection.build(tmp_path / name, tmp_path / "c.acqh")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CollectionError, match=r"manifest\.csv"):
        Collection.build(tmp_path / "empty", tmp_path / "c.acqh")


def test_long_fields_are_read_and_overlong_ones_skipped_with_their_line(tmp_path):
    rows = [*ROWS, {"text": "rose " * 40_000}, {"text": "x" * 1_000_001}]
    manifest = write_csv(tmp_path / "m.csv", rows)
    built = Collection.build(
        manifest, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    )
    with built:
        assert len(built) == len(ROWS) + 1
        ((where, why),) = built.skipped
        assert where.endswith("line 11")
        assert "1,000,001 characters" in why


def test_duplicate_ids_are_skipped_or_rejected(tmp_path):
    manifest = write_csv(tmp_path / "m.csv", [*ROWS, {**ROWS[0], "text": "another"}])
    with pytest.raises(DuplicateIdError, match="line 10"):
        Collection.build(
            manifest, tmp_path / "c.acqh", strict=True, image_encoder="hog", text_encoder="tfidf"
        )
    with Collection.build(
        manifest, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert collection.skipped == (("m.csv, line 10", "there is an item 'flower0' already"),)
        assert collection.item("flower0").text == TEXTS["flower"]
        again = [Item(text="rose", id="new"), Item(text="car", id="flower0")]
        assert collection.add(again).skipped[0][1] == "there is an item 'flower0' already"
        assert len(collection) == 9
        with pytest.raises(DuplicateIdError, match="nothing was added"):
            collection.add([Item(text="rose", id="newer"), *again], strict=True)
        assert "newer" not in collection
        assert collection.upsert(again).ids == ("new", "flower0")
        assert len(collection) == 9
        assert collection.item("flower0").text == "car"


def test_images_outside_the_folder_are_never_read(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    secret, linked = write_image(tmp_path / "secret.png"), folder / "link.png"
    linked.symlink_to(secret)
    write_image(folder / "fine.png")
    names = ["fine.png", "../secret.png", str(secret), "link.png", "x\0y.png", "../inside/fine.png"]
    manifest = folder / "m.jsonl"
    rows = [{"image": name, "text": "rose car", "labels": "flower"} for name in names]
    manifest.write_text("\n".join(json.dumps(row) for row in rows))
    with Collection.build(
        manifest, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert [collection.item(item_id).fields["image"] for item_id in collection] == [
            "fine.png",
            "../inside/fine.png",
        ]
        assert [where for where, _ in collection.skipped] == [
            f"m.jsonl, line {line}" for line in (2, 3, 4, 5)
        ]
        assert "outside" in collection.skipped[0][1]
    with Collection.build(
        manifest,
        tmp_path / "c.acqh",
        image_root=tmp_path,
        overwrite=True,
        image_encoder="hog",
        text_encoder="tfidf",
    ) as collection:
        # The absolute path lies in this folder, and the others are taken from it.
        assert [collection.item(item_id).fields["image"] for item_id in collection] == [str(secret)]


def test_unreadable_images_are_skipped_with_a_report_or_rejected(tmp_path):
    full = write_image(tmp_path / "whole.jpg", (64, 64)).read_bytes()
    bad = {
        "truncated": full[: len(full) // 2],
        "empty": b"",
        "bomb": bomb(),
        "text": b"GIF89a but not really",
        "missing": tmp_path / "missing.png",
        "number": 7,
    }
    good = [Item(full, "rose car", ["flower"], id=f"good{number}") for number in range(3)]
    items = [*good, *(Item(image, "rose", ["flower"], id=name) for name, image in bad.items())]
    with Collection.build(
        items, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert sorted(collection) == ["good0", "good1", "good2"]
        assert [where for where, _ in collection.skipped] == [f"item {name!r}" for name in bad]
        assert collection.info().n_skipped == len(bad)
        reasons = dict(collection.skipped)
        assert "60000 x 60000" in reasons["item 'bomb'"]
        report = collection.add(items[3:])
        assert report.ids == ()
        assert len(report.skipped) == len(bad)
        with pytest.raises(ImageError, match="truncated"):
            collection.add(items[3:], strict=True)
        with pytest.raises(ImageError):
            collection.search(image=bomb())
    with pytest.raises(ImageError, match="item 'truncated'"):
        Collection.build(
            items, tmp_path / "d.acqh", strict=True, image_encoder="hog", text_encoder="tfidf"
        )
    assert not (tmp_path / "d.acqh").exists()


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Item(text="rose", id=""), "id is empty"),
        (Item(text="rose", id="x" * 2000), "2,000 characters"),
        (Item(text="rose \ud800"), "Unicode"),
        (Item(text="rose", fields={"label": 1}), "name of a field"),
        (Item(text="rose", fields={"tags": [1]}), "holds a list"),
        (Item(text=7), "text is a int"),
        (Item(text="xyzzy"), "nothing that the model knows"),
        ("rose", "must be acqh.collection.Item"),
    ],
)
def test_items_that_cannot_be_stored_are_skipped_with_the_reason(collection, item, reason):
    report = collection.add([item])
    assert report.ids == ()
    assert reason in report.skipped[0][1]
    assert len(collection) == 60


def test_labels_in_one_string_are_rejected():
    with pytest.raises(CollectionError, match="several strings"):
        Item(text="rose", labels="flower")


def add_member(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def test_samples_of_a_tar_file_are_items(tmp_path):
    image = write_image(tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").unlink()
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for key in ("a", "b"):
            add_member(tar, f"{key}.png", image)
            add_member(tar, f"{key}.txt", b"a red car")
            add_member(tar, f"{key}.json", b'{"width": 20, "box": [1, 2]}')
            add_member(tar, f"{key}.cls", b"3")
    for source in (tmp_path / "0.tar", tmp_path):
        items = list(open_source(source).items)
        assert [(item.id, item.text, item.labels) for item in items] == [
            ("a", "a red car", ("3",)),
            ("b", "a red car", ("3",)),
        ]
        assert items[0].image == image
        assert items[0].fields == {"width": 20}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_an_image_folder_of_hugging_face_is_a_manifest(tmp_path, ending):
    (tmp_path / "train").mkdir()
    write_image(tmp_path / "train" / "a.png")
    metadata = tmp_path / f"metadata.{ending}"
    if ending == "csv":
        metadata.write_text("file_name,caption\ntrain/a.png,a dog\n")
    else:
        metadata.write_text('{"file_name": "train/a.png", "caption": "a dog"}\n')
    (item,) = open_source(tmp_path).items
    assert (str(item.image), item.text) == ("train/a.png", "a dog")


def test_images_in_a_folder_take_precedence_over_a_tar_file(tmp_path):
    write_image(tmp_path / "a.png")
    tarfile.open(tmp_path / "backup.tar", "w").close()
    assert [item.fields["file"] for item in open_source(tmp_path).items] == ["a.png"]


def test_metadata_that_name_no_files_are_no_manifest(tmp_path):
    write_image(tmp_path / "a.png")
    (tmp_path / "metadata.csv").write_text("camera,iso\nx,100\n")
    assert [item.fields["file"] for item in open_source(tmp_path).items] == ["a.png"]


def test_images_inside_a_table_are_items(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    image = write_image(tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").unlink()
    table = arrow.table({"image": [{"bytes": image, "path": None}], "caption": ["a dog"]})
    (tmp_path / "data").mkdir()
    parquet.write_table(table, tmp_path / "data" / "train-00000-of-00001.parquet")
    (item,) = open_source(tmp_path).items
    assert (item.image, item.text, item.fields) == (image, "a dog", {})
