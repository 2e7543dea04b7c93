"""Load the server with a light client on loopback, in another process.

One JSON line per case, of the best of several runs: requests per second, milliseconds per request
at the median and at the 99th percentile, and milliseconds of processor time of the server per
request. Other work on the machine changes the latter least. Each connection sends its next query
when it has read the last answer. `search_share` is the part of a request's time that searching
takes, at the median, and `encode_share` that of turning the query into a vector.

The emoji set is searched by image and by text, with either encoder of texts. Texts are names of
items that were asked for before (``repeated``), of two items each and never asked for before
(``new``), or one of either kind in turn (``mixed``). With ``--full`` also a million made-up texts.
"""

import argparse
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

from acqh.collection import Collection, Item
from acqh.data import load_dataset
from benchmarks._measure import emit

CONNECTIONS = (1, 8, 64)
SECONDS = 2.0
N_RUNS = 3
N_REPEATED = 500
N_WORDS = 5_000
N_TOPICS = 50


def emoji_items() -> list[Item]:
    data = load_dataset("emoji")
    groups = [data.label_names[row.argmax()] for row in np.asarray(data.labels)]
    rows = zip(data.items["image"], data.items["text"], groups, strict=True)
    return [Item(image=picture, text=text, labels=[group]) for picture, text, group in rows]


def made_up_texts(n_texts: int) -> Iterator[tuple[str, str]]:
    """Yield texts of six words, most of them of one topic, and the topic."""
    rng = np.random.default_rng(0)
    of_topic = N_WORDS // N_TOPICS
    for _ in range(0, n_texts, 10_000):
        topics = rng.integers(N_TOPICS, size=10_000)
        words = rng.integers(of_topic, size=(10_000, 6)) + of_topic * topics[:, np.newaxis]
        words[:, 5] = rng.integers(N_WORDS, size=10_000)
        for topic, row in zip(topics, words, strict=True):
            yield " ".join(f"word{word}" for word in row), f"topic {topic}"


