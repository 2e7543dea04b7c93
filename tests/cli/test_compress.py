"""``acqh compress`` makes an index from a file of vectors; ``acqh query`` searches it."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.cli._output import in_options, new_folder
from acqh.errors import InvalidInputError


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compress")
    rng = np.random.default_rng(0)
    items = rng.normal(size=(400, 6)).astype(np.float32)
    queries = rng.normal(size=(50, 6)).astype(np.float32)
    np.savez(folder / "pair.npz", items=items, queries=queries)
    np.save(folder / "queries.npy", queries)
    result = call(
        "compress", folder / "pair.npz", "--items-column", "items",
        "--queries", folder / "queries.npy", "--out", folder / "index", "--bytes", 2,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "recall@10" in result.output
    return folder


def test_the_index_is_that_of_the_library(place):
    with np.load(place / "pair.npz") as pair:
        small = acqh.compress(pair["items"], pair["queries"], 2)
    index = acqh.load(place / "index")
    np.testing.assert_array_equal(index.codes, small.codes)
    assert index.info["compress"]["recall"] == small.report.to_dict()["recall"]


@pytest.mark.parametrize("named", [False, True])
def test_it_is_searched_for_a_file_of_queries(place, tmp_path, named):
    queries = ("pair.npz", "--modality", "queries") if named else ("queries.npy",)
    source, *options = queries
    out = tmp_path / "hits.csv"
    result = call("query", place / "index", place / source, *options, "--out", out)
    assert result.exit_code == 0, result.output
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = acqh.load(place / "index").search(np.load(place / "queries.npy"), 10)
    assert [int(row["id"]) for row in rows] == expected.ids.ravel().tolist()


def test_more_hits_than_items_are_all_items(place, tmp_path):
    out = tmp_path / "hits.csv"
    result = call("query", place / "index", place / "queries.npy", "-k", 10**12, "--out", out)
    assert result.exit_code == 0, result.output
    assert len(out.read_text().splitlines()) == 1 + 50 * 400


def test_several_arrays_need_the_option_that_names_one(place, tmp_path):
    rows = np.eye(5)
    np.savez(tmp_path / "two.npz", a=rows, b=rows)
    result = call("compress", tmp_path / "two.npz", "--out", tmp_path / "index")
    assert "--items-column" in in_options(str(result.exception))
    queries = ("--queries", tmp_path / "two.npz", "--out", tmp_path / "index")
    result = call("compress", place / "queries.npy", *queries)
    assert "--queries-column" in in_options(str(result.exception))


def test_json_is_the_report(place, tmp_path):
    result = call(
        "compress", place / "queries.npy", "--out", tmp_path / "index", "--bytes", 1, "--json"
    )
    facts = json.loads(result.stdout)
    assert facts["n_items"] == 50
    assert set(facts["recall"]) == {"1", "10", "100"}


def test_overfitted_codewords_are_reported(place, tmp_path):
    result = call("compress", place / "queries.npy", "--out", tmp_path / "index")
    assert "memorized" in " ".join(result.stderr.split())
    assert "2,048 codewords" in " ".join(result.stderr.split())


def test_queries_of_another_width_than_the_index_are_rejected(place, tmp_path):
    np.save(tmp_path / "wide.npy", np.ones((3, 7)))
    result = call("query", place / "index", tmp_path / "wide.npy", "--out", tmp_path / "a.csv")
    assert result.exit_code == 1
    assert "(3, 7)" in str(result.exception)


def test_an_index_is_replaced_with_overwrite_only(place, tmp_path):
    compress = ("compress", place / "queries.npy", "--bytes", 1, "--out", tmp_path / "index")
    assert call(*compress).exit_code == 0
    assert "--overwrite" in str(call(*compress).exception)
    assert call(*compress, "--overwrite").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_overwrite_replaces_neither_other_folders_nor_collections(place, tmp_path):
    compress = ("compress", place / "queries.npy", "--bytes", 1, "--overwrite", "--out")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    assert isinstance(call(*compress, tmp_path / "thesis").exception, InvalidInputError)
    things = [acqh.collection.Item(text=text) for text in ("a rose", "a car")]
    acqh.Collection.build(things, tmp_path / "things.acqh", text_encoder="tfidf").close()
    assert isinstance(call(*compress, tmp_path / "things.acqh").exception, InvalidInputError)
    assert (tmp_path / "thesis" / "thesis.tex").exists()
    assert acqh.verify(tmp_path / "things.acqh").ok


def test_query_names_search_for_a_collection_and_search_names_query(place, tmp_path):
    things = [acqh.collection.Item(text=text) for text in ("a rose", "a car")]
    path = tmp_path / "things.acqh"
    acqh.Collection.build(things, path, text_encoder="tfidf").close()
    query = call("query", path, place / "queries.npy")
    assert f"acqh search {path}" in str(query.exception)
    search = call("search", place / "index", "rose")
    assert f"acqh query {place / 'index'}" in str(search.exception)


@pytest.mark.parametrize("n_bytes", [0, 65])
def test_bytes_out_of_range_are_a_wrong_call(place, tmp_path, n_bytes):
    result = call("compress", place / "queries.npy", "--out", tmp_path / "x", "--bytes", n_bytes)
    assert result.exit_code == 2


def test_recall_of_several_indexes_is_one_table(place, tmp_path):
    faiss = pytest.importorskip("faiss")
    pytest.importorskip("matplotlib")
    with np.load(place / "pair.npz") as pair:
        items, queries = pair["items"], pair["queries"]
    flat = faiss.IndexFlatIP(6)
    flat.add(items)
    faiss.write_index(flat, str(tmp_path / "flat.faiss"))
    np.save(tmp_path / "answers.npy", np.argsort(-queries @ items.T, axis=1)[:, :10])
    np.save(tmp_path / "items.npy", items)
    result = call(
        "recall", place / "index", tmp_path / "flat.faiss", tmp_path / "answers.npy",
        "--items", tmp_path / "items.npy", "--queries", place / "queries.npy", "--at", "1,10",
        "--plot", tmp_path / "recall.svg", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    actual = json.loads(result.stdout)
    assert list(actual) == ["index", "flat.faiss", "answers.npy"]
    assert actual["flat.faiss"]["recall"] == {"1": 1.0, "10": 1.0}
    assert actual["answers.npy"]["recall"] == {"1": 1.0, "10": 1.0}
    assert actual["index"]["n_queries"] == 50
    assert actual["index"]["bytes_per_item"] < actual["flat.faiss"]["bytes_per_item"]
    assert b"<svg" in (tmp_path / "recall.svg").read_bytes()


def test_a_sweep_recommends_a_number_of_bytes(place):
    result = call(
        "compress", place / "pair.npz", "--items-column", "items",
        "--queries", place / "queries.npy", "--sweep", "1,2",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "2 bytes per item" in result.stdout
    for column in ("recall@10 ", "recall@100", "re-ranked", "smaller"):
        assert column in result.stdout
    refused = call("compress", place / "pair.npz", "--sweep", "1;2")
    assert refused.exit_code == 2
    assert "whole numbers" in refused.output


def test_recall_of_an_index_with_other_items_is_an_error(place, tmp_path):
    with np.load(place / "pair.npz") as pair:
        np.save(tmp_path / "items.npy", pair["items"][:50])
    result = call(
        "recall", place / "index", "--items", tmp_path / "items.npy",
        "--queries", place / "queries.npy",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "not among" in str(result.exception)


def test_recall_of_items_with_text_ids(place, tmp_path):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    with np.load(place / "pair.npz") as pair:
        table = arrow.table({"vector": list(pair["items"]), "id": [f"n{i}" for i in range(400)]})
    parquet.write_table(table, tmp_path / "items.parquet")
    call("compress", tmp_path / "items.parquet", "--out", tmp_path / "index", "--bytes", 2)
    result = call(
        "recall", tmp_path / "index", "--items", tmp_path / "items.parquet",
        "--queries", place / "queries.npy", "--at", "10", "--json",
    )  # fmt: skip
    assert 0.1 < json.loads(result.stdout)["index"]["recall"]["10"] <= 1


@pytest.mark.parametrize("options", [("--sweep", "1,2"), ("--out", "index")])
def test_a_plot_that_cannot_be_drawn_is_rejected_before_training(
    options, place, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("acqh.scale.sweep", None)
    result = call("compress", place / "queries.npy", *options, "--plot", "sizes.bmp")
    assert result.exit_code == 2
    assert "--plot" in result.output


def test_a_sweep_with_a_folder_for_an_index_is_a_wrong_call(place, tmp_path):
    result = call("compress", place / "queries.npy", "--sweep", "1,2", "--out", tmp_path / "index")
    assert result.exit_code == 2
    assert "--sweep" in result.output
    assert not (tmp_path / "index").exists()


def test_an_empty_folder_of_a_killed_run_is_reused(place, tmp_path):
    (tmp_path / "index").mkdir()
    result = call("compress", place / "queries.npy", "--out", tmp_path / "index", "--bytes", 1)
    assert result.exit_code == 0, result.output
    assert len(acqh.load(tmp_path / "index")) == 50


def test_nothing_has_the_name_of_the_index_before_it_is_whole(tmp_path):
    with new_folder(tmp_path / "index") as folder:
        folder.mkdir()
        (folder / "half").touch()
        assert not (tmp_path / "index").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_of_two_commands_with_one_folder_the_later_fails_and_changes_nothing(tmp_path):
    def late():
        with new_folder(tmp_path / "index") as folder:
            folder.mkdir()
            (tmp_path / "index").mkdir()
            (tmp_path / "index" / "first").touch()

    with pytest.raises(InvalidInputError, match="exists"):
        late()
    assert [path.name for path in tmp_path.rglob("*")] == ["index", "first"]


def test_work_that_fails_leaves_nothing(place, tmp_path):
    result = call("compress", tmp_path / "missing.npy", "--out", tmp_path / "index")
    assert result.exit_code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_the_metric_is_stored_and_obeyed(place, tmp_path, metric):
    with np.load(place / "pair.npz") as pair:
        items, queries = pair["items"], pair["queries"]
    np.save(tmp_path / "items.npy", items)
    out, table = tmp_path / "index", tmp_path / "hits.csv"
    options = "--metric", metric, "--bytes", 4
    assert call("compress", tmp_path / "items.npy", "--out", out, *options).exit_code == 0
    assert call("query", out, place / "queries.npy", "-k", 1, "--out", table).exit_code == 0
    norms = np.linalg.norm(items, axis=1)
    scores = queries @ items.T / norms if metric == "cosine" else queries @ items.T - norms**2 / 2
    with table.open(newline="") as file:
        hits = [int(row["id"]) for row in csv.DictReader(file)]
    assert np.mean(np.array(hits) == scores.argmax(axis=1)) > 0.8
    arguments = "--items", tmp_path / "items.npy", "--queries", place / "queries.npy", "--json"
    measured = json.loads(call("recall", out, *arguments).stdout)["index"]
    assert measured["metric"] == metric
    assert measured["recall"]["10"] > 0.8


def test_append_adds_vectors_under_the_next_ids(place, tmp_path):
    with np.load(place / "pair.npz") as pair:
        items = pair["items"]
    np.save(tmp_path / "some.npy", items[:300])
    np.save(tmp_path / "more.npy", items[300:])
    index = tmp_path / "index"
    assert call("compress", tmp_path / "some.npy", "--out", index, "--bytes", 2).exit_code == 0
    more = call(
        "compress", tmp_path / "more.npy", "--append", index, "--chunk-size", 30, "--json"
    )  # fmt: skip
    assert json.loads(more.stdout)["n_items"] == 400
    appended = acqh.load(index)
    assert appended.ids.tolist() == list(range(400))
    assert appended.drift.n_added == 100
    np.testing.assert_array_equal(appended.codes[300:], appended.quantizer.encode(items[300:]))


def test_append_rejects_vectors_of_other_dimensions(place, tmp_path):
    np.save(tmp_path / "wide.npy", np.ones((3, 7), np.float32))
    before = acqh.load(place / "index").codes
    result = call("compress", tmp_path / "wide.npy", "--append", place / "index")
    assert isinstance(result.exception, InvalidInputError)
    np.testing.assert_array_equal(acqh.load(place / "index").codes, before)
    wrong = call("compress", place / "queries.npy", "--append", place / "index", "--sweep", "1,2")
    assert wrong.exit_code == 2


def test_recall_beyond_the_length_of_answers_is_blank(place, tmp_path):
    with np.load(place / "pair.npz") as pair:
        np.save(tmp_path / "items.npy", pair["items"])
    answers = np.argsort(-np.load(place / "queries.npy") @ np.load(tmp_path / "items.npy").T)
    answers[:, 5:] = -1
    np.save(tmp_path / "answers.npy", answers[:, :10])
    arguments = (
        "recall", tmp_path / "answers.npy", "--items", tmp_path / "items.npy",
        "--queries", place / "queries.npy", "--at", "5,10,100",
    )  # fmt: skip
    measured = json.loads(call(*arguments, "--json").stdout)["answers.npy"]["recall"]
    assert measured == {"5": 1.0, "10": 0.5, "100": None}
    result = call(*arguments)
    assert result.exit_code == 0, result.output


def test_kept_vectors_rerank_queries_and_recall(place, tmp_path):
    with np.load(place / "pair.npz") as pair:
        items, queries = pair["items"], pair["queries"]
    np.save(tmp_path / "items.npy", items)
    index, vectors_file = tmp_path / "small.acqh", tmp_path / "small.int8.npy"
    arguments = "compress", tmp_path / "items.npy", "--bytes", 1, "--out", index, "--keep", "int8"
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["kept"] == str(vectors_file)
    assert report["reranked_recall"]["100"] > report["recall"]["10"]
    assert "already exists" in str(call(*arguments).exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "items.npy", "small.acqh", "small.int8.npy",
    ]  # fmt: skip
    hits = call(
        "query", index, place / "queries.npy", "-k", 1, "--rerank", vectors_file, "--rerank-k", 300,
        "--json",
    )  # fmt: skip
    first = [int(hit["id"]) for hit in json.loads(hits.stdout)]
    assert np.mean(np.array(first) == (queries @ items.T).argmax(axis=1)) > 0.9
    measured = json.loads(
        call(
            "recall", index, "--items", tmp_path / "items.npy", "--queries", place / "queries.npy",
            "--at", 10, "--rerank", vectors_file, "--json",
        ).stdout
    )  # fmt: skip
    assert list(measured) == ["small.acqh", "small.acqh, re-ranked"]
    code, full = measured.values()
    assert full["recall"]["10"] > max(code["recall"]["10"], 0.9)
    assert full["bytes_per_item"] == pytest.approx(code["bytes_per_item"] + 10, abs=0.5)


@pytest.mark.parametrize("option", ["--sweep", "--append", "--rerank"])
def test_keep_takes_an_index_to_write(place, tmp_path, option):
    value = "1,2" if option == "--sweep" else place / "index"
    result = call("compress", place / "queries.npy", "--keep", "int8", option, value)
    assert result.exit_code == 2
    assert "--keep" in result.output
