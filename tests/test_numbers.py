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


def test_conflicting_values_and_numbers_without_a_command_or_page_are_found(
    tool, tmp_path, monkeypatch
):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "REGISTRY", tmp_path / "numbers.toml")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("recall 0.71, `acqh bench emoji`; see `../shared/x`\n")
    table = "```{csv-table}\n:file: data/table.csv\n```\n"
    (tmp_path / "docs" / "page.md").write_text(f"recall 0.72, `acqh bench wiki`\n{table}")
    (tmp_path / "docs" / "table.csv").write_text("0.73\n")
    (tmp_path / "docs" / "other.md").write_text("`x=0.5` and 2 ms\n")
    claim = '[[claim]]\ntext = "recall"\nvalue = "0.71"\ncommand = "acqh bench emoji"\n'
    (tmp_path / "numbers.toml").write_text(claim + "pattern = 'recall ([0-9.]+)'\n")
    first, nowhere, no_command, second = tool.check()
    assert "folder" in first
    assert "0.71" in nowhere
    assert "other.md:1: 2 ms" in no_command
    assert "0.72" in second
    results = [(page, value, command) for page, _, value, command in tool.results()]
    assert ("README.md", "0.71", "acqh bench emoji") in results
    assert ("docs/table.csv", "0.73", "acqh bench wiki") in results
