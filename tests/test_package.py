import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import acqh

ROOT = Path(__file__).resolve().parents[1]
STUB = ast.parse((ROOT / "src" / "acqh" / "__init__.pyi").read_text())
HOMES = {
    alias.name: node.module
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
ROOMS = sorted(name for name, home in HOMES.items() if home == "acqh" and name != "serve")
NAMES = {name: home for name, home in HOMES.items() if home != "acqh"}


def test_every_public_name_can_be_loaded():
    for name in acqh.__all__:
        assert getattr(acqh, name) is not None


def test_the_room_that_needs_an_extra_is_reached_but_not_star_imported():
    assert acqh.serve is importlib.import_module("acqh.serve")
    assert "serve" in dir(acqh)
    assert "serve" not in acqh.__all__


def test_rooms_export_names_that_exist():
    for room in ROOMS:
        module = importlib.import_module(f"acqh.{room}")
        names = getattr(module, "__all__", [])
        for name in names:
            assert hasattr(module, name), f"{room}.{name}"


def test_no_module_hides_a_name_that_is_loaded_on_first_use():
    for stub in (ROOT / "src" / "acqh").rglob("__init__.pyi"):
        room = ".".join(stub.parent.relative_to(ROOT / "src").parts)
        modules = {path.stem for path in stub.parent.iterdir()}
        names = set(importlib.import_module(room).__all__)
        assert names & modules <= ({*ROOMS, "errors"} if room == "acqh" else set())


def test_importing_acqh_loads_no_heavy_package():
    code = (
        "import sys, acqh; heavy = {'numba', 'sklearn', 'torch', 'matplotlib', 'pyarrow'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _pins(text):
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s\\]+)", text, flags=re.MULTILINE))


def test_everything_that_gets_installed_is_pinned_and_has_hashes():
    constraints = _pins((ROOT / "constraints.txt").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    assert _pins(lock) == constraints
    entries = lock.replace("\\\n", " ").splitlines()[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"], "pip"]
    for several in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        wanted += [each for names in several.values() for each in names if isinstance(each, str)]
    names = {re.match(r"[\w.-]+", each)[0].lower().replace("_", "-") for each in wanted}
    assert names - {"acqh"} <= constraints.keys()


def test_the_makefile_installs_nothing_without_its_pin():
    recipes = (ROOT / "Makefile").read_text()
    installs = [line for line in recipes.splitlines() if "$(PIP) install" in line]
    assert installs
    for line in installs:
        assert "--constraint" in line or "--require-hashes" in line or "--no-deps" in line
    assert "export PIP_BUILD_CONSTRAINT := constraints.txt" in recipes


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    listed, room = set(), ""
    for line in pages.splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            room = match[1]
        elif match := re.fullmatch(r" {3}(\w+)", line):
            listed.add(f"{room}.{match[1]}")
        elif match := re.fullmatch(r"\.\. (?:auto\w+|py:data):: (\S+)", line):
            listed.add(match[1] if match[1].startswith("acqh.") else f"{room}.{match[1]}")
    public = {f"acqh.{name}" for name in NAMES}
    for path in (ROOT / "src" / "acqh").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        name = name.removesuffix(".__init__")
        if "__all__" in path.read_text() and "._" not in name and name != "acqh":
            # What a module of a room exports is listed with the room.
            room = ".".join(name.split(".")[:2])
            public |= {f"{room}.{each}" for each in importlib.import_module(name).__all__}
    assert {f"acqh.{name}" for name in ROOMS} <= {each.rpartition(".")[0] for each in public}
    # What `import acqh` gives directly is listed there, not in its room again.
    homes = {f"{home}.{name}" for name, home in NAMES.items()}
    homes |= {f"acqh.{home.split('.')[1]}.{name}" for name, home in NAMES.items()}
    assert sorted(public - listed - homes) == []
