"""Compiled search over the runs of a segment: pruning, scores, the best k.

An item's score adds its table entries over the codebooks from first to last, in float32. No loop
may reorder that sum (no ``fastmath``), so every path gives the same bits, on one thread or many,
and so do the NumPy twins in ``tests/index``.

Stored arrays are read without trusting their values: tables have a place for every byte, bounds of
runs are checked when a segment is made, those of lists and row numbers before they are used. So a
damaged file may give wrong answers, never a read outside an array.

What belongs together travels in named tuples, but arrays are taken out of them before the loops
over runs and items: numba counts references each time, which costs more than the work.
"""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.keys import NO_KEY, is_allowed, keep_best, keep_key, key_score, pack_key
from acqh.index.compiled.runs import (
    BINS_A_WAVE,
    MIN_GROUPED,
    N_WAVES,
    begin_heads,
    choose,
    count_heads,
    expected_misses,
    fill_head,
    forget_rows,
    head_score,
    new_heads,
    order_heads,
    run_bound,
    tail_score,
    tail_spread,
    visit_rows,
)
from acqh.index.compiled.tables import MAX_SCALE, fill_tables
from acqh.index.search.plain import NO_LIMIT, Effort, Heads, Query, Runs

# Once one part in this many was looked at, a pass in storage order is cheaper than going on.
PLAIN_PASS_PART = 4
# Entries of a run that are chosen among at a time.
_PIECE: Any = np.uint64(64)
# Codes with tails of two words that cost as much to look at as the estimate of what is missed.
_WORTH_ASKING = 4096
_NO_ENTRY: Any = np.uint64(0xFFFFFFFFFFFFFFFF)

# Waves that words are put in order for at first.
_FIRST_WAVES = 4

_LOWEST = np.float32(-np.inf)
_HIGHEST = np.float32(np.inf)
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = np.float32(2.0**-23)
_ONE = np.uint64(1)


@kernel()
def _best_entry(query: Query, heads: Heads, rest: Any) -> Any:
    """Return an entry of the highest score, that score, and if it is tied."""
    runs, after, tally = query.runs, query.after, query.tally
    starts, tails, reaches = runs.starts, runs.tails, runs.reaches
    bounds = (after[0], query.base, query.span)
    tables = query.table[runs.digits_a + runs.digits_b :]
    order_a, values_a, bounds_a = heads.order_a, heads.values_a, heads.bounds_a
    order_b, bounds_b = heads.order_b, heads.bounds_b
    n_b, deep = order_b.shape[0], tails.shape[1] >= MIN_GROUPED
    best, highest, tied = _NO_ENTRY, _LOWEST, False
    for place in range(order_a.shape[0]):
        if bounds_a[place] + bounds_b[0] < highest - rest:
            break
        a = order_a[place]
        for next_b in range(n_b):
            if values_a[a] + bounds_b[next_b] < highest - rest:
                break
            b = order_b[next_b]
            run = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            start, stop = np.uint64(starts[run]), np.uint64(starts[run + _ONE])
            head = head_score(query.table, runs, values_a[a], b)
            if start == stop or run_bound(bounds, reaches, run, head) < highest:
                continue
            for entry in range(start, stop):
                score, first = head, 0
                if deep:
                    score, first = head + tables[0, tails[entry, 0]], 1
                    if score + after[1] < highest:
                        continue
                tally[0] += 1
                score = tail_score(tables, tails, after, entry, first, score, highest)
                if score == _LOWEST:
                    continue
                tally[1] += 1
                if score >= highest:
                    tied = score == highest
                    best, highest = entry, score
    return best, highest, tied


