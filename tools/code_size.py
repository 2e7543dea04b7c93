"""Measure the size of the code base: each subpackage, and the code that one call runs through.

``python tools/code_size.py`` prints all tables, ``--json`` one line, ``--path project`` the files
and functions of one path in the order of their first call. Code lines do not count docstrings,
comments and blank lines. A path runs once unrecorded, so that imports and compilation are not
counted, then once under a profiler hook, on small data, in this process and its children.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = (
    Path(os.environ.get("CODE_SIZE_SOURCE", Path(__file__).resolve().parents[1] / "src")) / "acqh"
)
sys.path.insert(0, os.fspath(SOURCE.parent))
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def measure_file(path: Path) -> tuple[int, int]:
    """Return the code lines and the functions of a file."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    n_functions = 0
    for node in ast.walk(ast.parse(text)):
        n_functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Module | DEFINITIONS) and ast.get_docstring(node, clean=False):
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines), n_functions


def public_names(subpackage: str) -> tuple[int, int]:
    """Return the number of public names of a subpackage, and with the members of its classes.

    Members are attributes, methods and fields without an underscore, inherited or not.
    """
    if subpackage.startswith("_"):
        return 0, 0
    module = import_module(f"acqh.{subpackage}" if subpackage else "acqh")
    names = [name for name in getattr(module, "__all__", ()) if not name.startswith("_")]
    values = [getattr(module, name) for name in names]
    classes = [value for value in values if isinstance(value, type)]
    members = sum(
        len({name for name in (*dir(cls), *fields) if not name.startswith("_")})
        for cls in classes
        for fields in [getattr(cls, "__dataclass_fields__", ())]
    )
    return len(names), len(names) + members


def measure_subpackages() -> dict[str, dict[str, int]]:
    """Return files, code lines, functions and public names of every subpackage."""
    sizes: dict[str, dict[str, int]] = {}
    for top in sorted(SOURCE.iterdir()):
        files = sorted(top.rglob("*.py")) if top.is_dir() else [top] * (top.suffix == ".py")
        if not files:
            continue
        counts = [measure_file(file) for file in files]
        size = sizes.setdefault(
            top.name if top.is_dir() else "(top)",
            dict.fromkeys(("files", "code", "functions", "public", "members"), 0),
        )
        size["files"] += len(files)
        size["code"] += sum(lines for lines, _ in counts)
        size["functions"] += sum(functions for _, functions in counts)
        if top.is_dir() or top.stem == "errors":
            public, members = public_names(top.stem)
            size["public"] += public
            size["members"] += members
    for key, number in zip(("public", "members"), public_names(""), strict=True):
        sizes["(top)"][key] += number
    return sizes


def measure_scripts() -> dict[str, int]:
    """Return the lines of JavaScript of the web interface and of static sites: no blanks, no //."""
    folders = {"web interface": "web/page", "static site": "export/static"}
    return {
        name: sum(
            bool(line.strip()) and not line.lstrip().startswith(("//", "/*", "*"))
            for file in (SOURCE / folder).glob("*.js")
            for line in file.read_text(encoding="utf-8").splitlines()
        )
        for name, folder in folders.items()
    }


# -- paths ---------------------------------------------------------------------------------------


class Footprints:
    """Records every function of the package that is called while `is_walking`.

    Child processes find the hook through ``sitecustomize`` and write to the same folder.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self._source = os.fspath(source) + os.sep
        self._seen: dict[Any, None] = {}
        self._notes = folder
        self.is_walking = False

    def install(self) -> None:
        """Profile this thread and those that start from now on."""
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def _hook(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.is_walking or event != "call" or code in self._seen:
            return
        self._seen[code] = None
        if code.co_filename.startswith(self._source) and not code.co_name.startswith("<"):
            note = self._notes / f"{os.getpid()}.txt"
            with note.open("a", encoding="utf-8") as file:
                file.write(f"{code.co_filename[len(self._source) :]}\t{code.co_qualname}\n")

    def follow(self, path: Callable[[], object]) -> list[tuple[str, str]]:
        """Return the (file, function) pairs that a call runs through, in order."""
        for note in self._notes.glob("*.txt"):
            note.unlink()
        self._seen.clear()
        self.is_walking = True
        try:
            path()
        finally:
            self.is_walking = False
        steps: dict[tuple[str, str], None] = {}
        own_note = self._notes / f"{os.getpid()}.txt"
        for note in sorted(self._notes.glob("*.txt"), key=lambda path_of: path_of != own_note):
            for line in note.read_text(encoding="utf-8").splitlines():
                file, _, function = line.partition("\t")
                steps[file, function] = None
        return list(steps)


CHILD_HOOK = """
import os, sys
if os.environ.get("CODE_SIZE_NOTES"):
    sys.path.insert(0, {tools!r})
    from pathlib import Path
    import code_size
    footprints = code_size.Footprints(Path(os.environ["CODE_SIZE_NOTES"]), code_size.SOURCE)
    footprints.is_walking = True
    footprints.install()
