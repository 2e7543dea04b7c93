"""What a user's script sees under a strict type checker: names are typed, mistakes are errors."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import acqh

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
from pathlib import Path
import numpy as np
import acqh
from acqh.methods import DCH

model = acqh.ACQH(8, n_codebooks=2)
model.fit({"image": np.eye(3)}, [0, 1, 2])
index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=[0, 1, 2]))
found: acqh.SearchResult = index.search(np.eye(8), k=3)
data: acqh.MultiViewData = acqh.load_dataset("emoji")
whole: bool = acqh.verify("x").ok
model.fitt()  # wrong
index.search(np.eye(8), kk=3)  # wrong
acqh.nothing  # wrong
data.splitt()  # wrong
photos = acqh.Collection.open("x")
hits: list[tuple[str | None, float]] = [(hit.id, hit.score) for hit in photos.search(text="a").hits]
figures = acqh.metrics.evaluate(found, [0], [0, 1, 2], cutoffs=[10])
summary = acqh.bench.run("emoji", methods=[DCH, "acqh"], bits=[8], seeds=1, out="results")
report: Path = acqh.bench.write_report(summary.out).page
photos.serach(text="a")  # wrong
photos.search(text="a", k="10")  # wrong
photos.search(text="a", mode="quick")  # wrong
photos.search(text="a", where=3)  # wrong
photos.search(text="a").hits[0].scores  # wrong
acqh.load(3)  # wrong
acqh.verify("x").good  # wrong
acqh.metrics.evaluate(found, [0], [0, 1, 2], cutoff=10)  # wrong
acqh.metrics.evaluate(3, [0], [0, 1, 2])  # wrong
acqh.bench.run("emoji", bits="8", out="results")  # wrong
acqh.bench.run("emoji", seed=1, out="results")  # wrong
acqh.compress(np.eye(8), bytes="8")  # wrong
acqh.serve.create_app("x")  # wrong
found.to_panda()  # wrong
DCH(bits=8)  # wrong
"""


def test_the_stub_names_what_the_package_exports():
    stub = (ROOT / "src" / "acqh" / "__init__.pyi").read_text()
    named = set(re.findall(r" as (\w+)$", stub, flags=re.MULTILINE))
    assert named | {"__version__"} == {*acqh.__all__, *acqh._OPTIONAL_ROOMS}


@pytest.mark.slow
def test_mistakes_of_a_user_are_errors_under_strict_types(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += ["--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(script)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
        timeout=300,
    )
    wrong = {number for number, line in enumerate(SCRIPT.splitlines(), 1) if "# wrong" in line}
    found = {int(each) for each in re.findall(r"script\.py:(\d+): error", done.stdout)}
    assert found == wrong, done.stdout + done.stderr
