"""``acqh fit`` and ``acqh encode`` give the results of the library from files."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.cli.features import fit
from acqh.errors import DeviceError
from acqh.methods import load_method


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a file of features and a model that the command line learnt from it."""
    folder = tmp_path_factory.mktemp("fit")
    data = acqh.make_multiview(300, n_labels=4, random_state=0)
    np.savez(folder / "items.npz", **data.views, labels=data.labels)
    result = call("fit", folder / "items.npz", "--out", folder / "model", "--bytes", 2)
    assert result.exit_code == 0, result.output
    assert "300 items with 4 labels" in " ".join(result.output.split())
    return folder


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def model_of(place):
    return load_method(place / "model")


def test_the_model_is_that_of_a_fit_in_memory(place):
    data = acqh.MultiViewData.from_files(place / "items.npz")
    model = acqh.ACQH(n_codebooks=2, random_state=0).fit(data)
    np.testing.assert_allclose(model_of(place).codebooks_, model.codebooks_, atol=1e-6)


def test_targets_are_fitted_out_of_core(place, tmp_path):
    # More than twice as many items as words: fewer are memorized, and what remains
    # for the second codebook is rounding errors.
    created = acqh.make_multiview(600, n_labels=4, random_state=0)
    np.savez(tmp_path / "items.npz", **created.views, labels=created.labels)
    data = acqh.MultiViewData.from_files(tmp_path / "items.npz")
    out = tmp_path / "model"
    result = call("fit", tmp_path / "items.npz", "--out", out, "--bytes", 2, "--chunk-size", 70,
                 "--targets", "labels=0.5, text=0.5", "--json")  # fmt: skip
    assert json.loads(result.output)["targets"] == {"labels": 0.5, "text": 0.5}
    targets = {"labels": 0.5, "text": 0.5}
    model = acqh.ACQH(n_codebooks=2, targets=targets, random_state=0).fit(data)
    np.testing.assert_array_equal(load_method(out).encode(data), model.encode(data))
    np.savez(tmp_path / "pairs.npz", **data.views)
    result = call("fit", tmp_path / "pairs.npz", "--out", tmp_path / "pairs", "--json")
    assert set(json.loads(result.output)["targets"]) == set(data.views)
    for wrong in ("labels=much", "=1", "text=1,text=2"):
        new = tmp_path / "wrong"
        assert call("fit", place / "items.npz", "--out", new, "--targets", wrong).exit_code == 2


@pytest.mark.parametrize("by_labels", [False, True])
def test_codes_equal_those_of_the_library_for_every_chunk_size(place, tmp_path, by_labels):
    data = acqh.MultiViewData.from_files(place / "items.npz")
    labels = {"labels": data.labels} if by_labels else {}
    expected = model_of(place).encode(data.views, **labels)
    for chunk_size in (64, 1000):
        out = tmp_path / f"{chunk_size}.npy"
        flags = ["--by-labels"] if by_labels else []
        call_ = call("encode", place / "model", place / "items.npz", "--out", out, *flags,
                     "--chunk-size", chunk_size, "--json")  # fmt: skip
        assert call_.exit_code == 0, call_.output
        assert json.loads(call_.output)["n_items"] == 300
        np.testing.assert_array_equal(np.load(out), expected)


def test_a_device_gives_the_same_codes_and_a_missing_one_is_rejected(place, tmp_path):
    pytest.importorskip("torch")
    items, out = place / "items.npz", tmp_path / "codes.npy"
    assert call("encode", place / "model", items, "--out", out, "--device", "cpu").exit_code == 0
    expected = model_of(place).encode(acqh.MultiViewData.from_files(items).views)
    np.testing.assert_array_equal(np.load(out), expected)
    small = [tmp_path / name for name in ("here", "there")]
    for path, device in zip(small, ([], ["--device", "cpu"]), strict=True):
        compress = ("compress", items, "--items-column", "image", "--bytes", 2, "--out", path)
        assert call(*compress, *device).exit_code == 0
    np.testing.assert_array_equal(*(acqh.load(path).codes for path in small))
    assert call("fit", items, "--out", tmp_path / "model", "--device", "cpu").exit_code == 0
    for command in (("fit", items), ("encode", place / "model", items), compress[:4]):
        failed = call(*command, "--out", tmp_path / "none", "--device", "cuda:99")
        assert isinstance(failed.exception, DeviceError)
        assert "not available" in str(failed.exception)
        assert not (tmp_path / "none").exists()


