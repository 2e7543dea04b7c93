"""Significance tests: whether a method differs from the best baseline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.runtime import check_rng
from acqh.bench.report.results import Grid, Result, Results, RowId, summarise
from acqh.errors import InvalidInputError

Verdict = Literal["better", "worse", "even"]

_LEVEL = 0.05
# Up to this many pairs the test enumerates all sign flips; 2^13 is close to _N_FLIPS.
_MAX_EXACT = 13
_N_FLIPS = 9_999
# Flips are drawn in blocks of about this many signs.
_BLOCK_SIGNS = 1 << 23
# Relative to the sum of absolute differences.
_SLACK = 1e-7

NOTE = (
    "▲ better, ▼ worse than the best baseline of the column, no sign: no significant difference. "
    "The best baseline itself is compared with the second; trivial baselines and ACQH do not count "
    "as baselines. Paired randomization test on the average precisions (@all) of all queries, "
    "pooled over seeds, with Holm's correction for the rows of the column, level 5 %. An item that "
    "is a query in several splits counts once per split."
)


def verdicts(grid: Grid, results: Results) -> Mapping[tuple[RowId, int], tuple[Verdict, float]]:
    """Return a verdict and its corrected p-value for every value with a baseline to compare.

    `results` has the average precisions of the queries.
    """
    n_columns = len(next(iter(grid.values()), ()))
    columns = [dict(_differences(grid, number, results)) for number in range(n_columns)]
    samples = [sample for column in columns for sample in column.values()]
    left = iter(_p_values(samples))
    decided: dict[tuple[RowId, int], tuple[Verdict, float]] = {}
    for number, column in enumerate(columns):
        corrected = holm([next(left) for _ in column])
        for (row, sample), p_value in zip(column.items(), corrected.tolist(), strict=True):
            better: Verdict = "better" if sample.sum() > 0 else "worse"
            decided[row, number] = "even" if p_value > _LEVEL else better, p_value
    return decided


def _differences(grid: Grid, number: int, results: Results) -> Iterator[tuple[RowId, Floats]]:
    column = {row: line[number] for row, line in grid.items() if line[number]}
    means = {
        row: summarise(result.row["map_all"] for result in same).mean
        for row, same in column.items()
    }
    baselines = [row for row, same in column.items() if same[0].kind == "baseline"]
    baselines.sort(key=lambda row: -means[row])
    for row in means:
        others = [name for name in baselines if name != row]
        if others:
            yield row, _paired(column[row], column[others[0]], results)


def _paired(first: Sequence[Result], second: Sequence[Result], results: Results) -> Floats:
    """Return the differences of all queries of the common splits."""
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


def paired_p_values(differences: Floats) -> Floats:
    """Return two-sided p-values of the paired randomization test.

    Under the null hypothesis each query's difference has either sign with equal probability. The
    p-value is the share of all choices of signs whose mean difference is at least as far from 0
    as the observed one. With more than 13 pairs, the test draws 9,999 random choices and adds the
    observed one.

    `differences`: (n_pairs, n_tests), one column per comparison; all use the same flips. Returns
    (n_tests,) float64, 1 without pairs. Raises InvalidInputError if the differences are not a
    finite matrix.

    Examples
    --------
    >>> float(paired_p_values([[1.0], [2.0], [3.0], [4.0]])[0])
    0.125
    """
    differences = np.asarray(differences, dtype=np.float64)
    if differences.ndim != 2 or not np.isfinite(differences).all():
        raise InvalidInputError("differences must be a finite matrix of pairs and tests")
    n_pairs, n_tests = differences.shape
    if not n_pairs:
        return np.ones(n_tests)
    # Equal sums may differ in their last bits, and large tests use single precision.
    slack = _SLACK * np.abs(differences).sum(axis=0)
    observed = np.abs(differences.sum(axis=0)) - slack
    if n_pairs <= _MAX_EXACT:
        bits = np.arange(2**n_pairs)[:, None] >> np.arange(n_pairs) & 1
        sums = (1.0 - 2.0 * bits) @ differences
        return np.asarray(np.mean(np.abs(sums) >= observed, axis=0))
    rng = check_rng(0)
    as_extreme = np.ones(n_tests)
    size = max(1, _BLOCK_SIGNS // n_pairs)
    single = differences.astype(np.float32)
    for start in range(0, _N_FLIPS, size):
        sums = _draw_signs(rng, min(size, _N_FLIPS - start), n_pairs) @ single
        as_extreme += np.count_nonzero(np.abs(sums) >= observed, axis=0)
    return as_extreme / (_N_FLIPS + 1)


def _draw_signs(rng: np.random.Generator, n_flips: int, n_pairs: int) -> Floats:
    drawn = np.frombuffer(rng.bytes(n_flips * -(-n_pairs // 8)), dtype=np.uint8)
    bits = np.unpackbits(drawn.reshape(n_flips, -1), axis=1, count=n_pairs)
    return 1.0 - 2.0 * bits.astype(np.float32)


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Return p-values corrected for their number by Holm's step-down rule.

    `p_values`: (n_tests,). Returns (n_tests,) float64; rejecting those up to alpha bounds the
    probability of any false rejection by alpha.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p_values[order]))
    return corrected
