import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import acqh

ROOT = Path(__file__).resolve().parents[1]
STUB = ast.parse((ROOT / "src" / "acqh" / "__init__.pyi").read_text())
HOMES = {
    alias.name: node.module
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
SUBPACKAGES = sorted(name for name, home in HOMES.items() if home == "acqh" and name != "serve")
NAMES = {name: home for name, home in HOMES.items() if home != "acqh"}


def test_every_public_name_can_be_loaded():
    for name in acqh.__all__:
        assert getattr(acqh, name) is not None


def test_a_subpackage_with_an_extra_is_public_but_not_star_imported():
    assert acqh.serve is importlib.import_module("acqh.serve")
    assert "serve" in dir(acqh)
    assert "serve" not in acqh.__all__


def test_rooms_export_names_that_exist():
    for subpackage in SUBPACKAGES:
        module = importlib.import_module(f"acqh.{subpackage}")
        names = getattr(module, "__all__", [])
        for name in names:
            assert hasattr(module, name), f"{subpackage}.{name}"


def test_no_module_hides_a_name_that_is_loaded_on_first_use():
    for stub in (ROOT / "src" / "acqh").rglob("__init__.pyi"):
        subpackage = ".".join(stub.parent.relative_to(ROOT / "src").parts)
        modules = {path.stem for path in stub.parent.iterdir()}
        names = set(importlib.import_module(subpackage).__all__)
        assert names & modules <= ({*SUBPACKAGES, "errors"} if subpackage == "acqh" else set())


def test_importing_acqh_loads_no_heavy_package():
    code = (
        "import sys, acqh; heavy = {'numba', 'sklearn', 'torch', 'matplotlib', 'pyarrow'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_measuring_a_method_does_not_load_compiled_search():
    modules = "import sys, acqh.bench.running.evaluate"
    code = f"{modules}; print('acqh.index.compiled.search' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def _pins(text):
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s\\]+)", text, flags=re.MULTILINE))


def test_everything_that_gets_installed_is_pinned_and_has_hashes():
    constraints = _pins((ROOT / "constraints.txt").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    assert _pins(lock) == constraints
    entries = lock.replace("\\\n", " ").splitlines()[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        "pip",
    ]
    for several in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        requirements += [
            name for names in several.values() for name in names if isinstance(name, str)
        ]
    names = {
        re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
        for requirement in requirements
    }
    assert names - {"acqh"} <= constraints.keys()


def test_the_makefile_installs_nothing_without_its_pin():
    recipes = (ROOT / "Makefile").read_text()
    installs = [line for line in recipes.splitlines() if "$(PIP) install" in line]
    assert installs
    for line in installs:
        assert "--constraint" in line or "--require-hashes" in line or "--no-deps" in line
    assert "export PIP_BUILD_CONSTRAINT := constraints.txt" in recipes


def _public_names():
    """Yield every public name: where it is exported, and what it is."""
    for path in ("acqh", *(f"acqh.{subpackage}" for subpackage in (*SUBPACKAGES, "serve"))):
        module = importlib.import_module(path)
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)) and not name.startswith("_"):
                yield f"{path}.{name}", getattr(module, name)


def test_the_reference_lists_exactly_the_public_names():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    listed, subpackage = set(), ""
    for line in pages.splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            subpackage = match[1]
        elif match := re.fullmatch(r" {3}(\w+)", line):
            listed.add(f"{subpackage}.{match[1]}")
        elif match := re.fullmatch(r"\.\. auto\w+:: (acqh\.errors\.\S+)", line):
            listed.add(match[1])
    public = dict(_public_names())
    # What `import acqh` gives directly is listed there, not in its subpackage again.
    at_the_top = [value for name, value in public.items() if name.count(".") == 1]
    expected = {
        name
        for name, value in public.items()
        if name.count(".") == 1 or not any(value is top for top in at_the_top)
    }
    assert listed == expected


def test_every_public_name_has_an_example():
    public = {name: value for name, value in _public_names() if not name.startswith("acqh.errors.")}
    assert [name for name, value in public.items() if ">>>" not in (value.__doc__ or "")] == []


def test_few_names_are_public():
    assert len(NAMES) <= 15
    assert len(acqh.collection.__all__) <= 11


def test_load_returns_the_kind_that_is_expected_or_raises(tmp_path):
    acqh.HammingIndex(8).add([[7], [9]]).save(tmp_path / "bits.acqh")
    assert len(acqh.load(tmp_path / "bits.acqh", acqh.HammingIndex)) == 2
    with pytest.raises(acqh.errors.InvalidInputError, match="HammingIndex"):
        acqh.load(tmp_path / "bits.acqh", acqh.CodeIndex)
