import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import acqh
from acqh.bench import make_split
from acqh.errors import DatasetNotFoundError, DatasetWarning, InvalidInputError

NAMES = ["coco-val2017", "mirflickr25k", "nuswide10", "uci_mfeat", "wiki"]


def write(folder, name, **arrays):
    """Write an .npz; sparse matrices as their CSR arrays."""
    stored = {}
    for key, value in arrays.items():
        if sp.issparse(value):
            members = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
            members["shape"] = np.array(value.shape)
            stored.update({f"{key}_{member}": array for member, array in members.items()})
        else:
            stored[key] = value
    np.savez(folder / name, **stored)


def random_words(n, width, seed=0):
    rng = np.random.default_rng(seed)
    return sp.random_array((n, width), density=0.01, format="csr", dtype=np.uint8, rng=rng)


# --- the real files -------------------------------------------------------------------------


def test_wiki_has_its_shape_classes_and_official_split(data_dir):
    data = acqh.load_dataset("wiki", data_dir)
    assert data.name == "wiki"
    assert data.views["image"].shape == (2866, 128)
    assert data.views["image"].dtype == np.float32
    assert data.views["text"].shape == (2866, 10)
    assert data.labels.sum(axis=0).tolist() == [172, 360, 340, 333, 267, 236, 237, 185, 285, 451]
    assert data.label_names[:2] == ("art", "biology")
    train, test = data.official_split()
    assert (len(train), len(test)) == (2173, 693)
    np.testing.assert_allclose(data.views["text"].sum(axis=1), 1.0, atol=1e-9)


def test_mirflickr25k_has_its_shape_ids_and_tags(data_dir):
    data = acqh.load_dataset("mirflickr25k", data_dir)
    assert data.n_items == 15_677
    assert data.views["image"].shape[1] == 150
    text = data.views["text"]
    assert text.shape[1] == 1_386
    assert sp.issparse(text)
    assert text.nnz / len(data) == pytest.approx(4.46, abs=0.01)
    assert data.labels.shape[1] == 24
    assert data.labels.sum(axis=1).mean() == pytest.approx(3.78, abs=0.01)
    assert data.label_names[:3] == ("animals", "baby", "bird")
    assert data.ids[:3].tolist() == [1, 2, 3]
    assert all(mask.all() for mask in data.present.values())
    assert len(data.items["tags"][0].split()) == text[[0]].nnz


def test_mirflickr25k_with_text_only_items_is_all_20015(data_dir):
    data = acqh.load_dataset("mirflickr25k", data_dir, include_text_only=True)
    assert data.n_items == 20_015
    assert np.count_nonzero(~data.present["image"]) == 4_338
    assert data.present["text"].all()
    assert not data.views["image"][15_677:].any()
    assert data.ids[15_677] == 20_002
    split = make_split(data)
    assert len(split.query) == 2_000
    assert data.present["image"][split.query].all()
    assert len(split.train) == 18_015


def test_mirflickr25k_has_deep_features_of_the_same_items(data_dir):
    deep = acqh.load_dataset("mirflickr25k", data_dir, features="deep")
    assert deep.name == "mirflickr25k_deep"
    assert deep.views["image"].shape == (15_677, 1_280)
    assert deep.views["image"].dtype == np.float32
    assert deep.views["image"].max() == pytest.approx(5.92, abs=0.01)
    assert deep.views["text"].shape == (15_677, 1_386)


def test_uci_mfeat_has_its_shape_and_pixels_on_request(data_dir):
    data = acqh.load_dataset("uci_mfeat", data_dir)
    assert {name: view.shape for name, view in data.views.items()} == {
        "image": (2000, 76),
        "text": (2000, 64),
    }
    assert [len(part) for part in data.official_split()] == [1_500, 500]
    with_pixels = acqh.load_dataset("uci_mfeat", data_dir, include_pixels=True)
    assert with_pixels.views["pixels"].shape == (2000, 240)


