"""An index of parts is the same whatever the parts are and however often they are read."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.errors import InvalidInputError
from acqh.scale import CodeFiles, build_index

RNG = np.random.default_rng(0)
CODEBOOKS = RNG.standard_normal((4, 256, 3))
CODES = RNG.integers(256, size=(900, 4), dtype=np.uint8)
PARTS = [(CODES[:400], None), (CODES[400:400], None), (CODES[400:], None)]


def stored(index):
    [part] = index._snapshot.parts
    return part.to_arrays()


def files_of(folder, *arrays):
    paths = [folder / f"{number}.npy" for number in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


def test_every_kind_of_parts_gives_the_same_index(tmp_path, monkeypatch):
    monkeypatch.setattr("acqh.scale.code_files._BLOCK", 70)
    turned = np.asfortranarray(CODES[400:].astype(np.int16))
    files = CodeFiles(*files_of(tmp_path, CODES[:400], turned))
    assert len(files) == 900
    assert repr(files) == "<CodeFiles: 900 items in 2 files>"
    expected = CodeIndex(CODEBOOKS).add(CODES)
    for parts in (PARTS, iter(PARTS), lambda: iter(PARTS), files):
        index = build_index(CODEBOOKS, parts)
        np.testing.assert_equal(stored(index), stored(expected))
        assert len(index.add(CODES[:1])) == 901


def test_progress_of_parts_that_are_read_once_counts_items():
    told = []
    build_index(CODEBOOKS, iter(PARTS), progress=lambda *each: told.append(each[:2]))
    assert told == [(400, None), (400, None), (900, None)]


def test_files_that_are_no_codes_are_refused(tmp_path):
    [flat] = files_of(tmp_path, CODES[:, 0])
    (tmp_path / "text.npy").write_text("codes")
    np.savez(tmp_path / "several.npz", codes=CODES)
    for path in (flat, tmp_path / "text.npy", tmp_path / "several.npz"):
        with pytest.raises(InvalidInputError, match=r"is not a \.npy file of codes"):
            CodeFiles(path)
    with pytest.raises(FileNotFoundError):
        CodeFiles(tmp_path / "none.npy")


def test_a_file_that_changes_while_it_is_indexed_is_an_error(tmp_path):
    [path] = files_of(tmp_path, CODES)
    changed = CODES.copy()
    changed[5, 2] ^= 1

    def change(done, total, text):
        if "counted" in text:
            np.save(path, changed)

    with pytest.raises(InvalidInputError, match="not the same when they were read again"):
        build_index(CODEBOOKS, CodeFiles(path), progress=change)
