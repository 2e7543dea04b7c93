"""How large the house is: per room what is in it, per path what a newcomer must read.

``python tools/house.py`` prints both tables, ``--json`` the same as one line, ``--way project`` the
files and functions of one path in the order in which they are reached. Code lines are those without
docstrings, comments and blanks. A path runs once unseen, so that imports and compilers are not
counted, then once under a profiler hook, on tiny data, in this process and those that it starts.
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

SOURCE = Path(os.environ.get("HOUSE_SOURCE", Path(__file__).resolve().parents[1] / "src")) / "acqh"
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


def public_names(room: str) -> tuple[int, int]:
    """Return how many names the door of a room offers, and how many with those of its classes.

    Of a class all count that need no underscore: attributes, methods, fields, inherited or not.
    """
    if room.startswith("_"):
        return 0, 0
    door = import_module(f"acqh.{room}" if room else "acqh")
    names = [name for name in getattr(door, "__all__", ()) if not name.startswith("_")]
    offered = [getattr(door, name) for name in names]
    classes = [each for each in offered if isinstance(each, type)]
    members = sum(
        len({name for name in (*dir(each), *fields) if not name.startswith("_")})
        for each in classes
        for fields in [getattr(each, "__dataclass_fields__", ())]
    )
    return len(names), len(names) + members


def measure_rooms() -> dict[str, dict[str, int]]:
    """Return files, code lines, functions and public names of every room."""
    rooms: dict[str, dict[str, int]] = {}
    for top in sorted(SOURCE.iterdir()):
        files = sorted(top.rglob("*.py")) if top.is_dir() else [top] * (top.suffix == ".py")
        if not files:
            continue
        counts = [measure_file(file) for file in files]
        room = rooms.setdefault(
            top.name if top.is_dir() else "(top)",
            dict.fromkeys(("files", "code", "functions", "public", "members"), 0),
        )
        room["files"] += len(files)
        room["code"] += sum(lines for lines, _ in counts)
        room["functions"] += sum(functions for _, functions in counts)
        if top.is_dir() or top.stem == "errors":
            public, members = public_names(top.stem)
            room["public"] += public
            room["members"] += members
    for key, number in zip(("public", "members"), public_names(""), strict=True):
        rooms["(top)"][key] += number
    return rooms


# -- what a path touches -------------------------------------------------------------------------


class Footprints:
    """Notes every function of the package that is called while `walking`.

    Child processes find the hook through ``sitecustomize`` and note theirs in the same folder.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self._source = os.fspath(source) + os.sep
        self._seen: dict[Any, None] = {}
        self._notes = folder
        self.is_walking = False

    def install(self) -> None:
        """Watch this thread, and those that start from now on."""
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
        """Return the (file, function) pairs that a call reaches, in order."""
        for note in self._notes.glob("*.txt"):
            note.unlink()
        self._seen.clear()
        self.is_walking = True
        try:
            path()
        finally:
            self.is_walking = False
        steps: dict[tuple[str, str], None] = {}
        own = self._notes / f"{os.getpid()}.txt"
        for note in sorted(self._notes.glob("*.txt"), key=lambda each: each != own):
            for line in note.read_text(encoding="utf-8").splitlines():
                file, _, function = line.partition("\t")
                steps[file, function] = None
        return list(steps)


CHILD_HOOK = """
import os, sys
if os.environ.get("HOUSE_NOTES"):
    sys.path.insert(0, {tools!r})
    from pathlib import Path
    import house
    footprints = house.Footprints(Path(os.environ["HOUSE_NOTES"]), house.SOURCE)
    footprints.is_walking = True
    footprints.install()
"""


def _command(*words: object) -> Callable[[], object]:
    """Return a call of the command line in this process, its output thrown away."""

    def run() -> None:
        from acqh.cli import main

        kept, sys.argv = sys.argv, ["acqh", *map(str, words)]
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                main()
        except SystemExit as left:
            if left.code:
                raise RuntimeError(f"{sys.argv} failed: {shown.getvalue()}") from left
        finally:
            sys.argv = kept

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


def _bench(folder: Path) -> Callable[[], object]:
    turns = iter(range(9))

    def run() -> None:
        import acqh.bench

        acqh.bench.run(
            folder / "features.npz",
            methods=["label-ridge"],
            seeds=1,
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


COLLECTION_ROOMS = ("cli", "collection", "data")


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
        COLLECTION_ROOMS,
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
    yield "acqh search", COLLECTION_ROOMS, _command("search", folder / "t.acqh", "face")
    yield "HTTP query", ("serve",), _http(folder / "t.acqh")
    with Collection.build(photos, folder / "p.acqh"):
        pass
    yield "acqh sync", COLLECTION_ROOMS, _sync(photos, folder / "p.acqh", data.items["image"][0])


def _http(path: Path) -> Callable[[], object]:
    from fastapi.testclient import TestClient

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
        _command("sync", photos, collection, "--quiet")()

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


def measure_paths(wanted: str | None = None) -> dict[str, Any]:
    """Return files and functions of every path, or the steps of the one that is wanted."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, notes, hooks = Path(name), Path(name) / "notes", Path(name) / "hooks"
        notes.mkdir()
        hooks.mkdir()
        tools = os.fspath(Path(__file__).resolve().parent)
        (hooks / "sitecustomize.py").write_text(CHILD_HOOK.format(tools=tools), encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([os.fspath(hooks), os.fspath(SOURCE.parent)])
        footprints = Footprints(notes, SOURCE)
        footprints.install()
        for paths in (_learning_paths, _collection_paths):
            for path, rooms, call in paths(folder):
                if wanted not in (None, path):
                    continue
                call()
                os.environ["HOUSE_NOTES"] = os.fspath(notes)
                steps = footprints.follow(call)
                del os.environ["HOUSE_NOTES"]
                if rooms:
                    steps = [step for step in steps if Path(step[0]).parts[0] in rooms]
                if wanted:
                    return {path: steps}
                found[path] = {
                    "rooms": " ".join(rooms) or "all",
                    "files": len({file for file, _ in steps}),
                    "functions": len(steps),
                }
        if wanted is None:
            found["imported by load"] = {"rooms": "all", "files": count_imported(folder)}
        sys.setprofile(None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--way", help="the steps of one path, as the table names it")
    parser.add_argument("--rooms", action="store_true", help="the rooms alone, without running")
    options = parser.parse_args()
    if options.way:
        for path, steps in measure_paths(options.way).items():
            print(path, *(f"  {file}: {function}" for file, function in steps), sep="\n")
        return
    rooms = measure_rooms()
    total = {key: sum(room[key] for room in rooms.values()) for key in next(iter(rooms.values()))}
    paths = {} if options.rooms else measure_paths()
    if options.json:
        print(json.dumps({"rooms": rooms, "total": total, "paths": paths}))
        return
    print(f"{'room':<14}{'files':>7}{'code':>8}{'functions':>11}{'public':>8}{'members':>9}")
    for name, room in [*rooms.items(), ("all", total)]:
        print(
            f"{name:<14}{room['files']:>7}{room['code']:>8}{room['functions']:>11}"
            f"{room['public']:>8}{room['members']:>9}"
        )
    if paths:
        print(f"\n{'path':<28}{'files':>7}{'functions':>11}  rooms counted")
    for name, path in paths.items():
        print(f"{name:<28}{path['files']:>7}{path.get('functions', ''):>11}  {path['rooms']}")


if __name__ == "__main__":
    main()
