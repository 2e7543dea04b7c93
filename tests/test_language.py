"""``tools/check_language.py`` finds rejected terms where people read them, and nowhere else."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_language.py"
Lines = Callable[[str, str], list[str]]


@pytest.fixture(scope="module")
def main() -> Callable[[], int]:
    return runpy.run_path(str(TOOL))["main"]


@pytest.fixture
def lines(main, tmp_path: Path, monkeypatch, capsys) -> Lines:
    """Return a function that writes a file and returns what the tool prints of it."""

    def check(name: str, source: str) -> list[str]:
        (tmp_path / name).write_text(source, "utf-8")
        command = [str(TOOL), "--root", str(tmp_path), "--paths", name]
        monkeypatch.setattr(sys, "argv", command)
        status = main()
        shown = capsys.readouterr().out
        assert status == (1 if shown else 0)
        return shown.splitlines()

    return check


def test_terms_in_docstrings_messages_and_comments_are_rejected(lines: Lines) -> None:
    source = '"""Say what stands out."""\nraise ValueError("the image is left out")  # a rival\n'
    kinds = [line.split(": ")[1] for line in lines("a.py", source)]
    assert sorted(kinds) == ["comment", "docstring", "message"]


def test_code_in_docstrings_and_single_strings_is_not_prose(lines: Lines) -> None:
    source = '"""Return ``stands_out``.\n\n>>> print("left out")\nleft\n"""\nMODE = "rivals"\n'
    assert lines("a.py", source) == []


def test_names_without_information_are_rejected(lines: Lines) -> None:
    source = "def rows(found):\n    return [each for each in found]\n"
    assert [line.split("'")[1] for line in lines("a.py", source)] == ["found", "each"]


def test_long_sentences_are_rejected_and_long_tables_are_not(lines: Lines) -> None:
    long = " ".join(["word"] * 41)
    (line,) = lines("a.md", f"{long}.\n\n| {long} |\n\nShort. {' '.join(['word'] * 40)}.\n")
    assert "more than 40 words" in line


def test_interface_strings_are_checked(lines: Lines) -> None:
    (line,) = lines("a.js", "show(`${n} hits stand out`);\nconst x = stands_out;\n")
    assert line.startswith("a.js:1: interface")


def test_cells_of_notebooks_are_checked(lines: Lines) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["The codes\n", "stand out."]},
        {"cell_type": "code", "source": ["found = 1"]},
    ]
    kinds = [line.split(": ")[1] for line in lines("a.ipynb", json.dumps({"cells": cells}))]
    assert kinds == ["page", "name"]


@pytest.mark.parametrize(
    "sentence",
    [
        "This room imports nothing.", "We describe images.", "Items are coded by captions.",
        "It is faster to code each item.", "The collection follows a folder.", "Rank by meaning.",
        "A manifest of images.", "The columns of an item.", "Pieces of a file are read.",
        "The table text encoder.", "Four bytes per component.", "Learn again from all items.",
        "Sorted so that ties are equal.", "The general model.", "Which is said to work.",
    ],
)  # fmt: skip
def test_the_left_column_of_the_vocabulary_is_rejected(lines: Lines, sentence: str) -> None:
    assert len(lines("a.md", sentence)) == 1
