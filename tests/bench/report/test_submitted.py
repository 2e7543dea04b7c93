"""Results of others, merged into the tables."""

import csv

import pytest

from acqh.bench import write_report
from acqh.bench.report.results import load_results, read_submitted
from acqh.bench.report.tables import compare
from acqh.errors import InvalidInputError

ROW = {
    "dataset": "wiki", "protocol": "labelled", "method": "theirs", "n_components": 32,
    "bytes_per_item": 4, "seed": 0, "direction": "image->text", "map_all": 0.7, "map_50": 0.8,
    "map_100": 0.75, "fit_seconds": 1.5, "encode_seconds": 0, "query_seconds": 0.1,
    "n_train": 2173, "n_query": 693, "n_database": 2173,
}  # fmt: skip


def write_csv(path, *rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_submitted_results_stand_in_the_same_tables_without_a_test(written, tmp_path):
    for label in ("acqh", "dch", "fdch"):
        written.add(label)
    path = write_csv(tmp_path / "theirs.csv", ROW, {**ROW, "direction": "text->image"})
    table = compare(load_results(written.path, [path]))[0].tables[0]
    (row,) = [row for row in table.rows if row.label == "theirs"]
    assert row.follows == "submitted"
    assert [entry.summary.mean for entry in row.entries] == [0.7, 0.7]
    assert row.entries[0].place == 1
    assert row.entries[0].verdict is None
    assert {row.label: row.follows for row in table.rows}["fdch"] == "reconstructed"


def test_rows_keep_their_values_and_two_of_one_setting_are_rejected_with_their_lines(tmp_path):
    path = write_csv(tmp_path / "theirs.csv", ROW, {**ROW, "seed": 1}, {**ROW, "map_all": 0.6})
    with pytest.raises(InvalidInputError, match=r"line 4.*line 2"):
        read_submitted(path)
    (record,) = read_submitted(write_csv(tmp_path / "one.csv", ROW))
    assert {name: record["rows"][0][name] for name in ROW} == ROW
    apart = [{**ROW, "database": database} for database in ("training", "fused")]
    assert len(read_submitted(write_csv(tmp_path / "apart.csv", *apart))) == 2


def test_trivial_baselines_are_called_so(written):
    for label in ("acqh", "label-ridge", "random"):
        written.add(label)
    rows = compare(load_results(written.path))[0].tables[0].rows
    assert [row.follows for row in rows] == ["paper", "trivial baseline", "trivial baseline"]


def test_the_results_of_another_folder_can_be_merged_and_keep_their_names_apart(
    bench_folder, tmp_path
):
    report = write_report(bench_folder, tmp_path / "r", merge=[bench_folder / "results.csv"])
    assert "acqh (results)" in report.page.read_text(encoding="utf-8")
    results = load_results(bench_folder, [bench_folder / "results.csv"]).results
    sizes = {result.label: result.n_bytes for result in results}
    assert sizes["label-ridge (results)"] is None  # fixed, as in the folder itself


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"map_all": 1.2}, "map_all"),
        ({"map_50": "good"}, "map_50"),
        ({"n_train": -1}, "n_train"),
        ({"fit_seconds": "nan"}, "fit_seconds"),
        ({"protocol": "mine"}, "protocol"),
        ({"direction": "both"}, "direction"),
        ({"database": "odd"}, "database"),
        ({"method": ""}, "method"),
    ],
)
def test_impossible_values_are_named_with_their_line(change, word, tmp_path):
    path = write_csv(tmp_path / "theirs.csv", {**ROW, "database": ""}, {**ROW, **change})
    with pytest.raises(InvalidInputError, match=word) as caught:
        read_submitted(path)
    assert "line 3" in str(caught.value)


def test_a_missing_column_or_another_kind_of_file_is_an_error(tmp_path):
    path = write_csv(tmp_path / "theirs.csv", {"dataset": "wiki"})
    with pytest.raises(InvalidInputError, match="'bytes_per_item'"):
        read_submitted(path)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InvalidInputError, match="CSV"):
        read_submitted(tmp_path / "binary.csv")
