"""Try the wheel and the sdist of `dist/` as a user would, in an empty environment outside the tree.

    make dist   # builds both, then runs this

The sdist must build the same files as the wheel. The wheel alone must be enough for the library,
with the extras of the demo for the command line and the page.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LIBRARY = """
import acqh, numpy as np
assert acqh.__file__.startswith({home!r}), acqh.__file__
data = acqh.make_multiview(200, random_state=0)
model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data.views, data.labels)
index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=data.labels), ids=data.ids)
queries = model.project(data.views["image"][:5], view="image")
assert index.search(queries, k=10).ids.shape == (5, 10)
vectors = np.random.default_rng(0).normal(size=(300, 8))
assert acqh.compress(vectors, bytes_per_item=2, random_state=0).codes.shape == (300, 2)
"""
IMAGES = """
from pathlib import Path
from PIL import Image
for colour in ("red", "green", "blue"):
    for n in range(8):
        path = Path("photos", colour, f"{colour}-{n}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32 + n, 32), colour).save(path)
"""


def main() -> None:
    wheel, sdist = only("*.whl"), only("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        python = str(home / "env" / "bin" / "python")
        run(home, sys.executable, "-m", "venv", "env")
        pip = [python, "-m", "pip", "--quiet"]
        pin = ["--constraint", str(CONSTRAINTS)]
        run(home, *pip, "install", *pin, "--upgrade", "pip")
        run(home, *pip, "wheel", "--no-deps", "--wheel-dir", "again", str(sdist))
        again = next((home / "again").glob("*.whl"))
        assert names(again) == names(wheel), "the sdist builds other files than the tree"
        run(home, *pip, "install", *pin, str(wheel))
        run(home, python, "-c", LIBRARY.format(home=str(home)), title="the library")
        run(home, *pip, "install", *pin, f"{wheel}[images,text,serve]")
        run(home, python, "-c", IMAGES)
        acqh = str(home / "env" / "bin" / "acqh")
        run(home, acqh, "build", "photos", "--quiet", title="acqh build")
        output = run(home, acqh, "search", "photos.acqh", "red", title="acqh search")
        assert "red/red-" in output, output
        run(home, acqh, "verify", "photos.acqh", title="acqh verify")
        check_page(home, acqh)
    print(f"{wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB) and {sdist.name} work")


def only(pattern: str) -> Path:
    """Return the one file of `dist/` that the pattern fits."""
    (path,) = (ROOT / "dist").glob(pattern)
    return path


def names(wheel: Path) -> list[str]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def run(home: Path, *command: str, title: str = "") -> str:
    """Run a command outside the tree and return what it prints."""
    started = time.perf_counter()
    env = {**os.environ, "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS), "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=home, env=env, stdout=subprocess.PIPE, text=True, check=True)
    if title:
        print(f"{title}: {time.perf_counter() - started:.1f} s")
    return done.stdout


def check_page(home: Path, acqh: str) -> None:
    """Serve the collection, open its page and search it."""
    command = [acqh, "serve", "photos.acqh", "--port", "0"]
    with subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            matches = (re.search(r"at (http://\S+)", line) for line in server.stderr)
            address = next(filter(None, matches))
            get = build_opener(ProxyHandler({})).open
            assert b"<title>" in get(address[1], timeout=60).read()
            query = Request(  # noqa: S310
                f"{address[1]}search",
                json.dumps({"text": "red", "k": 3}).encode(),
                {"Content-Type": "application/json"},
            )
            hits = json.load(get(query, timeout=60))["hits"]
            assert len(hits) == 3, hits
            assert all("red" in hit["id"] for hit in hits), hits
        finally:
            server.terminate()
    print("the page answers")


if __name__ == "__main__":
    main()
