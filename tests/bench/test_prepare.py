"""Converters on small originals in the publishers' layouts, and on hostile ones."""

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.io

import acqh
from acqh.bench import prepare_dataset
from acqh.bench.prepare import MIRFLICKR_LABELS, edge_histogram
from acqh.errors import (
    CorruptBundleError,
    DatasetNotFoundError,
    DatasetWarning,
    ImageError,
    InvalidInputError,
)


def load(name, folder, **options):
    return acqh.load_dataset(name, folder, verify=False, **options)


def jpeg(seed, size=(40, 30)):
    image_module = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    image_module.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def write_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


# --- Wiki and UCI: the same arrays as the reference files ------------------------------------


def write_wiki(folder, image, text, classes, n_train):
    parts = {"tr": slice(0, n_train), "te": slice(n_train, None)}
    matrices = {
        f"{letter}_{part}": rows[where].astype(np.float64)
        for part, where in parts.items()
        for letter, rows in (("I", image), ("T", text))
    }
    scipy.io.savemat(folder / "raw_features.mat", matrices)
    for part, name in (("tr", "trainset"), ("te", "testset")):
        lines = [f"text-{i}\timage\t{label + 1}\n" for i, label in enumerate(classes[parts[part]])]
        (folder / f"{name}_txt_img_cat.list").write_text("".join(lines))


def test_wiki_from_the_publishers_files_equals_the_reference(data_dir, tmp_path):
    wiki = acqh.load_dataset("wiki", data_dir)
    classes = wiki.labels.argmax(axis=1)
    write_wiki(tmp_path, wiki.views["image"], wiki.views["text"], classes, 2173)
    prepared = prepare_dataset("wiki", tmp_path, tmp_path / "out")
    assert (prepared.n_items, prepared.differences) == (2866, "")
    data = acqh.load_dataset("wiki", tmp_path / "out")
    for view in ("image", "text"):
        np.testing.assert_array_equal(data.views[view], wiki.views[view])
        assert data.views[view].dtype == wiki.views[view].dtype
    np.testing.assert_array_equal(data.labels, wiki.labels)
    np.testing.assert_array_equal(data.splits["test"], wiki.splits["test"])
    assert data.label_names == wiki.label_names


def small_wiki(n=24):
    rng = np.random.default_rng(0)
    return rng.random((n, 128)), rng.random((n, 10)), np.arange(n) % 10


def test_wiki_from_a_mat_file_of_the_field(tmp_path):
    image, text, classes = small_wiki()
    parts = {"tr": slice(0, 16), "te": slice(16, None)}
    variables = {}
    for part, where in parts.items():
        variables |= {f"I_{part}": image[where], f"T_{part}": text[where]}
        variables[f"L_{part}"] = (classes[where] + 1)[:, np.newaxis]
    scipy.io.savemat(tmp_path / "wikiData.mat", variables)
    prepared = prepare_dataset("wiki", tmp_path, tmp_path / "out")
    assert prepared.differences.startswith("24 items instead of 2,866")
    data = load("wiki", tmp_path / "out")
    np.testing.assert_array_equal(data.labels.argmax(axis=1), classes)
    np.testing.assert_array_equal(data.views["text"], text)


def test_a_file_of_ones_own_is_loaded_with_a_warning_that_says_how_it_differs(tmp_path):
    write_wiki(tmp_path, *small_wiki(), 16)
    prepare_dataset("wiki", tmp_path, tmp_path)
    with pytest.warns(DatasetWarning, match="24 items instead of 2,866"):
        assert len(acqh.load_dataset("wiki", tmp_path)) == 24


