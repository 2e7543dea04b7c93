"""An index of parts is the same for every division into parts."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.errors import InvalidInputError
from acqh.scale import build_index

RNG = np.random.default_rng(0)
CODEBOOKS = RNG.standard_normal((4, 256, 3))
CODES = RNG.integers(256, size=(900, 4), dtype=np.uint8)
PARTS = [(CODES[:400], None), (CODES[400:400], None), (CODES[400:], None)]


def stored(index):
    [part] = index._snapshot.parts
    return part.to_arrays()


def test_every_kind_of_parts_gives_the_same_index(tmp_path):
    np.save(tmp_path / "first.npy", CODES[:400])
    np.save(tmp_path / "last.npy", np.asfortranarray(CODES[400:].astype(np.int16)))
    files = [(np.load(tmp_path / f"{name}.npy", mmap_mode="r"), None) for name in ("first", "last")]
    expected = CodeIndex(CODEBOOKS).add(CODES)
    for parts in (PARTS, lambda: iter(PARTS), files):
        index = build_index(CODEBOOKS, parts)
        np.testing.assert_equal(stored(index), stored(expected))
        assert len(index.add(CODES[:1])) == 901


def test_an_iterator_is_rejected():
    with pytest.raises(InvalidInputError, match="once"):
        build_index(CODEBOOKS, iter(PARTS))


def test_a_file_that_changes_while_it_is_indexed_is_an_error(tmp_path):
    changed = CODES.copy()
    changed[5, 2] ^= 1
    parts = [(CODES, None)]

    def change(done, total, text):
        if "counted" in text:
            parts[0] = (changed, None)

    with pytest.raises(InvalidInputError, match="changed"):
        build_index(CODEBOOKS, parts, progress=change)