"""


def _command(*words: object) -> Callable[[], object]:
    """Return a call of the command line in this process, its output discarded."""

    def run() -> None:
        from acqh.cli import main

        argv, sys.argv = sys.argv, ["acqh", *map(str, words)]
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                main()
        except SystemExit as left:
            if left.code:
                raise RuntimeError(f"{sys.argv} failed: {shown.getvalue()}") from left
        finally:
            sys.argv = argv

    return run


Path_ = tuple[str, tuple[str, ...], Callable[[], object]]


def _learning_paths(folder: Path) -> Iterator[Path_]:
    import acqh

    data = acqh.make_multiview(60, random_state=0)
    views, labels = dict(data.views), data.labels
    model = acqh.ACQH(4, n_codebooks=1, codebook_size=4, random_state=0).fit(views, labels)
    targets = {"labels": 0.5, **dict.fromkeys(views, 0.25)}
    aimed = acqh.ACQH(4, n_codebooks=1, codebook_size=4, targets=targets, random_state=0)
    view, X = next(iter(views.items()))
    yield "fit(views, labels)", (), lambda: model.fit(views, labels)
    yield "fit with targets", (), lambda: aimed.fit(views, labels)
    yield "encode(views)", (), lambda: model.encode(views)
    yield "project", (), lambda: model.project(X, view=view)
    file = folder / "features.npz"
    acqh.data.save_npz(data, file)
    yield "read .npz", ("data",), lambda: acqh.MultiViewData.from_files(file)
    yield "bench", ("bench",), _bench(folder)
    model.save(folder / "model.acqh")
    yield "load a fitted ACQH", (), lambda: acqh.load(folder / "model.acqh")
    yield "encode on Dask", ("cli", "scale"), _dask(folder)


def _vector_paths(_: Path) -> Iterator[Path_]:
    import numpy as np

    import acqh
    from acqh.quantize import AdditiveQuantizer

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(500, 8)).astype(np.float32)
    yield "compress(array)", (), lambda: acqh.compress(vectors, bytes_per_item=2)
    quantizer = AdditiveQuantizer(2, 16, random_state=0)
    yield "AdditiveQuantizer.fit", (), lambda: quantizer.fit(vectors)
    # Large enough for the inverted lists: small indexes are scanned flat.
    index = acqh.CodeIndex(rng.normal(size=(4, 256, 8)))
    index.add(rng.integers(256, size=(100_000, 4), dtype=np.uint8))
    yield "CodeIndex.search", (), lambda: index.search(vectors[:4], k=10)


def _bench(folder: Path) -> Callable[[], object]:
    turns = iter(range(9))

    def run() -> None:
        import acqh.bench

        acqh.bench.run(
            folder / "features.npz",
            methods=["label-ridge"],
            n_splits=1,
            protocol="labelled",
            out=folder / f"bench-{next(turns)}",
        )

    return run


def _dask(folder: Path) -> Callable[[], object]:
    turns = iter(range(9))

    def run() -> None:
        from distributed import LocalCluster

        with LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster:
            _command(
                "encode",
                folder / "model.acqh",
                folder / "features.npz",
                "--out",
                folder / f"codes-{next(turns)}",
                "--dask",
                cluster.scheduler_address,
            )()

    return run


COLLECTION = ("cli", "collection", "data")


def _collection_paths(folder: Path) -> Iterator[Path_]:
    import acqh

    data = acqh.load_dataset("emoji").subset(range(24))
    photos = folder / "photos"
    photos.mkdir()
    rows = []
    for position, (image, text) in enumerate(
        zip(data.items["image"], data.items["text"], strict=True)
    ):
        (photos / f"{position}.webp").write_bytes(image)
        rows.append({"image": f"photos/{position}.webp", "text": text, "labels": [text.split()[0]]})
    table = folder / "photos.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    turns = iter(range(9))
    yield (
        "acqh build",
        COLLECTION,
        lambda: _command("build", table, "--out", folder / f"c{next(turns)}.acqh", "--quiet")(),
    )
    from acqh.collection import Collection, Item

    texts = [Item(text=row["text"], labels=row["labels"]) for row in rows]
    yield (
        "Collection.build of texts",
        (),
        lambda: Collection.build(texts, folder / f"t{next(turns)}.acqh").close(),
    )
    with Collection.build(texts, folder / "t.acqh") as opened:
        yield "Collection.search", (), lambda: opened.search(text="face", k=3)
    yield "acqh search", COLLECTION, _command("search", folder / "t.acqh", "face")
    yield "HTTP query", ("serve",), _http(folder / "t.acqh")
    with Collection.build(photos, folder / "p.acqh"):
        pass
    yield "acqh sync", COLLECTION, _sync(photos, folder / "p.acqh", data.items["image"][0])


def _http(path: Path) -> Callable[[], object]:
    from starlette.testclient import TestClient

    from acqh.serve import Settings, create_app

    client = TestClient(create_app(Settings(collection=path)), base_url="http://127.0.0.1")
    client.__enter__()  # the process ends with it

    def run() -> None:
        answer = client.post("/search", json={"text": "face", "k": 3})
        answer.raise_for_status()

    return run


def _sync(photos: Path, collection: Path, image: bytes) -> Callable[[], object]:
    turns = iter(range(9))

    def run() -> None:
        (photos / f"new-{next(turns)}.webp").write_bytes(image + bytes(1))
        _command("sync", collection, photos, "--quiet")()

    return run


def count_imported(folder: Path) -> int:
    """Return how many files of the package a fresh process imports to load a fitted ACQH."""
    script = (
        f"import sys, acqh; acqh.load({os.fspath(folder / 'model.acqh')!r}); "
        "print(sum(each.split('.')[0] == 'acqh' for each in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def measure_paths(only: str | None = None) -> dict[str, Any]:
    """Return files and functions of every path, or the steps of one path."""
    sizes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, notes, hooks = Path(name), Path(name) / "notes", Path(name) / "hooks"
        notes.mkdir()
        hooks.mkdir()
        tools = os.fspath(Path(__file__).resolve().parent)
        (hooks / "sitecustomize.py").write_text(CHILD_HOOK.format(tools=tools), encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([os.fspath(hooks), os.fspath(SOURCE.parent)])
        footprints = Footprints(notes, SOURCE)
        footprints.install()
        for paths in (_learning_paths, _vector_paths, _collection_paths):
            for path, counted, call in paths(folder):
                if only not in (None, path):
                    continue
                call()
                os.environ["CODE_SIZE_NOTES"] = os.fspath(notes)
                steps = footprints.follow(call)
                del os.environ["CODE_SIZE_NOTES"]
                if counted:
                    steps = [step for step in steps if Path(step[0]).parts[0] in counted]
                if only:
                    return {path: steps}
                sizes[path] = {
                    "counted": " ".join(counted) or "all",
                    "files": len({file for file, _ in steps}),
                    "functions": len(steps),
                }
        if only is None:
            sizes["imported by load"] = {"counted": "all", "files": count_imported(folder)}
        sys.setprofile(None)
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--path", help="print the steps of one path, named as in the table")
    parser.add_argument("--sizes", action="store_true", help="print sizes only, run nothing")
    options = parser.parse_args()
    if options.path:
        for path, steps in measure_paths(options.path).items():
            print(path, *(f"  {file}: {function}" for file, function in steps), sep="\n")
        return
    sizes, scripts = measure_subpackages(), measure_scripts()
    total = {key: sum(size[key] for size in sizes.values()) for key in next(iter(sizes.values()))}
    paths = {} if options.sizes else measure_paths()
    if options.json:
        facts = {"subpackages": sizes, "total": total, "javascript": scripts, "paths": paths}
        print(json.dumps(facts))
        return
    print(f"{'subpackage':<14}{'files':>7}{'code':>8}{'functions':>11}{'public':>8}{'members':>9}")
    for name, size in [*sizes.items(), ("all", total)]:
        print(
            f"{name:<14}{size['files']:>7}{size['code']:>8}{size['functions']:>11}"
            f"{size['public']:>8}{size['members']:>9}"
        )
    print("\nJavaScript:", ", ".join(f"{name} {lines}" for name, lines in scripts.items()))
    if paths:
        print(f"\n{'path':<28}{'files':>7}{'functions':>11}  subpackages counted")
    for name, path in paths.items():
        print(f"{name:<28}{path['files']:>7}{path.get('functions', ''):>11}  {path['counted']}")


if __name__ == "__main__":
    main()