def test_uci_rows_are_those_of_the_reference_in_the_publishers_order(data_dir, tmp_path):
    uci = acqh.load_dataset("uci_mfeat", data_dir, include_pixels=True)
    order = np.argsort(uci.labels.argmax(axis=1), kind="stable")
    for name, view in (("fou", "image"), ("kar", "text"), ("pix", "pixels")):
        rows = uci.views[view][order].astype(np.float64)
        # The publisher's rows have other lengths; the reference has unit length.
        scale = 1 if view == "pixels" else 7
        np.savetxt(tmp_path / f"mfeat-{name}", rows * scale, fmt="%.9g")
    prepared = prepare_dataset("uci_mfeat", tmp_path, tmp_path / "out")
    assert "order" in prepared.differences
    data = load("uci_mfeat", tmp_path / "out", include_pixels=True)
    np.testing.assert_array_equal(data.labels, uci.labels[order])
    np.testing.assert_array_equal(data.views["pixels"], uci.views["pixels"][order])
    for view in ("image", "text"):
        np.testing.assert_allclose(data.views[view], uci.views[view][order], atol=3e-8)
    assert not data.splits


def test_uci_from_a_mat_file_of_the_field_equals_the_reference(data_dir, tmp_path):
    uci = acqh.load_dataset("uci_mfeat", data_dir, include_pixels=True)
    variables = {}
    for split, part in (("train", "tr"), ("test", "te")):
        rows = uci.splits[split]
        for view, letter in (("image", "I"), ("text", "T"), ("pixels", "P")):
            variables[f"{letter}_{part}"] = uci.views[view][rows].astype(np.float64)
        variables[f"L_{part}"] = uci.labels[rows].argmax(axis=1)[:, np.newaxis] + 1.0
    scipy.io.savemat(tmp_path / "uci_all.mat", variables)
    prepared = prepare_dataset("uci_mfeat", tmp_path, tmp_path / "out")
    assert (prepared.n_items, prepared.differences) == (2000, "")
    data = acqh.load_dataset("uci_mfeat", tmp_path / "out", include_pixels=True)
    for view, matrix in uci.views.items():
        np.testing.assert_array_equal(data.views[view], matrix)
        assert data.views[view].dtype == matrix.dtype
    np.testing.assert_array_equal(data.splits["train"], uci.splits["train"])


# --- MIRFlickr25K ----------------------------------------------------------------------------


def mirflickr_members(n=30):
    photographs, annotations = {}, {f"{label}.txt": "" for label in MIRFLICKR_LABELS}
    for number in range(1, n + 1):
        photographs[f"mirflickr/im{number}.jpg"] = jpeg(number)
        tags = ["sky"] if number <= 25 else ["rare"]
        photographs[f"mirflickr/meta/tags/tags{number}.txt"] = "\r\n".join([*tags, f"t{number}"])
        photographs[f"mirflickr/meta/tags_raw/tags{number}.txt"] = "Raw Tag"
        if number != 3:
            annotations["dog.txt"] += f"{number}\r\n"
        if number % 2:
            annotations["water.txt"] += f"{number}\r\n"
    annotations["dog_r1.txt"] = "1\r\n"
    annotations["water.txt"] = annotations["water.txt"].replace("3\r\n", "", 1)
    return photographs, annotations


def write_mirflickr(folder, photographs, annotations):
    write_zip(folder / "mirflickr25k.zip", photographs)
    write_zip(folder / "mirflickr25k_annotations_v080.zip", annotations)


def test_mirflickr_keeps_frequent_tags_and_photos_with_a_tag_and_a_label(tmp_path):
    write_mirflickr(tmp_path, *mirflickr_members())
    prepared = prepare_dataset("mirflickr25k", tmp_path, tmp_path / "out")
    assert prepared.n_items == 24  # 25 with the tag of 20 photographs, one of them without label
    data = load("mirflickr25k", tmp_path / "out")
    assert data.ids.tolist() == [1, 2, *range(4, 26)]
    assert data.label_names == MIRFLICKR_LABELS
    assert data.views["text"].shape == (24, 1)
    assert data.items["tags"][0] == "sky"
    assert data.labels[0].nonzero()[0].tolist() == [5, 23]
    np.testing.assert_array_equal(data.views["image"][1], edge_histogram(jpeg(2)))