def test_of_two_parallel_fits_one_is_rejected_and_the_other_keeps_its_model(place, tmp_path):
    start = Barrier(2)

    def learn(n_codebooks):
        start.wait()
        try:
            fit(str(place / "items.npz"), tmp_path / "model", n_codebooks=n_codebooks)
        except acqh.errors.InvalidInputError as error:
            return str(error)
        return n_codebooks

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(learn, (1, 2)))
    (exit_code,) = (result for result in results if isinstance(result, int))
    (refused,) = (result for result in results if isinstance(result, str))
    assert "exists" in refused
    assert load_method(tmp_path / "model").n_codebooks == exit_code


def test_a_fit_that_fails_leaves_nothing_behind(place, tmp_path):
    assert call("fit", tmp_path / "missing.npz", "--out", tmp_path / "model").exit_code
    assert not (tmp_path / "model").exists()
    assert call("fit", place / "items.npz", "--out", tmp_path / "no" / "model").exit_code


def test_outputs_are_replaced_with_overwrite_only(place, tmp_path):
    model, codes = tmp_path / "model", tmp_path / "codes.npy"
    for arguments in (
        ("fit", place / "items.npz", "--out", model),
        ("encode", place / "model", place / "items.npz", "--out", codes),
        ("encode", place / "model", place / "items.npz", "--out", tmp_path / "parts"),
        ("index", place / "model", codes, "--out", tmp_path / "index"),
        ("query", tmp_path / "index", place / "items.npz", "--model", place / "model",
         "--modality", "text", "--out", tmp_path / "hits.csv"),
    ):  # fmt: skip
        assert call(*arguments).exit_code == 0
        if tmp_path / "parts" not in arguments:  # which continues
            assert isinstance(call(*arguments).exception, acqh.errors.InvalidInputError)
        again = call(*arguments, "--overwrite")
        assert again.exit_code == 0, again.exception


def test_labels_unknown_to_the_model_are_rejected(place, tmp_path):
    data = acqh.make_multiview(20, n_labels=3, random_state=1)
    np.savez(tmp_path / "other.npz", **data.views, labels=data.labels)
    out = tmp_path / "codes.npy"
    result = call("encode", place / "model", tmp_path / "other.npz", "--out", out, "--by-labels")
    assert isinstance(result.exception, acqh.errors.LabelError)
    assert not out.exists()


def test_codes_in_parts_go_on_and_become_an_index(place, tmp_path):
    data = acqh.MultiViewData.from_files(place / "items.npz")
    model, out = model_of(place), tmp_path / "codes"
    arguments = ("encode", place / "model", place / "items.npz", "--out", out, "--chunk-size", 100)
    for _ in range(2):
        result = call(*arguments, "--json")
        assert result.exit_code == 0, result.output
        facts = json.loads(result.output)
        assert (facts["n_items"], facts["n_parts"], facts["bytes_per_item"]) == (300, 3, 2)
    assert "300 items with 2 bytes each, 3 parts" in " ".join(call(*arguments).output.split())
    assert "codes of 300 items in 3 parts" in " ".join(call("verify", out).output.split())
    np.save(tmp_path / "codes.npy", model.encode(data.views))
    for name in ("codes", "codes.npy"):
        created = call(
            "index", place / "model", tmp_path / name, "--out", tmp_path / f"{name}-index"
        )
        assert created.exit_code == 0, created.output
        index = acqh.load(tmp_path / f"{name}-index")
        np.testing.assert_array_equal(index.codes, model.encode(data.views))
        assert index.ids.tolist() == list(range(300))


