import csv
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from acqh.bench.running.evaluate import ResultRow
from acqh.bench.running.runs import Run
from acqh.bench.running.store import Store
from acqh.errors import CorruptBundleError, InvalidInputError

RUN = Run(
    dataset="tiny", data_sha256="ab", preparation={}, protocol="labelled", database="training",
    method="acqh", code="c0de", params={"n_components": 8, "random_state": 0}, feature_maps=None,
    seed=0, official=False, n_threads=1, label="acqh",
    n_components_requested=8,
)  # fmt: skip
ROW = ResultRow(
    dataset="tiny", protocol="labelled", method="acqh", database="training", n_components=8,
    bytes_per_item=4, seed=0, direction="image->text", map_all=0.5, map_50=0.5, map_100=0.5,
    map_5000=0.5, fit_seconds=1.0, encode_seconds=0.5, query_seconds=0.25, n_train=9, n_query=3,
    n_database=9, n_codes=5,
)  # fmt: skip


def record_of(run, **facts):
    return {**run.header(), "status": "done", "reason": None, "rows": [asdict(ROW)], **facts}


def test_a_run_is_identified_by_its_setting_alone():
    same = replace(RUN, label="other", bytes_requested=4)
    assert same.key == RUN.key
    changes = {
        "dataset": "other", "data_sha256": "cd", "preparation": {"text": {"class": "Center"}},
        "protocol": "unlabelled", "database": "single", "method": "dch", "code": "other",
        "params": {"n_components": 16}, "feature_maps": "rbf", "seed": 1,
        "official": True, "n_threads": 2,
    }  # fmt: skip
    keys = {replace(RUN, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {RUN.key}) == len(changes) + 1


def test_ways_to_encode_the_database_share_a_fit_and_nothing_else_does():
    assert replace(RUN, database="single").fit_key == RUN.fit_key
    assert replace(RUN, seed=1).fit_key != RUN.fit_key


def test_written_values_are_read_back(tmp_path):
    curves = {"top_n": np.array([1, 2]), "ap_0": np.array([0.5, np.nan], dtype=np.float32)}
    record = record_of(RUN)
    Store(tmp_path / "new" / "out").write(record, curves)
    store = Store(tmp_path / "new" / "out")
    assert store.records() == [record]
    assert store.done(RUN.key)
    assert not store.has_failed(RUN.key)
    assert not store.done("unknown")
    result = store.curves(RUN.key)
    assert set(result) == set(curves)
    np.testing.assert_array_equal(result["ap_0"], curves["ap_0"])


def test_the_table_has_a_row_a_direction_and_one_for_a_failure(tmp_path):
    store = Store(tmp_path)
    rows = [asdict(ROW), asdict(replace(ROW, direction="text->image"))]
    store.write(record_of(RUN, rows=rows))
    failed = replace(RUN, seed=7)
    store.write(record_of(failed, rows=[], status="failed", reason="no memory"))
    with (tmp_path / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0])[:3] == ["dataset", "protocol", "method"]
    assert sorted(row["direction"] for row in table) == ["", "image->text", "text->image"]
    last = next(row for row in table if row["status"] == "failed")
    assert (last["seed"], last["reason"], last["dataset"]) == ("7", "no memory", "tiny")


def test_a_damaged_record_is_named(tmp_path):
    store = Store(tmp_path)
    store.write(record_of(RUN))
    path = tmp_path / "runs" / f"{RUN.key}.json"
    path.write_text("{")
    with pytest.raises(CorruptBundleError, match=path.name):
        Store(tmp_path)
    path.write_text(json.dumps({"key": "other", "status": "done", "rows": []}))
    with pytest.raises(CorruptBundleError, match="record"):
        Store(tmp_path)


def test_a_second_run_in_the_same_folder_is_rejected(tmp_path):
    with (
        Store(tmp_path).locked(),
        pytest.raises(InvalidInputError, match="another process"),
        Store(tmp_path).locked(),
    ):
        pass
    with Store(tmp_path).locked():
        pass


def test_the_plan_is_kept(tmp_path):
    store = Store(tmp_path)
    assert store.plan() is None
    store.write_plan({"mode": "fair", "keys": [RUN.key]})
    assert Store(tmp_path).plan() == {"mode": "fair", "keys": [RUN.key]}


def lines_of(path):
    return (path / "results.csv").read_text().splitlines()


def test_the_table_grows_by_the_rows_of_a_new_run_alone(tmp_path):
    store = Store(tmp_path)
    store.write(record_of(RUN))
    inode = (tmp_path / "results.csv").stat().st_ino
    store.write(record_of(replace(RUN, seed=1)))
    assert len(lines_of(tmp_path)) == 3
    assert (tmp_path / "results.csv").stat().st_ino == inode  # not another file in its place
    store.write(record_of(RUN, label="other"))
    assert len(lines_of(tmp_path)) == 3
    assert sum("other" in line for line in lines_of(tmp_path)) == 1


def test_a_torn_line_of_the_table_is_mended_by_writing_it_again(tmp_path):
    store = Store(tmp_path)
    store.write(record_of(RUN))
    full = lines_of(tmp_path)
    with (tmp_path / "results.csv").open("a") as file:
        file.write("tiny,label")
    Store(tmp_path).write_table()
    assert lines_of(tmp_path) == full


@pytest.mark.parametrize("highest", [200, 60_000, 70_000])
def test_rankings_are_read_back_unchanged(tmp_path, highest):
    rng = np.random.default_rng(0)
    rankings = [rng.integers(0, highest, size=(5, 7)) for _ in range(2)]
    rankings[0][0] = highest
    store = Store(tmp_path)
    store.write(record_of(RUN), rankings=rankings)
    for result, expected in zip(store.rankings(RUN.key), rankings, strict=True):
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(FileNotFoundError):
        store.rankings("none")
