import json
import shutil

import numpy as np
import pytest

from acqh.bench.report.results import load_results, summarise
from acqh.errors import CorruptBundleError, InvalidInputError


def test_the_error_for_a_missing_or_empty_folder_names_the_fix(tmp_path):
    with pytest.raises(InvalidInputError, match=r"nowhere"):
        load_results(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="acqh bench"):
        load_results(tmp_path)


@pytest.mark.parametrize("missing", ["setting", "label", "versions", "split_hash"])
def test_a_record_without_a_part_is_damaged(written, missing):
    key = written.add()
    path = written.path / "runs" / f"{key}.json"
    record = json.loads(path.read_text())
    del record[missing]
    path.write_text(json.dumps(record))
    with pytest.raises(CorruptBundleError, match=f"{key}.json has no '{missing}'; remove it"):
        load_results(written.path)


def test_a_setting_or_row_without_a_part_is_damaged(written):
    key = written.add()
    path = written.path / "runs" / f"{key}.json"
    record = json.loads(path.read_text())
    del record["rows"][1]["map_50"]
    path.write_text(json.dumps(record))
    with pytest.raises(CorruptBundleError, match="no 'map_50'"):
        load_results(written.path)
    del record["setting"]["method"]
    path.write_text(json.dumps(record))
    with pytest.raises(CorruptBundleError, match="no 'method'"):
        load_results(written.path)


def test_missing_damaged_or_incomplete_curves_are_reported(written):
    key = written.add()
    run = load_results(written.path).results[0]
    path = written.path / "curves" / f"{key}.npz"
    with pytest.raises(CorruptBundleError, match="no array 'magic_0'"):
        load_results(written.path).curve(run, "magic")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CorruptBundleError, match=f"cannot be used.*remove runs/{key}.json"):
        load_results(written.path).curve(run, "ap")
    path.unlink()
    with pytest.raises(CorruptBundleError, match="cannot be used"):
        load_results(written.path).curve(run, "ap")


def test_the_newest_record_of_a_setting_counts_and_success_before_failure(written):
    written.add(ap=[0.1], finished=1.0)
    written.add(ap=[0.2], finished=3.0)
    written.add(ap=[0.3], finished=2.0)
    written.add(status="failed", finished=4.0)
    results = load_results(written.path)
    assert [run.row["map_all"] for run in results.results] == pytest.approx([0.2, 0.2])
    assert results.failures == []
    assert results.n_skipped == 3


def test_runs_of_two_folders_are_combined_by_copying_them(written, tmp_path):
    written.add("dch")
    theirs = type(written)(tmp_path / "theirs")
    theirs.add("cvh", ap=[0.25, 0.5])
    for folder in ("runs", "curves"):
        shutil.copytree(theirs.path / folder, written.path / folder, dirs_exist_ok=True)
    results = load_results(written.path)
    by_label = {run.label: run for run in results.results}
    np.testing.assert_array_equal(results.average_precisions(by_label["cvh"]), [0.25, 0.5])
    assert set(by_label) == {"dch", "cvh"}


def test_results_come_from_the_records_and_not_from_the_table(written):
    written.add()
    before = load_results(written.path).results
    assert before
    (written.path / "results.csv").write_text("no table at all")
    assert load_results(written.path).results == before


def test_a_run_has_its_curves_size_and_kind(written):
    written.add("dch", ap=[0.25, 0.75])
    written.add("label-ridge rbf", params={"ridge": 1.0}, n_components_requested=None)
    written.add("acqh-paper", params={"n_codebooks": 4, "n_components": 16},
                n_components_requested=None, bytes_requested=None)  # fmt: skip
    results = load_results(written.path)
    by_label = {run.label: run for run in results.results}
    np.testing.assert_array_equal(results.average_precisions(by_label["dch"]), [0.25, 0.75])
    sizes = {label: run.n_bytes for label, run in by_label.items()}
    assert sizes == {"dch": 4, "label-ridge rbf": None, "acqh-paper": 4}
    kinds = {label: run.kind for label, run in by_label.items()}
    assert kinds == {"dch": "baseline", "label-ridge rbf": "trivial", "acqh-paper": "ours"}


def test_deviation_is_that_of_a_sample_and_none_for_one_value():
    assert summarise([0.3]).std is None
    assert summarise([1, 2, 6]).std == pytest.approx(np.std([1, 2, 6], ddof=1))


@pytest.mark.parametrize("changed", ["data_sha256", "code"])
def test_results_of_older_data_and_code_are_skipped(written, changed):
    old = {written.add("dch", **{changed: "old"}, seed=seed) for seed in (0, 1)}
    key = written.add("dch", **{changed: "new"}, seed=0)
    results = load_results(written.path)
    assert {run.record["key"] for run in results.results} == {key}
    assert results.n_skipped == 2
    written.store.write_plan({"keys": [*old]})
    assert {run.record["key"] for run in load_results(written.path).results} == old


def test_of_two_numbers_of_threads_that_of_the_last_plan_counts(written):
    keys = [written.add("dch", n_threads=number) for number in (1, 2)]
    for key in keys:
        written.store.write_plan({"keys": [key]})
        results = load_results(written.path)
        assert {run.record["key"] for run in results.results} == {key}
        assert results.n_skipped == 1
