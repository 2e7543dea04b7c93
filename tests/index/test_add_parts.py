"""An index built in parts with bounded memory equals one built at once, to the byte."""

import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh import CodeIndex
from acqh.errors import DuplicateIdError, InvalidInputError
from acqh.index import parts as reading
from acqh.index import snapshot as snapshots


def arrays_of(index):
    """Return all that is stored of an index's items."""
    assert len(index._snapshot.parts) <= 1
    return [part.to_arrays() for part in index._snapshot.parts]


def assert_same(index, expected):
    np.testing.assert_equal(arrays_of(index), arrays_of(expected))
    assert index._snapshot.kind == expected._snapshot.kind
    assert index._snapshot.next_number == expected._snapshot.next_number


@st.composite
def parts_of_items(draw):
    """Codebooks, codes and ids in parts, some of them empty, and all ids, or None."""
    m, n = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3, 16, 256]))
    sizes = draw(st.lists(st.sampled_from([0, 1, 5, 60, 400]), max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = rng.integers(draw(st.integers(1, n)), size=(sum(sizes), m), dtype=np.uint8)
    if draw(st.booleans()):  # few codes, and many items of each
        codes = codes[rng.integers(1 + len(codes) // 9, size=len(codes)) % max(len(codes), 1)]
    kind = draw(st.sampled_from(["none", "running", "numbers", "texts"]))
    ids = {
        "none": None,
        "running": np.arange(7, 7 + len(codes)),
        "numbers": rng.permutation(3 * len(codes))[: len(codes)],
        "texts": [f"item {number}" for number in rng.permutation(len(codes))],
    }[kind]
    bounds = np.cumsum([0, *sizes]).tolist()
    parts = [
        (codes[start:stop], None if ids is None else ids[start:stop])
        for start, stop in pairwise(bounds)
    ]
    return rng.standard_normal((m, n, 2)), parts, codes, ids


@given(case=parts_of_items(), block=st.sampled_from([1, 7, 1000]))
def test_parts_give_the_index_of_all_items_at_once(case, block):
    codebooks, parts, codes, ids = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_BLOCK", block)
        index = CodeIndex(codebooks).add_parts(parts)
    expected = CodeIndex(codebooks).add(codes, ids if len(codes) else None)
    assert_same(index, expected)


@given(case=parts_of_items())
def test_parts_are_appended_to_existing_items(case):
    codebooks, parts, codes, _ = case
    first = np.zeros((3, len(codebooks)), dtype=np.uint8)
    index = CodeIndex(codebooks).add(first).add_parts([(part, None) for part, _ in parts])
    assert index.ids.tolist() == list(range(3 + len(codes)))
    np.testing.assert_array_equal(index.codes, np.concatenate([first, codes]))


def test_parts_without_ids_are_numbered_after_the_largest_so_far():
    parts = [([[0]], None), ([[1]], [10]), ([[1]], None)]
    assert CodeIndex(np.eye(2)[None]).add_parts(parts).ids.tolist() == [0, 10, 11]


class Changing:
    """Parts that are others at the second reading."""

    def __init__(self, first, second):
        self.readings = [first, second]

    def __iter__(self):
        return iter(self.readings.pop(0))


CODES = np.random.default_rng(0).integers(256, size=(500, 4), dtype=np.uint8)
CODEBOOKS = np.random.default_rng(1).standard_normal((4, 256, 2))


def changed(place, codeword):
    codes = CODES.copy()
    codes[place] = codeword
    return codes


@pytest.mark.parametrize(
    "second",
    [
        [],
        [(CODES[1:], None)],
        [(CODES, None), (CODES[:1], None)],
        [(CODES[::-1], None)],
        [(changed((3, 0), CODES[3, 0] ^ 1), None)],
        [(changed((3, 3), CODES[3, 3] ^ 1), None)],
    ],
    ids=["none", "fewer", "more", "other order", "another prefix", "another suffix"],
)
def test_parts_that_change_between_the_readings_are_an_error(second):
    index = CodeIndex(CODEBOOKS).add(CODES[:3])
    with pytest.raises(InvalidInputError, match="changed"):
        index.add_parts(Changing([(CODES, None)], second))
    assert len(index) == 3


def test_parts_that_cannot_be_added_change_nothing():
    index = CodeIndex(CODEBOOKS).add(CODES[:3])
    small = CodeIndex(CODEBOOKS[:, :100]).add(np.zeros((1, 4), dtype=np.uint8))
    for error, match, parts in [
        (DuplicateIdError, "id 7", [(CODES[:1], [7]), (CODES[:1], [7])]),
        (DuplicateIdError, "id 1", [(CODES[:1], [1])]),
        (InvalidInputError, "numbers", [(CODES[:1], ["a"])]),
        (InvalidInputError, "2 ids", [(CODES[:1], [8, 9])]),
        (InvalidInputError, "-1 cannot be an id", [(CODES[:1], [-1])]),
        (InvalidInputError, "codes have shape", [(CODES, None), (CODES[:, :3], None)]),
        (InvalidInputError, "codes have shape", [(CODES[0], None)]),
        (InvalidInputError, "whole numbers", [(CODES * 0.5, None)]),
        (InvalidInputError, "iterator", iter([(CODES, None)])),
    ]:
        with pytest.raises(error, match=match):
            index.add_parts(parts)
        assert index.ids.tolist() == [0, 1, 2]
    with pytest.raises(InvalidInputError, match="codeword"):
        small.add_parts([(CODES, None)])
    assert len(small) == 1


@pytest.mark.slow
def test_too_many_items_for_row_numbers_are_rejected(monkeypatch):
    assert snapshots.MAX_ROWS == 2**32 - 1
    monkeypatch.setattr(snapshots, "MAX_ROWS", 600)
    index = CodeIndex(CODEBOOKS).add(CODES)
    for add in (lambda: index.add(CODES), lambda: index.add_parts([(CODES, None)])):
        with pytest.raises(InvalidInputError, match="at most 600 items"):
            add()


def test_ids_that_count_up_through_all_parts_are_not_stored():
    parts = [(CODES, np.arange(9 + start, 509 + start)) for start in (0, 500, 1000)]
    index = CodeIndex(CODEBOOKS).add_parts(parts)
    assert index.memory_bytes == index._snapshot.parts[0].nbytes
    joined = CodeIndex(CODEBOOKS).add(*parts[0]).add(*parts[1]).add(*parts[2])
    assert all(part.ids.nbytes == 0 for part in joined._snapshot.parts)


def test_progress_reports_every_part_in_both_passes():
    events = []
    CodeIndex(CODEBOOKS).add_parts(
        [(CODES[:100], None), (CODES[100:], None)], progress=lambda *event: events.append(event)
    )
    assert events == [
        (50, None, "100 items counted"),
        (250, None, "500 items counted"),
        (300, 500, "100 items indexed"),
        (500, 500, "500 items indexed"),
    ]


MEMORY = """
    import sys
    import numpy as np
    from acqh import CodeIndex

    def memory(name):
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))

    class Parts:
        def __init__(self, n, n_codes):
            self.n, self.n_codes = n, n_codes
        def __iter__(self):
            for start in range(0, self.n, 50_000):
                rng = np.random.default_rng(start)
                codewords = rng.integers(self.n_codes, size=(50_000, 1), dtype=np.uint32)
                codewords *= np.uint32(2654435761)
                yield codewords.view(np.uint8), np.arange(start, start + 50_000)

    codebooks = np.zeros((4, 256, 2))
    for n_codes in (2**32, 2000):
        CodeIndex(codebooks).add_parts(Parts(100_000, n_codes))  # compiles
    n = 2_000_000
    for n_codes in (2**32, 2000):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts again from here
        before = memory("VmRSS")
        index = CodeIndex(codebooks).add_parts(Parts(n, n_codes))
        assert len(index._snapshot.parts) == 1 and len(index) == n
        print((memory("VmHWM") - before) / n)
        del index
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_building_takes_at_most_14_bytes_an_item():
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY)], check=True, capture_output=True, text=True
    )
    for peak in map(float, run.stdout.split()):
        # A megabyte or two of blocks, whatever the number of items, is in this too.
        assert peak < 14, run.stdout
