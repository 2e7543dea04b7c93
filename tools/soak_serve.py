"""Serve with two workers through writes, retraining and killed workers; nothing may be lost.

    python tools/soak_serve.py --minutes 10

Clients search, add and remove items while one worker after the other is killed and the collection
is retrained again and again. A client whose connection breaks, or who gets 429 or 503, sends its
request again: the first is counted as `cut`, the others as `busy`. Prints one JSON line. These
must be 0: `failed` (other errors), `lost` (items that were added, removed or kept, and are not as
acknowledged), `damage` (reported by ``acqh verify``) and `tracebacks` in the log.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from acqh.collection import Collection, Item

N_WORKERS = 2
N_SEARCHERS, N_WRITERS = 4, 2
TOKEN = "a-token-of-the-soak-test"  # noqa: S105
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
SUBJECTS = "cat", "dog", "horse", "boat", "train", "kite"
PLACES = "street", "beach", "lake", "garden", "bridge", "forest"


def build(path: Path) -> None:
    texts = [f"{subject} near a {place} {turn}" for turn in range(20) for subject in SUBJECTS
             for place in PLACES]  # fmt: skip
    items = [Item(text=text, labels=[text.split()[0]], id=str(n)) for n, text in enumerate(texts)]
    Collection.build(items, path, n_components=4, n_codebooks=2, text_encoder="tfidf").close()


@contextmanager
def serving(path: Path, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Serve a collection; give the address and the supervisor."""
    token = path.with_name("write.token")
    token.write_text(TOKEN)
    command = [sys.executable, "-m", "acqh", "serve", str(path), "--port", "0"]
    command += ["--workers", str(N_WORKERS), "--write-token-file", str(token)]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        while f"{N_WORKERS} workers are serving" not in log.read_text():
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield re.findall(r" at http://(\S+)/", log.read_text())[0], process
    finally:
        process.terminate()
        process.wait(120)


class Client:
    """A client that sends a request again after a broken connection, 429 or 503."""

    def __init__(self, address: str, counts: "Counter[str]") -> None:
        self._address = address
        self._counts = counts
        self._connection: HTTPConnection | None = None

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any, int]:
        """Return the status, the answer, and how many attempts were needed."""
        content = None if body is None else json.dumps(body)
        for attempt in range(1, 1_000):
            try:
                if self._connection is None:
                    self._connection = HTTPConnection(self._address, timeout=120)
                self._connection.request(method, path, content, JSON)
                response = self._connection.getresponse()
                answer = response.read()
            except (OSError, HTTPException):
                self._connection = None
                self._counts["cut"] += 1
                time.sleep(0.05)
                continue
            if response.status in (429, 503):
                self._counts["busy"] += 1
                time.sleep(0.1)
                continue
            return response.status, json.loads(answer) if answer else None, attempt
        return 0, None, attempt


def search(client: Client, counts: "Counter[str]", until: float) -> None:
    while time.monotonic() < until:
        text = f"{random.choice(SUBJECTS)} {random.choice(PLACES)} {random.randrange(10_000)}"  # noqa: S311
        status, answer, _ = client.send("POST", "/search", {"text": text, "k": 3})
        is_right = status == 200 and len(answer["hits"]) == 3
        counts["searches" if is_right else "failed"] += 1


def write(
    client: Client, counts: "Counter[str]", until: float, name: str, present: dict[str, bool]
) -> None:
    """Add items and remove every third; note what the server acknowledged in `present`."""
    number = 0
    while time.monotonic() < until:
        number += 1
        identifier = f"{name}-{number}"
        new = {"id": identifier, "text": f"{random.choice(SUBJECTS)} {number}"}  # noqa: S311
        status, _, _ = client.send("POST", "/items", {"items": [new], "replace": True})
        counts["added" if status == 201 else "failed"] += 1
        present[identifier] = True
        if number % 3 == 0:
            status, _, n_attempts = client.send("DELETE", f"/item?id={identifier}")
            # A worker that was killed may have removed it before it answered.
            is_right = status == 204 or (status == 404 and n_attempts > 1)
            counts["removed" if is_right else "failed"] += 1
            present[identifier] = False
        time.sleep(0.02)


def workers_of(process: "subprocess.Popen[bytes]") -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [n for n in map(int, listed) if b"spawn_main" in Path(f"/proc/{n}/cmdline").read_bytes()]


def every(seconds: float, until: float, act: Callable[[], object]) -> None:
    """Act at intervals, for the last time well before the end."""
    while time.monotonic() + 1.5 * seconds < until:
        time.sleep(seconds)
        act()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="Duration. Default: 10.")
    duration = 60 * parser.parse_args().minutes
    counts: Counter[str] = Counter()
    present: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "items.acqh", Path(folder) / "log"
        build(path)
        with serving(path, log) as (address, process):
            until = time.monotonic() + duration

            def kill() -> None:
                os.kill(random.choice(workers_of(process)), signal.SIGKILL)  # noqa: S311
                counts["killed"] += 1

            def retrain() -> None:
                with Collection.open(path) as collection:
                    collection.retrain().close()
                counts["retrained"] += 1

            def client() -> Client:
                return Client(address, counts)

            jobs: list[tuple[Any, tuple[Any, ...]]] = [
                *[(search, (client(), counts, until)) for _ in range(N_SEARCHERS)],
                *[(write, (client(), counts, until, f"w{n}", present)) for n in range(N_WRITERS)],
                (every, (min(20.0, duration / 4), until, kill)),
                (every, (min(45.0, duration / 3), until, retrain)),
            ]
            failures: list[BaseException] = []

            def run(job: Any, arguments: tuple[Any, ...]) -> None:
                try:
                    job(*arguments)
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=run, args=job) for job in jobs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            counts["failed"] += len(failures)
            for failure in failures:
                print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
            while len(workers_of(process)) < N_WORKERS:
                time.sleep(0.2)
            status, readiness, _ = client().send("GET", "/readyz")
            counts["failed"] += (status, readiness["status"]) != (200, "ready")
        with Collection.open(path) as collection:
            stored = set(collection)
            expected = {identifier for identifier, is_there in present.items() if is_there}
            expected |= {str(n) for n in range(20 * len(SUBJECTS) * len(PLACES))}
            counts["lost"] = len(stored ^ expected)
            counts["damage"] = len(collection.verify().problems)
        counts["tracebacks"] = log.read_text().count("Traceback")
        if counts["tracebacks"] or counts["failed"]:
            print(log.read_text()[-5_000:], file=sys.stderr)
    must_be_0 = {name: counts[name] for name in ("failed", "lost", "damage", "tracebacks")}
    print(json.dumps({**counts, **must_be_0}))
    return int(any(must_be_0.values()))


if __name__ == "__main__":
    sys.exit(main())
