"""The check of numbers and commands in the documentation can fail."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "check_numbers.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("check_numbers", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("python -m benchmarks.nothing", "no command"),
        ("python -m benchmarks.paper --slow", "no option --slow"),
        ("python tools/nothing.py", "no command"),
        ("acqh serch x", "no command"),
        ("acqh datasets prepare wiki --form x", "no option --form"),
    ],
)
def test_a_command_or_option_that_does_not_exist_is_named(tool, code, problem):
    assert problem in " ".join(tool.problems_of(code, tool.commands()))


@pytest.mark.parametrize(
    "code",
    [
        "python -m benchmarks.paper --quick --data-dir DIR",
        "acqh datasets prepare wiki --from FOLDER  # --form",
        "ACQH_DATA=x acqh bench emoji --method-file a.py:B",
        "pip install acqh mteb",
        "acqh rbf",
    ],
)
def test_commands_that_exist_and_other_text_pass(tool, code):
    assert not list(tool.problems_of(code, tool.commands()))


def test_a_claim_with_two_values_is_found(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "REGISTRY", tmp_path / "numbers.toml")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("recall 0.71, `acqh bench emoji`; see `../shared/x`\n")
    (tmp_path / "docs" / "page.md").write_text("recall 0.72\n")
    claim = '[[claim]]\ntext = "recall"\nvalue = "0.71"\ncommand = "acqh bench emoji"\n'
    (tmp_path / "numbers.toml").write_text(claim + "pattern = 'recall ([0-9.]+)'\n")
    first, second = tool.check()
    assert "folder" in first
    assert "0.72" in second
    results = [(page, value, command) for page, _, value, command in tool.results()]
    assert ("README.md", "0.71", "acqh bench emoji") in results