class Service(NamedTuple):
    """A service in a process of its own."""

    address: tuple[str, int]
    process: int

    @property
    def processor_ms(self) -> float:
        """Milliseconds that the threads of all its processes have worked."""
        workers = Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()
        n_ticks = 0
        for process in (self.process, *workers):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            n_ticks += int(fields[11]) + int(fields[12])
        return 1e3 * n_ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(path: Path, *options: str) -> Iterator[Service]:
    """Serve a collection."""
    command = [sys.executable, "-m", "acqh", "serve", str(path), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address_of = re.search(r"at (http://\S+)$", process.stderr.readline())
        assert address_of, "the service did not start"
        address = urlsplit(address_of[1])
        try:
            yield Service((str(address.hostname), int(address.port or 0)), process.pid)
        finally:
            process.terminate()
            process.stderr.read()


def text_request(text: str) -> bytes:
    content = json.dumps({"text": text}).encode()
    head = "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def picture_request(picture: bytes) -> bytes:
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    content = start + picture + b"\r\n--x--\r\n"
    head = (
        "POST /search/images HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: multipart/form-data; boundary=x"
    )
    return f"{head}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Asking:
    """A connection that asks one query after the other."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.wanted = 0  # bytes of the answer, once its header is there
        self.sent = 0.0

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self.received, self.wanted = b"", 0
        self.sent = time.perf_counter()
        self.socket.sendall(request)

    def read(self) -> bool:
        """Read what is there; say whether it is the whole answer."""
        self.received += self.socket.recv(1 << 18)
        if not self.wanted:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            length = re.search(rb"content-length: (\d+)", self.received[:end])
            assert length
            self.wanted = end + 4 + int(length[1])
        return len(self.received) >= self.wanted


def load(
    service: Service, requests: Iterator[bytes], n_connections: int, seconds: float
) -> dict[str, float]:
    """Ask for some seconds, and again a little later where the service has too much to do."""
    times, parts = [], []
    before = service.processor_ms
    with selectors.DefaultSelector() as selector:
        for _ in range(n_connections):
            asking = Asking(service.address)
            selector.register(asking.socket, selectors.EVENT_READ, asking)
            asking.ask(next(requests))
        started = time.perf_counter()
        until = started + seconds
        while (now := time.perf_counter()) < until:
            for key, _ in selector.select(until - now):
                asking = key.data
                if not asking.read():
                    continue
                spent = 1e3 * (time.perf_counter() - asking.sent)
                if asking.received.startswith(b"HTTP/1.1 200 "):
                    times.append(spent)
                    if len(times) % 32 == 0:  # to read them all would take the client's time
                        inside = json.loads(asking.received.partition(b"\r\n\r\n")[2])
                        spans = inside["milliseconds"]
                        parts.append((spans["search"] / spent, spans["encode"] / spent))
                else:
                    assert asking.received.startswith(b"HTTP/1.1 429 "), asking.received
                    time.sleep(0.01)
                asking.ask(next(requests))
        worked = service.processor_ms - before
        for key in list(selector.get_map().values()):
            key.data.socket.close()
    median, slow = np.percentile(times, [50, 99])
    search, encode = np.median(parts, axis=0) if parts else (np.nan, np.nan)
    return {
        "requests_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(float(median), 3),
        "p99_ms": round(float(slow), 3),
        "processor_ms": round(worked / len(times), 3),
        "search_share": round(float(search), 4),
        "encode_share": round(float(encode), 4),
    }


def run(case: dict[str, object], service: Service, queries: dict[str, Iterator[bytes]]) -> None:
    for kind, requests in queries.items():
        warm = Asking(service.address)
        for request in islice(requests, N_REPEATED):
            warm.ask(request)
            while not warm.read():
                pass
        warm.socket.close()
        for n_connections in CONNECTIONS:
            runs = [load(service, requests, n_connections, SECONDS) for _ in range(N_RUNS)]
            best = max(runs, key=lambda figures: figures["requests_per_second"])
            emit({"benchmark": "serve", **case, "query": kind, "connections": n_connections} | best)


def run_emoji(folder: Path) -> None:
    items = emoji_items()
    path = folder / "emoji.acqh"
    with Collection.build(items, path) as collection:
        n_items = len(collection)
    names = list(dict.fromkeys(item.text.split(",")[0] for item in items))
    rng = np.random.default_rng(0)
    repeated = cycle(map(text_request, rng.choice(names, N_REPEATED, replace=False)))
    new = (text_request(" ".join(rng.choice(names, 2))) for _ in count())
    mixed = (next(kind) for kind in cycle([new, repeated]))
    pictures = cycle([picture_request(item.image) for item in items[::8]])
    for encoder in ("fast", "default"):
        case = {"collection": "emoji", "n_items": n_items, "query_encoder": encoder}
        with serving(path, "--query-encoder", encoder) as service:
            run(case, service, {"repeated": repeated, "new": new, "mixed": mixed})
            if encoder == "default":
                run(case, service, {"picture": pictures})


def run_million(folder: Path, n_items: int) -> None:
    items = (Item(text=text, labels=[topic]) for text, topic in made_up_texts(n_items))
    started = time.perf_counter()
    Collection.build(items, folder / "million.acqh").close()
    built = {"benchmark": "serve", "collection": "texts", "n_items": n_items}
    emit(built | {"build_seconds": round(time.perf_counter() - started, 1)})
    words = [" ".join(text.split()[:3]) for text, _ in made_up_texts(10_000)]
    with serving(folder / "million.acqh") as service:
        case = {"collection": "texts", "n_items": n_items}
        run(case, service, {"repeated": cycle(map(text_request, words))})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also with a million items")
    parser.add_argument(
        "--n-items", type=int, default=1_000_000, help="this many instead of a million"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run_emoji(Path(scratch))
        if options.full:
            run_million(Path(scratch), options.n_items)
