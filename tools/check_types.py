"""Check that a user's script is typed: its mistakes are errors, and nothing else is.

The script has right lines and lines marked as wrong; mypy must reject only the latter.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
from pathlib import Path
import numpy as np
import acqh
from acqh.methods import DCH, Stacked

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
hits: list[tuple[str | None, float]] = [(hit.id, hit.score) for hit in photos.search("a").hits]
figures = acqh.metrics.evaluate(found, [0], [0, 1, 2], cutoffs=[10])
summary = acqh.bench.run("emoji", methods=[DCH, "acqh"], bits=[8], n_splits=1, out="results")
report: Path = acqh.bench.write_report(summary.out).page
photos.serach(text="a")  # wrong
photos.search(text="a", k="10")  # wrong
photos.search("a", top_k=10)  # wrong
photos.search("a", "b")  # wrong
acqh.Collection.open("x", query_encoder="table")  # wrong
acqh.Collection.build("x", "y", n_bytes=8)  # wrong
photos.search(text="a", mode="quick")  # wrong
photos.search(text="a", where=3)  # wrong
photos.search(text="a").hits[0].scores  # wrong
acqh.load(3)  # wrong
loaded: acqh.CodeIndex = acqh.load("x", acqh.CodeIndex)
mistaken: acqh.CodeIndex = acqh.load("x", acqh.Collection)  # wrong
acqh.verify("x").good  # wrong
acqh.metrics.evaluate(found, [0], [0, 1, 2], cutoff=10)  # wrong
acqh.metrics.evaluate(3, [0], [0, 1, 2])  # wrong
acqh.bench.run("emoji", bits="8", out="results")  # wrong
acqh.bench.run("emoji", seed=1, out="results")  # wrong
acqh.compress(np.eye(8), bytes="8")  # wrong
acqh.serve.create_app("x")  # wrong
found.to_panda()  # wrong
DCH(bits=8)  # wrong
DCH(16, n_anchors=5).fit({}, None)
DCH(16, n_anchor=5)  # wrong
Stacked(2).fitt({})  # wrong
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    wrong = {number for number, line in enumerate(SCRIPT.splitlines(), 1) if "# wrong" in line}
    refused = {int(line) for line in re.findall(r"script\.py:(\d+): error", done.stdout)}
    for number in sorted(wrong ^ refused):
        expectation = "should be an error" if number in wrong else "should be right"
        print(f"{expectation}: {SCRIPT.splitlines()[number - 1]}")
    if wrong != refused:
        print(done.stdout, done.stderr)
    return int(wrong != refused)


if __name__ == "__main__":
    sys.exit(main())
