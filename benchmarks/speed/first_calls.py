"""What a first call costs in a fresh installation, and what a second process pays.

Each job runs in processes of its own, over a copy of the package that has never been imported: no
byte code, and no compiled loops, which numba keeps where ``NUMBA_CACHE_DIR`` says. Prints one JSON
line: seconds and processor seconds of whole processes, the first and the second one.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import acqh
from benchmarks._measure import emit, timed

JOBS = {
    "import": "import acqh",
    "readme": """
import acqh
data = acqh.load_dataset("emoji")
train, query = data.split(test_size=0.2, groups="family", random_state=0)
model = acqh.ACQH(n_components=32, n_codebooks=4, random_state=0).fit(train.views, train.labels)
index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=train.labels), ids=train.ids)
index.search(model.project(query.views["image"], view="image"), k=10)
""",
    "compress_3000": """
import acqh, numpy as np
vectors = np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32)
acqh.compress(vectors).search(vectors[:20], k=10)
""",
    "search_100000": """
import acqh, numpy as np
rng = np.random.default_rng(0)
index = acqh.CodeIndex(rng.normal(size=(4, 256, 32))).add(rng.integers(256, size=(100_000, 4)))
index.search(rng.normal(size=(10, 32)), k=10)
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    figures = {}
    for name in parser.parse_args().jobs:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(acqh.__file__).parent
            shutil.copytree(
                package, Path(folder, "acqh"), ignore=shutil.ignore_patterns("__pycache__")
            )
            for turn in ("first", "second"):
                wall, processor = run(JOBS[name], folder)
                figures[f"{name}_{turn}_s"] = round(wall, 2)
                figures[f"{name}_{turn}_cpu_s"] = round(processor, 2)
    emit({"benchmark": "first_calls", **figures})


def run(program: str, folder: str) -> tuple[float, float]:
    """Return the seconds and the processor seconds of a process."""
    cache = {"PYTHONPATH": folder, "NUMBA_CACHE_DIR": str(Path(folder, "loops"))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, _ = timed(
        lambda: subprocess.run(
            [sys.executable, "-c", program], env=os.environ | cache, cwd=folder, check=True
        )
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return wall, user + system


if __name__ == "__main__":
    main()
