import numpy as np
import pytest
import scipy.stats

from acqh.bench.report.results import load_results
from acqh.bench.report.tables import compare, letter, slug

RNG = np.random.default_rng(0)
NOISE = RNG.normal(0, 0.05, 60)


def first_column(table):
    """Return the entries of the first column by label."""
    return {row.label: row.entries[0] for row in table.rows}


def test_a_value_is_the_mean_and_deviation_over_seeds(written):
    for seed, value in enumerate([0.3, 0.4, 0.8]):
        written.add("dch", ap=[value], seed=seed)
    (comparisons,) = compare(load_results(written.path))
    entry = first_column(comparisons.tables[0])["dch"]
    assert entry.summary.mean == pytest.approx(0.5)
    assert entry.summary.std == pytest.approx(np.std([0.3, 0.4, 0.8], ddof=1))
    assert entry.summary.n == 3
    assert [table.quantity.column for table in comparisons.tables] == [
        "map_all", "map_50", "map_100", "fit_seconds", "query_seconds",
    ]  # fmt: skip


def test_a_trivial_baseline_that_is_best_is_marked_as_best(written):
    for label, value in (("acqh", 0.5), ("dch", 0.4), ("cvh", 0.3), ("label-ridge", 0.9)):
        written.add(label, ap=[value])
    table = compare(load_results(written.path))[0].tables[0]
    places = {label: entry.place for label, entry in first_column(table).items()}
    assert places == {"label-ridge": 1, "acqh": 2, "dch": 0, "cvh": 0}
    assert [row.label for row in table.rows] == ["acqh", "dch", "cvh", "label-ridge"]


def test_what_a_row_follows_is_its_source_or_that_it_is_trivial(written):
    for label in ("acqh", "fdch", "label-ridge", "random"):
        written.add(label)
    rows = compare(load_results(written.path))[0].tables[0].rows
    follows = {row.label: row.follows for row in rows}
    assert follows == {
        "acqh": "paper", "fdch": "reconstructed",
        "label-ridge": "trivial baseline", "random": "trivial baseline",
    }  # fmt: skip


def test_less_time_is_better(written):
    written.add("dch", row={"fit_seconds": 3.0})
    written.add("cvh", row={"fit_seconds": 2.0})
    times = compare(load_results(written.path))[0].tables[3]
    assert {label: entry.place for label, entry in first_column(times).items()} == {
        "dch": 2,
        "cvh": 1,
    }
    assert len(times.columns) == 1


def test_a_method_of_fixed_size_fills_all_columns_and_shows_its_bytes(written):
    for n_bytes in (1, 4):
        written.add("dch", params={"n_bits": 8 * n_bytes}, bytes_requested=n_bytes)
    written.add("label-ridge", params={}, bytes_requested=1, row={"bytes_per_item": 40})
    table = compare(load_results(written.path))[0].tables[0]
    assert [column.name for column in table.columns] == ["1 byte", "4 bytes"] * 2
    trivial = table.rows[-1]
    assert all(entry is not None for entry in trivial.entries)
    assert "40 bytes per item in every column" in table.marks[trivial.marks[0]]


def test_fewer_bytes_than_requested_are_marked(written):
    written.add("qch", bytes_requested=16, row={"bytes_per_item": 2})
    written.add("dch", bytes_requested=16, row={"bytes_per_item": 16})
    table = compare(load_results(written.path))[0].tables[0]
    marks = {row.label: [table.marks[mark] for mark in row.marks] for row in table.rows}
    assert marks["dch"] == []
    assert "Stores 2 bytes" in marks["qch"][0]


def test_missing_seeds_are_marked(written):
    for seed in (0, 1):
        written.add("dch", seed=seed)
    written.add("cvh", seed=0)
    table = compare(load_results(written.path))[0].tables[0]
    marks = {row.label: [table.marks[mark] for mark in row.marks] for row in table.rows}
    assert "1 of 2 splits" in marks["cvh"][0]
    assert marks["dch"] == []


def test_an_unlabelled_database_has_a_table_for_each_way_to_encode_it(written):
    for database in ("single", "fused"):
        written.add("dch", protocol="unlabelled", database=database)
    written.add("dch")
    written.add("cvh", database="single")
    comparisons = compare(load_results(written.path))
    assert {comparison.name for comparison in comparisons} == {
        "fair-wiki-unlabelled-single", "fair-wiki-unlabelled-fused", "fair-wiki-labelled",
    }  # fmt: skip
    labelled = next(
        comparisons for comparisons in comparisons if comparisons.name == "fair-wiki-labelled"
    ).tables[0]
    assert labelled.names == ["method", "encoded from"]
    assert {row.encoded_from for row in labelled.rows} == {"labels", "searched view"}


def test_verdicts_are_those_of_a_paired_test_against_the_best_baseline(written):
    base = np.clip(0.5 + NOISE, 0, 1)
    written.add("dch", ap=base)
    written.add("cvh", ap=base - 0.1)
    written.add("acqh", ap=base + 0.1)
    written.add("acqh-paper", ap=base + 0.001 * np.sign(RNG.normal(size=60)))
    table = compare(load_results(written.path))[0].tables[0]
    verdicts = {label: entry.verdict for label, entry in first_column(table).items()}
    assert verdicts == {"acqh": "better", "acqh-paper": "even", "dch": "better", "cvh": "worse"}
    # The differences are equal for all queries: no flip but that of all signs is as extreme.
    assert first_column(table)["acqh"].p_value == pytest.approx(4e-4)


def test_verdicts_pool_common_seeds_and_skip_queries_without_relevant_items(written):
    rng = np.random.default_rng(1)
    first, second = rng.uniform(size=(2, 2, 200))
    first[0, 3] = np.nan
    for seed in (0, 1):
        written.add("dch", ap=first[seed], seed=seed)
        written.add("cvh", ap=second[seed], seed=seed)
    written.add("cvh", ap=np.zeros(200), seed=2)
    table = compare(load_results(written.path))[0].tables[0]
    pairs = (first - second).ravel()
    pairs = pairs[np.isfinite(pairs)]
    z = abs(pairs.sum()) / np.sqrt((pairs**2).sum())
    expected = min(1, 2 * 2 * scipy.stats.norm.sf(z))
    assert first_column(table)["dch"].p_value == pytest.approx(expected, abs=0.03)


def test_without_a_baseline_there_is_no_verdict(written):
    written.add("acqh")
    written.add("label-ridge")
    table = compare(load_results(written.path))[0].tables[0]
    assert {entry.verdict for entry in first_column(table).values()} == {None}


def test_names_for_files_are_safe_and_differ():
    assert slug("mirflickr25k") == "mirflickr25k"
    assert "/" not in slug("../../etc/passwd")
    assert slug("a b") != slug("a-b") != slug("A-b")
    assert [letter(number) for number in (0, 25, 26, 51, 52)] == ["a", "z", "aa", "az", "ba"]