def test_mirflickr_features_of_the_network_are_a_second_file(tmp_path):
    pytest.importorskip("onnxruntime")
    write_mirflickr(tmp_path, *mirflickr_members())
    prepare_dataset("mirflickr25k", tmp_path, tmp_path / "out")
    prepared = prepare_dataset("mirflickr25k", tmp_path, tmp_path / "out", features="network")
    assert prepared.path.name == "mirflickr25k_deep.npz"
    assert load("mirflickr25k", tmp_path / "out", features="deep").views["image"].shape[1] == 1280


def test_mirflickr_from_the_fields_matrices(tmp_path):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    tags, labels = rng.integers(0, 2, (12, 30)), rng.integers(0, 2, (12, 24))
    tags[:, 0] = labels[:, 0] = 1
    photographs = rng.integers(0, 256, (12, 3, 20, 16), dtype=np.uint8)
    with h5py.File(tmp_path / "mirflickr25k-iall.mat", "w") as file:
        file["IAll"] = photographs
    scipy.io.savemat(tmp_path / "mirflickr25k-yall.mat", {"YAll": tags.astype(float)})
    scipy.io.savemat(tmp_path / "mirflickr25k-lall.mat", {"LAll": labels.astype(float)})
    prepare_dataset("mirflickr25k", tmp_path, tmp_path / "out")
    data = load("mirflickr25k", tmp_path / "out")
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(data.views["text"].toarray(), tags)
    from PIL import Image

    first = Image.fromarray(photographs[0].transpose(2, 1, 0))
    np.testing.assert_array_equal(data.views["image"][0], edge_histogram(first))


def test_an_edge_histogram_counts_vertical_edges_where_they_are():
    from PIL import Image

    pixels = np.zeros((128, 128), dtype=np.uint8)
    pixels[:, 2:16:4] = pixels[:, 3:16:4] = 255  # an edge in each block of the left half column
    histogram = edge_histogram(Image.fromarray(pixels))
    assert histogram.shape == (150,)
    local = histogram[:80].reshape(4, 4, 5)
    assert local[:, 0, 0].tolist() == [0.5] * 4
    assert not local[:, 1:].any()
    assert histogram[80] == pytest.approx(0.125)  # of all blocks
    assert histogram[85] == pytest.approx(0.5)  # of the first column of sub-images


# --- NUS-WIDE --------------------------------------------------------------------------------


def nuswide_tables(n=60):
    rng = np.random.default_rng(0)
    labels = rng.random((n, 12)) < np.linspace(0.5, 0.02, 12)
    labels[:5] = False
    return labels, rng.random((n, 1000)) < 0.01, rng.integers(0, 9, (n, 500))


def write_nuswide(folder, labels, tags, words):
    members = {
        f"Groundtruth/AllLabels/Labels_c{i:02}.txt": "".join(f"{int(v)}\n" for v in column)
        for i, column in enumerate(labels.T)
    }
    members["Groundtruth/TrainTestLabels/Labels_c00_Train.txt"] = "1\n"
    write_zip(folder / "Groundtruth.zip", members)
    lines = "\n".join("\t".join(map(str, row.astype(int))) for row in tags)
    write_zip(folder / "NUS_WID_Tags.zip", {"NUS_WID_Tags/AllTags1k.txt": lines + "\n"})
    (folder / "BoW_int.dat").write_text("\n".join(" ".join(map(str, row)) for row in words))


