"""Stored bundles stay readable and give the same results."""

import json
from pathlib import Path

import numpy as np
import pytest

import acqh
from acqh.io import verify_bundle

SAVED = sorted(Path(__file__).parent.glob("bundles/*/*.acqh"))


def test_golden_bundles_exist():
    assert {path.stem for path in SAVED} == {"lists", "grouped", "hamming"}


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_bundle_gives_the_answers_it_gave_when_it_was_saved(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    assert verify_bundle(path).ok
    index = acqh.load(path)
    type(index).load(path, mmap=False, verify=True)
    assert index.ids.tolist() == expected["ids"]
    assert index.codes.tolist() == expected["codes"]
    result = index.search(np.array(expected["queries"]), 10)
    assert result.ids.tolist() == expected["found"]
    assert result.scores.tolist() == expected["scores"]
