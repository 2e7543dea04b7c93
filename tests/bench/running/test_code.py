"""The fingerprint of a method's code follows what it computes with, and nothing else."""

import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from acqh.bench.running._code import _read, fingerprint_code
from acqh.errors import InvalidInputError
from acqh.methods import CVH, DCH, DDCMH


def test_methods_have_fingerprints_of_their_own():
    assert len({fingerprint_code(cls) for cls in (CVH, DCH, DDCMH)}) == 3


def load(path, text):
    path.write_text(text)
    fingerprint_code.cache_clear()
    _read.cache_clear()
    spec = spec_from_file_location("changing", path)
    module = module_from_spec(spec)
    sys.modules["changing"] = module
    spec.loader.exec_module(module)
    return fingerprint_code(module.Mine)


def test_code_counts_and_comments_and_docstrings_do_not(tmp_path):
    path = tmp_path / "changing.py"
    first = load(path, "class Mine:\n    x = 1\n")
    told = '"""Says more."""\n\n\nclass Mine:\n    """A class."""\n\n    x = 1  # one\n'
    assert load(path, told) == first
    assert load(path, "class Mine:\n    x = 2\n") != first
    del sys.modules["changing"]


def test_what_is_imported_counts(tmp_path):
    path = tmp_path / "changing.py"
    first = load(path, "from acqh.quantize import decode\n\n\nclass Mine:\n    pass\n")
    second = load(path, "from acqh.quantize import search_codes\n\n\nclass Mine:\n    pass\n")
    assert first != second
    del sys.modules["changing"]


def test_a_class_without_source_is_refused():
    with pytest.raises(InvalidInputError, match="source of Typed cannot be found"):
        fingerprint_code(type("Typed", (), {"__module__": "nowhere"}))