@kernel()
def _visit_above(
    query: Query, heads: Heads, effort: Effort | None, lows: Any, done: Any, count: Any, worst: Any
) -> Any:
    """Visit the runs not yet visited whose head reaches the floor and can reach the threshold.

    Of codes with many rows, the entry `done` is left out. `lows` are the floor and what the words
    of a tail can add at most. Returns the number of keys, the worst of them, and how many entries
    the runs visited have.
    """
    floor, rest = lows
    runs, allowed, keys, k, after = query.runs, query.allowed, query.keys, query.k, query.after
    starts, tails, rows, reaches = runs.starts, runs.tails, runs.rows, runs.reaches
    bounds = (after[0], query.base, query.span)
    tables = query.table[runs.digits_a + runs.digits_b :]
    order_a, values_a, bounds_a = heads.order_a, heads.values_a, heads.bounds_a
    order_b, bounds_b, visited = heads.order_b, heads.bounds_b, heads.visited
    grouped, has_reaches = runs.gap_starts.shape[0] > 0, reaches.shape[0] > 0
    n_b, (last_a, last_b) = order_b.shape[0], (heads.ordered[0], heads.ordered[1])
    # Long tails are passed over by their first word where the others cannot make up for it.
    deep, short = tails.shape[1] >= MIN_GROUPED, tails.shape[1] == 2
    seen, given_up, left = np.int64(0), np.int64(0), NO_LIMIT
    passed, chosen = np.int64(0), np.empty(_PIECE, dtype=np.uint64)
    first_table = tables[0] if deep else query.table[0]
    limited = False
    if effort is not None:
        limited = True
        left = effort.limit - query.tally[0]
    threshold = key_score(worst)
    low = max(floor, threshold - rest)
    for place in range(last_a):
        if bounds_a[place] + bounds_b[0] < low or (limited and seen >= left):
            break
        a = order_a[place]
        next_b = visited[place]
        while next_b < last_b and values_a[a] + bounds_b[next_b] >= low:
            if limited and seen >= left:
                break
            b = order_b[next_b]
            next_b += 1
            run = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            head = head_score(query.table, runs, values_a[a], b)
            if has_reaches and run_bound(bounds, reaches, run, head) < threshold:
                continue
            start, stop = np.uint64(starts[run]), np.uint64(starts[run + _ONE])
            if start == stop:
                continue
            passed += np.int64(stop - start)
            while start < stop:
                end, n = stop, np.int64(stop - start)
                if deep:
                    end = min(start + _PIECE, stop)
                    need = (threshold - after[1]) - head
                    n = choose(chosen, first_table, tails, start, end, need)
                if n > left - seen:  # look at some, and take the run as not visited
                    n, stop = left - seen, end
                    next_b -= 1
                seen += n
                for i in range(np.uint64(n)):
                    entry = chosen[i] if deep else start + i
                    if deep:
                        score = head + tables[0, tails[entry, 0]]
                        score = tail_score(tables, tails, after, entry, 1, score, threshold)
                        given_up += score == _LOWEST
                    elif short:
                        score = (head + tables[0, tails[entry, 0]]) + tables[1, tails[entry, 1]]
                    else:
                        score = tail_score(tables, tails, after, entry, 0, head, threshold)
                    if score < threshold:
                        continue
                    if grouped:
                        if entry == done:
                            continue
                        count, worst = visit_rows(query, entry, score, count, worst)
                    elif is_allowed(allowed, rows[entry]):
                        key = pack_key(score, query.first_row + np.int64(rows[entry]))
                        count, worst = keep_key(keys, k, key, count, worst)
                    threshold = key_score(worst)
                start = end
            low = max(floor, threshold - rest)
        visited[place] = next_b
    query.tally[0] += seen
    query.tally[1] += seen - given_up
    return count, worst, passed


@kernel()
def _left_out(query: Query, heads: Heads, rest: Any, threshold: Any, ceiling: Any) -> Any:
    """Return the highest bound of the runs not visited, or `ceiling` if none reaches as high."""
    starts, reaches = query.runs.starts, query.runs.reaches
    bounds = (query.after[0], query.base, query.span)
    order_a, values_a, bounds_a = heads.order_a, heads.values_a, heads.bounds_a
    order_b, bounds_b, visited = heads.order_b, heads.bounds_b, heads.visited
    n_b = order_b.shape[0]
    for place in range(heads.ordered[0]):
        if bounds_a[place] + bounds_b[0] + rest < max(threshold, ceiling):
            break
        a = order_a[place]
        for next_b in range(visited[place], heads.ordered[1]):
            if values_a[a] + bounds_b[next_b] + rest < max(threshold, ceiling):
                break
            b = order_b[next_b]
            run = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            if starts[run] != starts[run + _ONE]:
                head = head_score(query.table, query.runs, values_a[a], b)
                bound = run_bound(bounds, reaches, run, head)
                ceiling = bound if bound > ceiling else ceiling
    return ceiling