def test_nuswide_keeps_the_ten_largest_concepts_and_their_photographs(tmp_path):
    labels, tags, words = nuswide_tables()
    write_nuswide(tmp_path, labels, tags, words)
    prepare_dataset("nuswide10", tmp_path, tmp_path / "out")
    data = load("nuswide10", tmp_path / "out")
    largest = np.argsort(-labels.sum(axis=0), kind="stable")[:10]
    in_largest = labels[:, largest].any(axis=1)
    assert data.label_names == tuple(f"c{i:02}" for i in largest)
    assert data.ids.tolist() == np.flatnonzero(in_largest).tolist()
    np.testing.assert_array_equal(data.labels, labels[in_largest][:, largest])
    np.testing.assert_array_equal(data.views["text"].toarray(), tags[in_largest])
    np.testing.assert_array_equal(data.views["image"], words[in_largest])


def test_nuswide_tables_of_different_lengths_are_rejected(tmp_path):
    labels, tags, words = nuswide_tables()
    write_nuswide(tmp_path, labels, tags[:-1], words)
    with pytest.raises(CorruptBundleError, match="AllTags1k"):
        prepare_dataset("nuswide10", tmp_path, tmp_path / "out")


def test_nuswide_from_the_fields_matrices(tmp_path):
    labels, tags, words = nuswide_tables()
    for letter, matrix in (("x", words), ("y", tags), ("l", labels[:, :10])):
        name = f"nus-wide-tc10-{letter}all"
        scipy.io.savemat(tmp_path / f"{name}.mat", {f"{letter.upper()}All": matrix.astype(float)})
    prepare_dataset("nuswide10", tmp_path, tmp_path / "out")
    np.testing.assert_array_equal(load("nuswide10", tmp_path / "out").views["image"], words)


# --- COCO ------------------------------------------------------------------------------------


def coco_captions(n=3, n_captions=5):
    images = [{"id": 100 - i, "file_name": f"{100 - i:012}.jpg"} for i in range(n)]
    annotations = [
        {"id": 10 * i + place, "image_id": 100 - i, "caption": f"photo {100 - i},\n take {place}"}
        for place in range(n_captions)
        for i in range(n)
    ]
    return {"images": images, "annotations": annotations}


def test_coco_photos_are_encoded_with_five_captions_each(tmp_path):
    pytest.importorskip("onnxruntime")
    captions = json.dumps(coco_captions())
    write_zip(
        tmp_path / "annotations_trainval2017.zip", {"annotations/captions_val2017.json": captions}
    )
    write_zip(tmp_path / "val2017.zip", {f"val2017/{i:012}.jpg": jpeg(i) for i in (98, 99, 100)})
    prepared = prepare_dataset("coco-val2017", tmp_path, tmp_path / "out")
    assert prepared.differences == "3 items instead of 5,000"
    data = load("coco-val2017", tmp_path / "out")
    assert data.ids.tolist() == [98, 99, 100]
    assert data.views["image"].shape == (3, 2280)
    assert data.items["caption_1"][2] == "photo 100, take 0"
    assert data.items["caption_5"][0] == "photo 98, take 4"


@pytest.mark.parametrize("content", ["[", "[]", '{"images": 3}', json.dumps(coco_captions(2, 4))])
def test_captions_of_another_form_are_rejected(content, tmp_path):
    (tmp_path / "captions_val2017.json").write_text(content)
    with pytest.raises(CorruptBundleError, match="captions"):
        prepare_dataset("coco-val2017", tmp_path, tmp_path / "out")


# --- hostile and incomplete originals --------------------------------------------------------


def test_missing_originals_are_named_with_their_pages(tmp_path):
    for name in ("wiki", "uci_mfeat", "mirflickr25k", "nuswide10", "coco-val2017"):
        with pytest.raises(DatasetNotFoundError, match=r"https?://"):
            prepare_dataset(name, tmp_path, tmp_path)
    assert not list(tmp_path.iterdir())


def test_paths_that_leave_the_archive_write_nothing(tmp_path):
    photographs, annotations = mirflickr_members()
    photographs["../../evil.txt"] = "evil"
    photographs["/tmp/evil.txt"] = "evil"
    source = tmp_path / "a" / "b"
    source.mkdir(parents=True)
    write_mirflickr(source, photographs, annotations)
    prepare_dataset("mirflickr25k", source, tmp_path / "out")
    files = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["mirflickr25k.npz", "mirflickr25k.zip", "mirflickr25k_annotations_v080.zip"]


