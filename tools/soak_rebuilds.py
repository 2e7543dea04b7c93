"""Rebuild a collection repeatedly while other processes have it open.

    python tools/soak_rebuilds.py --rebuilds 200

`acqh add` and a writable server add items all the time. Read-only servers answer queries; one of
them never checks for rebuilds. In every round a process that opened the last build goes on with it
from new threads. Prints one JSON line, in which these must be 0:

- `lost`: missing items that were acknowledged while one build had the path during the call.
- `wrong`: answers that mix builds, or changes that reach another build than the opened one.
- `damaged`: checks in which `acqh verify` finds a problem.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from acqh.collection import Collection, Item
from acqh.collection.generations import generation_of
from acqh.collection.verify import verify_collection
from acqh.errors import ReplacedError

WORDS = ["cat", "car", "sea", "rose"]
TOKEN = "soak-0123456789abcdef"  # noqa: S105
ACQH = [sys.executable, "-m", "acqh"]


def base(turn: int, n_items: int) -> list[Item]:
    """Return the items of one build; all are found by the word thing, and tell their build."""
    return [
        Item(text=f"thing {WORDS[n % 4]}", labels=[WORDS[n % 4]], id=f"{turn}:{n}")
        for n in range(n_items)
    ]


class Trial:
    """What happened so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[int, int] = {}
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.stop = threading.Event()
        self.acknowledged: dict[str, set[str]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def adding(self, n: int = 1) -> Iterator[list[str]]:
        """Give new ids; note them as acknowledged where one build had the path all along."""
        ids = [f"add:{next(self._numbers)}" for _ in range(n)]
        before = generation_of(self.path)
        yield ids
        if generation_of(self.path) == before:
            self.acknowledged.setdefault(before, set()).update(ids)
        else:
            self.counts["overtaken"] += len(ids)

    def judge(self, ids: list[str], who: str, turn: int | None = None) -> None:
        """Check that an answer has all items of one build, and of that build alone."""
        builds = Counter(item_id.split(":")[0] for item_id in ids if not item_id.startswith("add:"))
        turns = [int(build) for build in builds]
        right = len(turns) == 1 and self.sizes.get(turns[0]) == builds[str(turns[0])]
        self.counts["answers"] += 1
        if not right or (turn is not None and turns != [turn]):
            self.counts["wrong"] += 1
            self.notes.append(f"{who}: {dict(builds)}, wanted {turn}")

    def check(self) -> None:
        """Check that all that was acknowledged is there, and that the collection is whole."""
        acknowledged = set(self.acknowledged.get(generation_of(self.path), ()))
        with Collection.open(self.path) as collection:
            ids = set(collection)
        report = verify_collection(self.path)
        lost = acknowledged - ids
        self.counts["checked"] += len(acknowledged)
        self.counts["lost"] += len(lost)
        self.counts["damaged"] += not report.ok
        self.notes += [*report.problems, *(f"lost {item_id}" for item_id in sorted(lost)[:5])]


def add_by_command(trial: Trial, folder: Path) -> None:
    manifest = folder / "more.csv"
    while not trial.stop.is_set():
        with trial.adding(200) as ids:
            manifest.write_text("id,text\n" + "".join(f"{item_id},thing cat\n" for item_id in ids))
            command = [*ACQH, "add", str(trial.path), str(manifest)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                trial.counts["commands rejected"] += 1
                if "open it again" not in done.stderr:
                    trial.counts["wrong"] += 1
                    trial.notes.append(done.stderr[-300:])
                ids.clear()
            else:
                trial.counts["commands"] += 1


def ask(port: int, method: str, where: str, body: Any = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    try:
        connection.request(method, where, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def add_over_http(trial: Trial, port: int) -> None:
    while not trial.stop.is_set():
        with trial.adding() as ids:
            body = {"items": [{"text": "thing cat", "id": ids[0]}]}
            status, answer = ask(port, "POST", "/items", body)
            trial.counts[f"http {status}"] += 1
            if status != 201:
                ids.clear()
            if status not in (201, 503):
                trial.counts["wrong"] += 1
                trial.notes.append(f"{status} {answer}")


def search_over_http(trial: Trial, port: int) -> None:
    while not trial.stop.is_set():
        status, answer = ask(port, "POST", "/search", {"text": "thing", "k": 100})
        if status == 200:
            # Added items push others out of the first hundred; whether builds mix still shows.
            builds = {hit["id"].split(":")[0] for hit in answer["hits"]} - {"add"}
            trial.counts["answers"] += 1
            trial.counts["wrong"] += len(builds) > 1
        else:
            trial.counts[f"search {status}"] += 1
        time.sleep(0.1)


@contextmanager
def server(path: Path, token_file: Path | None) -> Iterator[int]:
    command = [*ACQH, "serve", str(path), "--port", "0"]
    if token_file is not None:
        command += ["--write-token-file", str(token_file)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            yield _port(process, log)
        finally:
            process.terminate()
            process.wait()


def _port(process: "subprocess.Popen[bytes]", log: Any) -> int:
    for _ in range(3000):
        log.seek(0)
        for line in log.read().decode().splitlines():
            if line.startswith("Serving "):
                return int(line.rstrip("/").rpartition(":")[2])
        if process.poll() is not None:
            break
        time.sleep(0.1)
    log.seek(0)
    raise RuntimeError(log.read().decode())


def rebuild(trial: Trial, turn: int, rng: random.Random) -> None:
    n_items = rng.randrange(8, 60)
    trial.sizes[turn] = n_items

    def check(_done: int, _total: int | None, text: str) -> None:
        if text == "writing the index" and turn:
            trial.check()  # the last check of the build that is about to be replaced

    Collection.build(
        base(turn, n_items),
        trial.path,
        n_components=4,
        n_codebooks=2,
        overwrite=True,
        progress=check,
    ).close()
    trial.counts["rebuilds"] += 1


def go_on(trial: Trial, old: Collection, turn: int) -> None:
    """Use a collection that was replaced, from threads that have not used it before."""
    with ThreadPoolExecutor(3) as threads:
        for answer in threads.map(lambda _: old.search(text="thing", k=10_000), range(3)):
            trial.judge([hit.id for hit in answer.hits], "old process", turn)
        try:
            threads.submit(old.add, Item(text="thing cat", id=f"late:{turn}")).result()
            trial.counts["wrong"] += 1
            trial.notes.append(f"a change of build {turn} was acknowledged too late")
        except ReplacedError:
            trial.counts["refused"] += 1
    old.close()


def run(folder: Path, n_rebuilds: int, seed: int) -> Trial:
    rng = random.Random(seed)  # noqa: S311
    trial = Trial(folder / "c.acqh")
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    rebuild(trial, 0, rng)
    with ExitStack() as stack:
        writable = stack.enter_context(server(trial.path, token))
        watching = stack.enter_context(server(trial.path, None))
        unaware = ExitStack()
        stack.push(unaware)
        threads = [
            threading.Thread(target=work, args=(trial, *more))
            for work, *more in (
                (add_by_command, folder),
                (add_over_http, writable),
                (search_over_http, writable),
                (search_over_http, watching),
            )
        ]
        for thread in threads:
            thread.start()
        try:
            for turn in range(1, n_rebuilds + 1):
                if turn % 10 == 1:
                    unaware.close()  # with its old index, in the folder of another build
                    unaware.enter_context(server(trial.path, None))
                old = Collection.open(trial.path)
                rebuild(trial, turn, rng)
                go_on(trial, old, turn - 1)
                time.sleep(rng.uniform(0, 0.4))
                trial.check()
                if turn % 20 == 0:
                    print(turn, json.dumps(trial.counts), trial.notes[-3:], file=sys.stderr)
        finally:
            trial.stop.set()
            for thread in threads:
                thread.join()
    trial.counts["damaged"] += not verify_collection(trial.path).ok
    return trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rebuilds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial = run(Path(folder), arguments.rebuilds, arguments.seed)
    for note in trial.notes[:20]:
        print(note, file=sys.stderr)
    must_be_zero = {name: trial.counts[name] for name in ("lost", "wrong", "damaged")}
    print(json.dumps({**trial.counts, **must_be_zero}))
    return int(any(must_be_zero.values()))


if __name__ == "__main__":
    sys.exit(main())