@kernel()
def _search_one(
    query: Query, heads: Heads, rest: Any, effort: Effort | None, count: Any, worst: Any
) -> Any:
    """Visit runs in waves of falling head score until no other run can hold one of the best.

    Or until the effort is spent. Returns how many keys there are, the worst of them, and what the
    items that were left out can score at most, as far as it is no less than the worst.
    """
    n_entries = query.runs.tails.shape[0]
    limit, misses = NO_LIMIT, -1.0
    if effort is not None:
        limit, misses = effort.limit, effort.misses
    limited = limit < NO_LIMIT or misses >= 0
    plain = query.k * PLAIN_PASS_PART > query.runs.n_rows and not limited
    grouped = query.runs.gap_starts.shape[0] > 0
    high_a, high_b, spread = begin_heads(heads)
    highs, best = (high_a, high_b), high_a + high_b
    # What ends early needs few words in order; the others come behind them when it is their turn.
    reached = best - spread * np.float32(_FIRST_WAVES / N_WAVES)
    if plain or (grouped and not limited):
        reached = _LOWEST
    order_heads(heads, highs, reached, _HIGHEST, plain)
    done, last_wave, ceiling = _NO_ENTRY, N_WAVES, _LOWEST
    if grouped and not plain and not limited:
        # The rows of the best code alone may be enough, and then they leave little to look at.
        done, score, tied = _best_entry(query, heads, rest)
        if done != _NO_ENTRY:
            count, worst = visit_rows(query, done, score, count, worst)
        if worst != NO_KEY:
            if count == query.k and not tied and key_score(worst) >= score:
                return count, worst, ceiling
            last_wave = 0
    n_heads, mean, deviation = np.zeros(0, dtype=np.float64), 0.0, 1.0
    # With short tails, going on is cheaper than asking until many codes were looked at.
    worth = query.tally[0] + (_WORTH_ASKING if query.runs.tails.shape[1] <= 2 else 0)
    passed, proven = np.int64(0), False
    for wave in range(1, N_WAVES + 2):
        floor = _LOWEST
        if wave <= last_wave and not plain:
            floor = best - spread * np.float32(wave / N_WAVES)
        if floor < reached:
            order_heads(heads, highs, _LOWEST, reached, plain)
            reached = _LOWEST
        count, worst, n_passed = _visit_above(
            query, heads, effort, (floor, rest), done, count, worst
        )
        passed += n_passed
        if count >= query.k:
            count, worst = query.k, keep_best(query.keys, count, query.k)
        threshold = key_score(worst)
        if query.tally[0] >= limit:
            break
        if floor == _LOWEST or threshold - rest >= floor:
            proven = True
            break
        if misses >= 0 and worst != NO_KEY and query.tally[0] >= worth:
            if n_heads.shape[0] == 0:
                n_heads = count_heads(query, heads, best, spread)
                mean, deviation = tail_spread(query)
            width, need = spread / (N_WAVES * BINS_A_WAVE), threshold - best - mean
            if expected_misses(n_heads, wave, width, need, deviation) <= misses:
                break
        plain = not limited and passed * PLAIN_PASS_PART > n_entries
        if plain:
            # Start again, in storage order, for all that is no worse than the worst found.
            count, worst = forget_rows(query, count), worst + _ONE
            done = _NO_ENTRY
            begin_heads(heads)
            order_heads(heads, highs, _LOWEST, _HIGHEST, plain)
            reached = _LOWEST
    if effort is not None and not proven:
        ceiling = _left_out(query, heads, rest, key_score(worst), ceiling)
        if reached + rest >= max(key_score(worst), ceiling):
            order_heads(heads, highs, _LOWEST, reached, plain)
            ceiling = _left_out(query, heads, rest, key_score(worst), ceiling)
    return count, worst, ceiling


