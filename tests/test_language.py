"""``tools/check_language.py`` finds rejected terms where people read them, and nowhere else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_language.py"


def lines(folder: Path, name: str, source: str) -> list[str]:
    """Return what the tool prints of one file."""
    (folder / name).write_text(source, "utf-8")
    command = [sys.executable, str(TOOL), "--root", str(folder), "--paths", name]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == (1 if result.stdout else 0), result.stderr
    return result.stdout.splitlines()


def test_terms_in_docstrings_messages_and_comments_are_rejected(tmp_path: Path) -> None:
    source = '"""Say what stands out."""\nraise ValueError("the image is left out")  # a rival\n'
    kinds = [line.split(": ")[1] for line in lines(tmp_path, "a.py", source)]
    assert sorted(kinds) == ["comment", "docstring", "message"]


def test_code_in_docstrings_and_single_strings_is_not_prose(tmp_path: Path) -> None:
    source = '"""Return ``stands_out``.\n\n>>> print("left out")\nleft\n"""\nMODE = "rivals"\n'
    assert lines(tmp_path, "a.py", source) == []


def test_names_without_information_are_rejected(tmp_path: Path) -> None:
    source = "def rows(found):\n    return [each for each in found]\n"
    assert [line.split("'")[1] for line in lines(tmp_path, "a.py", source)] == ["found", "each"]


def test_long_sentences_are_rejected_and_long_tables_are_not(tmp_path: Path) -> None:
    long = " ".join(["word"] * 41)
    (line,) = lines(
        tmp_path, "a.md", f"{long}.\n\n| {long} |\n\nShort. {' '.join(['word'] * 40)}.\n"
    )
    assert "more than 40 words" in line


def test_interface_strings_are_checked(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, "a.js", "show(`${n} hits stand out`);\nconst x = stands_out;\n")
    assert line.startswith("a.js:1: interface")


def test_cells_of_notebooks_are_checked(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["The codes\n", "stand out."]},
        {"cell_type": "code", "source": ["found = 1"]},
    ]
    kinds = [
        line.split(": ")[1] for line in lines(tmp_path, "a.ipynb", json.dumps({"cells": cells}))
    ]
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
def test_the_left_column_of_the_vocabulary_is_rejected(tmp_path: Path, sentence: str) -> None:
    assert len(lines(tmp_path, "a.md", sentence)) == 1
