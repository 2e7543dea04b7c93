import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
# The template of a method is no program; tests/bench runs it.
EXAMPLES = sorted(
    {*(REPOSITORY / "examples").glob("*.py")} - {REPOSITORY / "examples" / "method_template.py"}
)


def test_examples_exist():
    assert EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_prints(example, tmp_path):
    if "import torch" in example.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 1
