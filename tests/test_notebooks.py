"""The notebooks of the gallery run, show what they say, and stay small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MAX_BYTES = 150_000


def test_notebooks_with_images_exist():
    assert len(NOTEBOOKS) >= 2
    for path in NOTEBOOKS:
        assert path.stat().st_size < MAX_BYTES
        cells = json.loads(path.read_text())["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
        assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_gives_its_stored_output(path, tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "run_notebooks.py", "--check", path],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