def test_a_member_that_unpacks_to_too_much_is_rejected_before_it_is_read(tmp_path):
    photographs, annotations = mirflickr_members()
    photographs["mirflickr/meta/tags/tags1.txt"] = b"a" * (65 << 20)
    write_mirflickr(tmp_path, photographs, annotations)
    with pytest.raises(InvalidInputError, match="more than"):
        prepare_dataset("mirflickr25k", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_photograph_is_named_and_leaves_the_old_file(tmp_path):
    photographs, annotations = mirflickr_members()
    photographs["mirflickr/im2.jpg"] = b"not a photograph"
    write_mirflickr(tmp_path, photographs, annotations)
    (tmp_path / "mirflickr25k.npz").write_bytes(b"old")
    with pytest.raises(ImageError, match=r"im2\.jpg"):
        prepare_dataset("mirflickr25k", tmp_path, tmp_path)
    assert (tmp_path / "mirflickr25k.npz").read_bytes() == b"old"


def test_an_archive_that_is_none_is_an_error(tmp_path):
    (tmp_path / "mirflickr25k.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CorruptBundleError, match=r"mirflickr25k\.zip"):
        prepare_dataset("mirflickr25k", tmp_path, tmp_path)


def test_damage_inside_an_archive_is_an_error(tmp_path):
    write_nuswide(tmp_path, *nuswide_tables())
    content = bytearray((tmp_path / "NUS_WID_Tags.zip").read_bytes())
    content[200:260] = bytes(60)
    (tmp_path / "NUS_WID_Tags.zip").write_bytes(bytes(content))
    with pytest.raises(CorruptBundleError, match="AllTags1k"):
        prepare_dataset("nuswide10", tmp_path, tmp_path)


@pytest.mark.parametrize("line", ["a\tb\t11", "a\tb\t0", "a\tb", "a\tb\t-1", "a\tb\t²"])
def test_a_list_with_another_class_is_rejected_with_its_line(line, tmp_path):
    write_wiki(tmp_path, *small_wiki(), 16)
    path = tmp_path / "testset_txt_img_cat.list"
    path.write_text(path.read_text() + line + "\n", encoding="utf-8")
    with pytest.raises(CorruptBundleError, match="line 9"):
        prepare_dataset("wiki", tmp_path, tmp_path / "out")


def test_lists_of_another_release_are_rejected(tmp_path):
    write_wiki(tmp_path, *small_wiki(), 16)
    path = tmp_path / "testset_txt_img_cat.list"
    path.write_text(path.read_text() + "a\tb\t1\n")
    with pytest.raises(CorruptBundleError, match="9 lines"):
        prepare_dataset("wiki", tmp_path, tmp_path / "out")


def test_text_in_a_table_of_numbers_is_rejected_with_its_file(tmp_path):
    for name, width in (("fou", 76), ("kar", 64), ("pix", 240)):
        np.savetxt(tmp_path / f"mfeat-{name}", np.ones((10, width)))
    (tmp_path / "mfeat-kar").write_text("__import__('os')\n")
    with pytest.raises(CorruptBundleError, match="mfeat-kar"):
        prepare_dataset("uci_mfeat", tmp_path, tmp_path / "out")


def test_unknown_names_and_features_are_rejected(tmp_path):
    with pytest.raises(InvalidInputError, match="wiki"):
        prepare_dataset("emoji", tmp_path, tmp_path)
    with pytest.raises(InvalidInputError, match="network"):
        prepare_dataset("wiki", tmp_path, tmp_path, features="network")
    with pytest.raises(InvalidInputError, match="folder"):
        prepare_dataset("wiki", tmp_path / "nowhere", tmp_path)
