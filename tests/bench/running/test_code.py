"""The fingerprint of the code covers everything that results depend on."""

import re
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import acqh
from acqh.bench.running.runs import UNRELATED, digest_sources, fingerprint_code
from acqh.errors import InvalidInputError
from acqh.methods import CVH

PACKAGE = Path(acqh.__file__).parent


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the package whose files may be changed."""
    no_code = shutil.ignore_patterns("__pycache__", "*.npz", "*.safetensors")
    folder = tmp_path_factory.mktemp("copy") / "acqh"
    return shutil.copytree(PACKAGE, folder, ignore=no_code)


def where_defined(name):
    """Return the file, relative to the package, that defines a function."""
    (path,) = (
        path
        for path in PACKAGE.rglob("*.py")
        if re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
    )
    return path.relative_to(PACKAGE)


@pytest.mark.parametrize(
    "name", ["make_split", "split_rows", "measure", "mean_average_precision", "solve_spd"]
)
def test_a_change_of_splits_measures_or_data_repeats_runs(copy, name):
    before = digest_sources(copy)
    path = copy / where_defined(name)
    text = path.read_text()
    path.write_text(text.replace(f"def {name}(", f"def {name}(  # another rule\n", 1))
    assert digest_sources(copy) != before
    path.write_text(text)
    assert digest_sources(copy) == before


def test_a_change_of_the_report_repeats_nothing(copy):
    before = digest_sources(copy)
    path = copy / where_defined("render_page")
    path.write_text(path.read_text() + "\nANOTHER = True\n")
    assert digest_sources(copy) == before


def test_a_plugin_file_changes_the_fingerprint(tmp_path):
    path = tmp_path / "changing.py"

    def load(text):
        path.write_text(text)
        spec = spec_from_file_location("changing", path)
        module = module_from_spec(spec)
        sys.modules["changing"] = module
        spec.loader.exec_module(module)
        return fingerprint_code(module.Mine)

    first = load("class Mine:\n    x = 1\n")
    assert load("class Mine:\n    x = 2\n") != first
    assert first != fingerprint_code(CVH)
    del sys.modules["changing"]


def test_runs_import_no_unrelated_subpackage():
    assert all((PACKAGE / room).is_dir() for room in UNRELATED)
    apart = "|".join(room.replace("/", r"\.") for room in UNRELATED)
    bench = PACKAGE / "bench"
    for path in (bench / "protocol.py", *(bench / "running").glob("*.py")):
        assert not re.search(rf"(from|import) acqh\.({apart})\b", path.read_text()), path


def test_a_class_without_source_is_rejected():
    with pytest.raises(InvalidInputError, match="source"):
        fingerprint_code(type("Typed", (), {"__module__": "nowhere"}))