def test_codes_of_another_model_are_rejected(place, tmp_path):
    data = acqh.make_multiview(60, n_labels=4, random_state=1)
    other = acqh.ACQH(n_codebooks=2, random_state=1).fit(data)
    acqh.scale.encode_parts(other, data, tmp_path / "parts")
    (tmp_path / "text.npy").write_text("no codes")
    np.save(tmp_path / "wide.npy", np.zeros((3, 7), dtype=np.uint8))
    for name in ("parts", "text.npy", "wide.npy"):
        result = call("index", place / "model", tmp_path / name, "--out", tmp_path / "index")
        assert isinstance(result.exception, acqh.errors.InvalidInputError)
        assert not (tmp_path / "index").exists()


@pytest.fixture(scope="module")
def shards(place, tmp_path_factory):
    """Give the paths of two indexes of the items, and one of all."""
    folder = tmp_path_factory.mktemp("indexes")
    data, model = acqh.MultiViewData.from_files(place / "items.npz"), model_of(place)
    paths = []
    for name, rows in {"first": slice(0, 200), "second": slice(200, 300)}.items():
        shard = data.subset(rows)
        paths.append(folder / name)
        acqh.CodeIndex(model.codebooks_).add(model.encode(shard.views), shard.ids).save(paths[-1])
    full = acqh.CodeIndex(model.codebooks_).add(model.encode(data.views), data.ids)
    return paths, full


def bulk(place, *paths, out, **options):
    inputs = {"model": place / "model", "modality": "text", "out": out}
    flags = [part for name, value in {**inputs, **options}.items() for part in (f"--{name}", value)]
    return call("query", *paths, place / "items.npz", "-k", 4, *flags)


def test_indexes_are_searched_for_all_queries_of_a_file(place, shards, tmp_path):
    paths, full = shards
    data = acqh.MultiViewData.from_files(place / "items.npz")
    actual = full.search(model_of(place).project(data.views["text"], view="text"), k=4)
    for name in ("hits.csv", "hits.parquet"):
        result = bulk(place, *paths, out=tmp_path / name, **{"chunk-size": 90})
        assert result.exit_code == 0, result.output
        assert "best 4 hits of 300 queries" in " ".join(result.output.split())
    lines = (tmp_path / "hits.csv").read_text().splitlines()
    assert lines[0] == "query,rank,id,score"
    rows = [line.split(",") for line in lines[1:]]
    assert [row[:2] for row in rows[:5]] == [["0", str(r)] for r in (1, 2, 3, 4)] + [["1", "1"]]
    assert [int(row[2]) for row in rows] == actual.ids.ravel().tolist()
    # The last bits of a projection depend on the number of rows, in some builds of BLAS.
    scores = np.float32([row[3] for row in rows])
    np.testing.assert_allclose(scores, actual.scores.ravel(), rtol=1e-6)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "hits.parquet")
    assert table.column("id").to_pylist() == actual.ids.ravel().tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hits.csv", "hits.parquet"]


def test_hits_are_printed_where_no_file_is_named(place, shards):
    command = ("query", *shards[0], place / "items.npz", "--model", place / "model")
    command += ("--modality", "text")
    lines = call(*command, "-k", 2).stdout.splitlines()
    assert (lines[0], len(lines)) == ("query,rank,id,score", 601)
    result = json.loads(call(*command, "-k", 2, "--json").stdout)
    assert [row["rank"] for row in result[:3]] == ["1", "2", "1"]


def test_query_rejects_wrong_options_and_an_existing_output(place, shards, tmp_path):
    paths, _ = shards
    missing = call("query", paths[0], place / "items.npz", "--model", place / "model")
    assert missing.exit_code == 2
    unknown = bulk(place, paths[0], out=tmp_path / "b.csv", modality="audio")
    assert "views image, text, not 'audio'" in str(unknown.exception)
    assert not (tmp_path / "b.csv").exists()
    (tmp_path / "c.csv").write_text("mine")
    assert "exists" in str(bulk(place, paths[0], out=tmp_path / "c.csv").exception)