@kernel()
def search_runs(
    asked: Any,
    tables: Array,
    bounds: Any,
    runs: Runs,
    rows: Any,
    k: int,
    effort: Effort | None,
    best: Any,
) -> None:
    """Add what one segment holds of each query's k best.

    Parameters
    ----------
    asked : (words, queries)
        (n_codebooks, n_components, codebook_size) and (n_queries, n_components) float32, to fill
        tables from; no codebooks where those of all queries are filled.
    tables : (n_tables, n_codebooks, TABLE_WIDTH) float32
        Zeros, to be filled for a few queries at a time, so that they stay in the cache.
    bounds : (tops, scales, bases, spans)
        The first two as `fill_tables` fills them; queries whose scores may overflow are left out.
        A tail adds at most a query's base and its span times the reach of the run, both
        (n_queries,) float32.
    runs : Runs
        The segment.
    rows : (int, (n_bytes,) uint8)
        What to add to row numbers, and a bit for each row that may be found, lowest bit first;
        an empty array allows all.
    k : int
    effort : Effort or None
        None to go on until the answer is proven; a loop of its own is compiled for it.
    best : (keys, counts, worsts, tallies, ceilings)
        Of each query: (capacity,) uint64, the best so far in any order, see `pack_key`, with a
        capacity above k; int64, how many keys there are, at most k; uint64, a key that the k-th
        best is known not to exceed, `NO_KEY` at first; (2,) int64, raised by how many codes were
        looked at beyond what groups them, and how many scored to the last word; float32, raised
        to what an item can score that was left out.
    """
    words, queries = asked
    tops, scales, bases, spans = bounds
    keys, counts, worsts, tallies, ceilings = best
    size, n_head, n_entries = runs.codebook_size, runs.digits_a + runs.digits_b, len(runs.tails)
    first_row, allowed = rows
    heads = new_heads(size**runs.digits_a, size**runs.digits_b)
    after = np.empty(tops.shape[1] - n_head + 1, dtype=np.float32)
    has_reaches, longest = runs.reaches.shape[0] > 0, np.uint8(0)
    for run in range(runs.reaches.shape[0]):
        longest = max(longest, runs.reaches[run])
    farthest = np.float32(longest)
    for i in range(queries.shape[0]):
        place = i % tables.shape[0]
        if place == 0 and words.shape[0] > 0:
            some = slice(i, i + tables.shape[0])
            fill_tables(words, queries[some], tables, tops[some], scales[some])
        if not scales[i] < MAX_SCALE:
            continue
        table = tables[place]
        # For the rounding of bounds and of scores, a few units each a codebook.
        after[-1] = scales[i] * np.float32(2 * tops.shape[1] + 8) * _ROUNDING
        for s in range(tops.shape[1] - 1, n_head - 1, -1):
            after[s - n_head] = after[s - n_head + 1] + tops[i, s]
        fill_head(table, 0, runs.digits_a, size, heads.values_a)
        fill_head(table, runs.digits_a, runs.digits_b, size, heads.values_b)
        tally, before = tallies[i], tallies[i, 0]
        query = Query(table, after, bases[i], spans[i], runs, allowed, first_row, k, keys[i], tally)
        rest = after[0]
        if has_reaches and bases[i] + spans[i] * farthest < rest:
            rest = bases[i] + spans[i] * farthest
        counts[i], worsts[i], ceiling = _search_one(
            query, heads, rest, effort, counts[i], worsts[i]
        )
        ceilings[i] = max(ceilings[i], ceiling)
        # Some are looked at twice, once to find the best code: they count once.
        tally[0] = min(tally[0], before + n_entries)
        tally[1] = min(tally[1], tally[0])