def test_the_official_wiki_split_has_693_queries_and_a_random_one_too(data_dir):
    data = acqh.load_dataset("wiki", data_dir)
    official, drawn = make_split(data, official=True), make_split(data)
    assert len(official.query) == len(drawn.query) == 693
    assert len(official.train) == len(drawn.train) == 2173
    assert official.sha256 != drawn.sha256


def test_the_environment_variable_names_the_folder(data_dir, monkeypatch):
    monkeypatch.setenv("ACQH_DATA", str(data_dir))
    assert len(acqh.load_dataset("wiki")) == 2866
    infos = {info.name: info for info in acqh.list_datasets()}
    assert infos["wiki"].is_available
    assert infos["wiki"].data_dir == str(data_dir)


# --- files that are missing, wrong, small ----------------------------------------------------


def test_every_data_set_is_listed_with_missing_files_and_differences(tmp_path):
    infos = acqh.list_datasets(tmp_path)
    (embedded,) = [info for info in infos if info.is_available]
    assert embedded.name == "emoji"
    infos.remove(embedded)
    assert [info.name for info in infos] == NAMES
    for info in infos:
        assert not info.is_available
        assert len(info.missing) == len(info.files) == 1
        assert info.description
        assert info.source
        assert info.differences
        assert info.licence
        assert all(original.page for original in info.originals)
        assert "image" in info.views
    assert "TagSVD" in infos[1].preprocessing
    assert "features='edge' or 'deep'" in infos[1].options


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_with_its_contents_and_where_to_put_it(name, tmp_path):
    with pytest.raises(DatasetNotFoundError) as caught:
        acqh.load_dataset(name, tmp_path)
    message = str(caught.value)
    for part in (f"{name}.npz", "image (", str(tmp_path), "`data_dir`", "ACQH_DATA"):
        assert part in message
    assert f"acqh datasets prepare {name}" in message
    assert isinstance(caught.value, FileNotFoundError)


def test_without_a_folder_the_error_names_the_setting(monkeypatch):
    monkeypatch.delenv("ACQH_DATA", raising=False)
    with pytest.raises(DatasetNotFoundError, match="folder"):
        acqh.load_dataset("wiki")


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="nowhere"):
        acqh.load_dataset("wiki", tmp_path / "nowhere")


def write_small_wiki(folder, n=10, width=128):
    labels = np.eye(10, dtype=np.uint8)[np.arange(n) % 10]
    write(folder, "wiki.npz", image=np.ones((n, width)), text=np.ones((n, 10)), labels=labels)


def test_a_file_that_differs_is_taken_with_a_warning(tmp_path):
    write_small_wiki(tmp_path, width=127)
    with pytest.warns(DatasetWarning) as caught:
        data = acqh.load_dataset("wiki", tmp_path)
    assert data.views["image"].shape == (10, 127)
    message = str(caught[0].message)
    assert "10 items instead of 2,866" in message
    assert "'image' has 127 columns instead of 128" in message


def test_other_values_of_the_right_shape_are_detected_by_their_checksum(tmp_path):
    write_small_wiki(tmp_path, n=2866)
    with pytest.warns(DatasetWarning, match="in image, text, labels"):
        acqh.load_dataset("wiki", tmp_path)


def test_without_verification_there_is_no_warning(tmp_path):
    write_small_wiki(tmp_path)
    assert len(acqh.load_dataset("wiki", tmp_path, verify=False)) == 10


def write_small_mirflickr(folder, deep_ids):
    ids = np.arange(1, 6)
    labels = np.eye(5, 24, dtype=np.uint8)
    write(
        folder,
        "mirflickr25k.npz",
        image=np.ones((5, 150), dtype=np.float32),
        text=random_words(5, 1386),
        labels=labels,
        image_id=ids,
        extra_text=random_words(2, 1386, seed=1),
        extra_labels=labels[:2],
        extra_image_id=np.array([8, 9]),
        label_names=np.array([f"label{i}" for i in range(24)]),
        tag_names=np.array([f"tag{i}" for i in range(1386)]),
    )
    deep = np.full((5, 1280), 2, dtype=np.float16)
    write(folder, "mirflickr25k_deep.npz", image=deep, image_id=deep_ids)


