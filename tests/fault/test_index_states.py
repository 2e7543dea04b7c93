"""Indexes that change, are saved and loaded, while file operations fail at random."""

import errno
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import acqh
from acqh import CodeIndex, HammingIndex
from acqh._core import files as _files
from acqh.errors import DuplicateIdError, UnknownIdError
from acqh.io import verify_bundle

CODEBOOKS = np.round(np.random.default_rng(0).standard_normal((2, 4, 3)) * 2)
OPERATIONS = ("create", "write", "sync", "rename", "sync_directory", "names", "unlink")
seeds = st.integers(0, 2**32 - 1)
numbers = st.lists(st.integers(0, 40), unique=True, max_size=8)


class FailAt:
    """Let file operations fail from the n-th on, as if the process had been killed."""

    def __init__(self, n):
        self.left = n

    def wrap(self, original):
        def operation(*arguments):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, "Input/output error")
            return original(*arguments)

        return operation

    def __enter__(self):
        self.patches = [
            mock.patch.object(_files, name, self.wrap(getattr(_files, name))) for name in OPERATIONS
        ]
        for patch in self.patches:
            patch.start()

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


class SavedIndexMachine(RuleBasedStateMachine):
    """An index, a dictionary of its items, and a dictionary of what the disk should hold."""

    @initialize(binary=st.booleans(), texts=st.booleans())
    def start(self, binary, texts):
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "index.acqh"
        self.index = HammingIndex(6) if binary else CodeIndex(CODEBOOKS)
        self.binary, self.texts = binary, texts
        self.items, self.on_disk = {}, None
        self.open_before = []

    def teardown(self):
        shutil.rmtree(self.folder)

    def name(self, number):
        return f"é{number}" if self.texts else number

    def draw_codes(self, seed, n):
        rng = np.random.default_rng(seed)
        if self.binary:
            return np.packbits(rng.integers(2, size=(n, 6)), axis=1)
        return rng.integers(4, size=(n, 2), dtype=np.uint8)

    @rule(numbers=numbers, seed=seeds)
    def upsert(self, numbers, seed):
        ids = [self.name(number) for number in numbers]
        codes = self.draw_codes(seed, len(ids))
        self.index.upsert(codes, ids)
        for identifier in ids:
            self.items.pop(identifier, None)
        self.items.update(zip(ids, codes.tolist(), strict=True))

    @rule(numbers=numbers, seed=seeds)
    def add(self, numbers, seed):
        ids = [self.name(number) for number in numbers]
        codes = self.draw_codes(seed, len(ids))
        if set(ids) & set(self.items):
            with pytest.raises(DuplicateIdError):
                self.index.add(codes, ids)
        else:
            self.index.add(codes, ids)
            self.items.update(zip(ids, codes.tolist(), strict=True))

    @rule(numbers=numbers)
    def remove(self, numbers):
        ids = [self.name(number) for number in numbers]
        if set(ids) <= set(self.items):
            self.index.remove(ids)
            for identifier in ids:
                del self.items[identifier]
        else:
            with pytest.raises(UnknownIdError):
                self.index.remove(ids)

    @rule()
    def save(self):
        self.index.save(self.path)
        self.on_disk = dict(self.items)

    @rule(n=st.integers(0, 24))
    def save_and_fail(self, n):
        try:
            with FailAt(n):
                self.index.save(self.path)
        except OSError:
            # The old or the new state, whole.
            result = None
            if (self.path / "manifest.json").exists():
                result = self.contents(acqh.load(self.path))
            assert result in (self.listed(self.on_disk), self.listed(self.items))
            self.on_disk = None if result is None else dict(result)
        else:
            self.on_disk = dict(self.items)

    @precondition(lambda self: self.on_disk is not None)
    @rule(mmap=st.booleans(), verify=st.booleans())
    def load(self, mmap, verify):
        # What was open stays as it was, whatever is saved over it later.
        self.open_before.append((self.index, self.items))
        self.index = type(self.index).load(self.path, mmap=mmap, verify=verify)
        self.items = dict(self.on_disk)

    @rule(k=st.integers(1, 12), seed=seeds)
    def search(self, k, seed):
        query = np.random.default_rng(seed).integers(-2, 3, (1, 6 if self.binary else 3))
        result = self.index.search(query.astype(float), k)
        vectors = [self.index.reconstruct(identifier) for identifier in self.items]
        scores = (np.array(vectors).reshape(-1, query.shape[1]) @ query[0]).tolist()
        ranked = sorted(zip(scores, self.items, strict=True), key=lambda pair: -pair[0])[:k]
        n = result.counts[0]
        assert result.ids[0, :n].tolist() == [identifier for _, identifier in ranked]
        assert result.scores[0, :n].tolist() == [score for score, _ in ranked]

    @invariant()
    def the_index_holds_the_items(self):
        assert self.contents(self.index) == self.listed(self.items)

    @invariant()
    def the_saved_index_is_on_disk(self):
        if self.on_disk is not None:
            assert verify_bundle(self.path).ok
            assert self.contents(acqh.load(self.path)) == self.listed(self.on_disk)

    @invariant()
    def open_indexes_are_unchanged(self):
        for index, items in self.open_before:
            assert self.contents(index) == self.listed(items)

    @staticmethod
    def contents(index):
        return list(zip(index.ids.tolist(), index.codes.tolist(), strict=True))

    @staticmethod
    def listed(items):
        return None if items is None else list(items.items())


SavedIndexMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
test_saved_indexes_survive_any_history = SavedIndexMachine.TestCase
