"""Every method of a table against the best baseline of its column."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from acqh._core.arrays import Floats
from acqh.bench.report.results import Results, Run, summarise
from acqh.bench.report.significance import holm, paired_p_values
from acqh.bench.report.tables import Entry, RowId, RunTable, Table, Verdict, change_entries

LEVEL = 0.05

NOTE = (
    "▲ better, ▼ worse than the best baseline of the column, no sign: not to be told apart. The "
    "best baseline itself is compared with the next; controls and ACQH's own rows are none. "
    "Paired randomisation test on the average precisions (@all) of all queries, pooled over "
    "seeds, corrected by Holm's rule for the rows of the column, level 5 %. An item that is a "
    "query in several splits counts as often."
)


def add_verdicts(table: Table, grid: RunTable, results: Results) -> Table:
    """Return the table with a verdict at every entry that a baseline can be compared with.

    The table is one of ``map_all``, made of `grid`; `results` has the average precisions of the
    queries.
    """
    found: dict[tuple[RowId, int], tuple[Verdict, float]] = {}
    pairs = [
        (row, number, differences)
        for number in range(len(grid.columns))
        for row, differences in _column_differences(grid, number, results)
    ]
    p_values = _p_values([differences for _, _, differences in pairs])
    for column in range(len(grid.columns)):
        chosen = [index for index, pair in enumerate(pairs) if pair[1] == column]
        corrected = holm([p_values[index] for index in chosen])
        for index, p_value in zip(chosen, corrected, strict=True):
            row, _, differences = pairs[index]
            found[row, column] = _verdict(differences, float(p_value)), float(p_value)

    def tell(row: RowId, number: int, entry: Entry) -> Entry:
        verdict, p_value = found.get((row, number), (None, None))
        return replace(entry, verdict=verdict, p_value=p_value)

    return change_entries(table, tell)


def _verdict(differences: Floats, p_value: float) -> Verdict:
    if p_value > LEVEL:
        return "even"
    return "better" if differences.sum() > 0 else "worse"


def _column_differences(
    grid: RunTable, number: int, results: Results
) -> Iterable[tuple[RowId, Floats]]:
    means = {
        row: summarise(run.row["map_all"] for run in runs).mean
        for row in grid.rows
        if (runs := grid.cell(row, number))
    }
    baselines = sorted(
        (row for row in means if grid.kinds[row] == "baseline"), key=lambda row: -means[row]
    )
    for row in means:
        others = [name for name in baselines if name != row]
        if others:
            pair = grid.cell(row, number), grid.cell(others[0], number)
            yield row, _paired(*pair, results)


def _paired(first: Sequence[Run], second: Sequence[Run], results: Results) -> Floats:
    """Return the differences of all queries of the splits that both were run on."""
    by_split = {run.record["split_hash"]: run for run in second}
    parts = [np.empty(0)]
    for run in first:
        other = by_split.get(run.record["split_hash"])
        if other is not None:
            differences = results.average_precisions(run) - results.average_precisions(other)
            parts.append(differences[np.isfinite(differences)])
    return np.concatenate(parts)


def _p_values(samples: Sequence[Floats]) -> Floats:
    """Test samples of one length together: drawing flips costs more than using them."""
    p_values = np.ones(len(samples))
    lengths = [len(sample) for sample in samples]
    for length in set(lengths):
        chosen = [index for index, other in enumerate(lengths) if other == length]
        matrix = np.stack([samples[index] for index in chosen], axis=1)
        p_values[chosen] = paired_p_values(matrix)
    return p_values