def test_deep_features_of_other_images_are_rejected(tmp_path):
    write_small_mirflickr(tmp_path, deep_ids=np.array([1, 2, 3, 5, 4]))
    with pytest.raises(InvalidInputError, match="image_id differ"):
        acqh.load_dataset("mirflickr25k", tmp_path, verify=False, features="deep")


def test_items_with_text_only_have_no_deep_features(tmp_path):
    write_small_mirflickr(tmp_path, deep_ids=np.arange(1, 6))
    data = acqh.load_dataset(
        "mirflickr25k", tmp_path, verify=False, features="deep", include_text_only=True
    )
    assert data.present["image"].tolist() == [True] * 5 + [False] * 2
    assert data.views["image"][:, 0].tolist() == [2] * 5 + [0] * 2
    text = data.views["text"]
    expected = " ".join(f"tag{j}" for j in text[[6]].indices)
    assert data.items["tags"][6] == expected


def test_the_file_an_option_needs_is_named(tmp_path):
    write_small_mirflickr(tmp_path, deep_ids=np.arange(1, 6))
    (tmp_path / "mirflickr25k_deep.npz").unlink()
    assert "mirflickr25k" in [
        info.name for info in acqh.list_datasets(tmp_path) if not info.missing
    ]
    with pytest.raises(DatasetNotFoundError, match=r"mirflickr25k_deep\.npz: image"):
        acqh.load_dataset("mirflickr25k", tmp_path, verify=False, features="deep")


def small_nuswide(n=12):
    rng = np.random.default_rng(0)
    labels = (rng.random((n, 10)) < 0.3).astype(np.uint8)
    labels[:, 0] |= ~labels.any(axis=1)
    return rng.random((n, 500), dtype=np.float32), random_words(n, 1000), labels


def test_nuswide10_is_read_from_npz_of_any_number_of_rows_without_verification(tmp_path):
    image, text, labels = small_nuswide()
    write(tmp_path, "nuswide10.npz", image=image, text=text, labels=labels)
    data = acqh.load_dataset("nuswide10", tmp_path, verify=False)
    np.testing.assert_array_equal(data.views["image"], image)
    np.testing.assert_array_equal(data.views["text"].toarray(), text.toarray())
    np.testing.assert_array_equal(data.labels, labels)
    with pytest.warns(DatasetWarning, match="12 items instead of 186,577"):
        acqh.load_dataset("nuswide10", tmp_path)


def test_nuswide10_is_read_from_matlab_too(tmp_path):
    image, text, labels = small_nuswide()
    scipy.io.savemat(
        tmp_path / "nuswide10.mat",
        {"XAll": image, "YAll": sp.csc_matrix(text.astype(float)), "LAll": labels},
    )
    data = acqh.load_dataset("nuswide10", tmp_path, verify=False)
    np.testing.assert_array_equal(data.views["image"], image)
    assert data.views["text"].shape == (12, 1000)
    np.testing.assert_array_equal(data.labels, labels)


def test_the_error_for_an_unknown_name_or_option_lists_the_valid_ones(tmp_path):
    with pytest.raises(InvalidInputError, match=", ".join(NAMES[1:])):
        acqh.load_dataset("coco")
    with pytest.raises(InvalidInputError, match="options: features"):
        acqh.load_dataset("mirflickr25k", tmp_path, colour=True)
    with pytest.raises(InvalidInputError, match="options: none"):
        acqh.load_dataset("wiki", tmp_path, colour=True)
    with pytest.raises(InvalidInputError, match="did you mean 'features'"):
        acqh.load_dataset("mirflickr25k", tmp_path, feature="deep")
    with pytest.raises(InvalidInputError, match="did you mean 'data_dir'"):
        acqh.load_dataset("wiki", data_dirs=tmp_path)
    with pytest.raises(InvalidInputError, match="'edge'"):
        acqh.load_dataset("mirflickr25k", tmp_path, features="sift")
