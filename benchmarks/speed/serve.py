"""Load the service with a real client on loopback, in another process.

One JSON line per case: requests per second, and milliseconds per request at the median and at the
99th percentile, over 1, 16 and 64 connections, each of which sends its next query when it has read
the last answer. `search_share` is the index's part of a request's time, at the median, and
`encode_share` that of turning the query into a vector. The emoji set is searched by text and by
image; with ``--full`` also a million made-up texts.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from acqh.collection import Collection, Item
from acqh.data import load_dataset
from benchmarks._measure import emit

CONNECTIONS = (1, 16, 64)
SECONDS = 4.0
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


@contextmanager
def serving(path: Path) -> Iterator[tuple[str, int]]:
    """Serve a collection in a process of its own; give its host and port."""
    command = [sys.executable, "-m", "acqh", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)$", process.stderr.readline())
        assert found, "the service did not start"
        address = urlsplit(found[1])
        try:
            yield str(address.hostname), int(address.port or 0)
        finally:
            process.terminate()
            process.stderr.read()


def json_request(body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def picture_request(picture: bytes) -> bytes:
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    content = start + picture + b"\r\n--x--\r\n"
    head = (
        "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x"
    )
    return f"{head}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


async def ask(
    address: tuple[str, int], requests: Sequence[bytes], first: int, until: float
) -> list[tuple[float, float, float]]:
    """Send requests on one connection; return milliseconds of each, and of encoding and search."""
    reader, writer = await asyncio.open_connection(*address)
    taken = []
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(requests[first % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length
        body = await reader.readexactly(int(length[1]))
        if head.startswith(b"HTTP/1.1 429 "):  # of images, the service takes half as many at once
            await asyncio.sleep(0.01)
            continue
        assert head.startswith(b"HTTP/1.1 200 "), head
        elapsed = (time.perf_counter() - started) * 1000
        inside = json.loads(body)["milliseconds"]
        taken.append((elapsed, inside["encode"], inside["search"]))
        first += 1
    writer.close()
    await writer.wait_closed()
    return taken


async def load(
    address: tuple[str, int], requests: Sequence[bytes], n_connections: int, seconds: float
) -> dict[str, float]:
    until = time.perf_counter() + seconds
    step = len(requests) // n_connections
    asking = [ask(address, requests, step * number, until) for number in range(n_connections)]
    taken = np.array([row for rows in await asyncio.gather(*asking) for row in rows])
    median, slow = np.percentile(taken[:, 0], [50, 99])
    return {
        "requests_per_second": round(len(taken) / seconds, 1),
        "p50_ms": round(float(median), 3),
        "p99_ms": round(float(slow), 3),
        "search_share": round(float(np.median(taken[:, 2] / taken[:, 0])), 4),
        "encode_share": round(float(np.median(taken[:, 1] / taken[:, 0])), 4),
    }


def run(name: str, n_items: int, path: Path, queries: dict[str, list[bytes]]) -> None:
    with serving(path) as address:
        for kind, requests in queries.items():
            asyncio.run(load(address, requests, 1, 1.0))
            for n_connections in CONNECTIONS:
                case = {"benchmark": "serve", "collection": name, "n_items": n_items,
                        "query": kind, "n_connections": n_connections}  # fmt: skip
                measured = asyncio.run(load(address, requests, n_connections, SECONDS))
                emit(case | measured)


def run_emoji(folder: Path) -> None:
    items = emoji_items()
    with Collection.build(items, folder / "emoji.acqh") as collection:
        n_items = len(collection)
    texts = [json_request({"text": item.text.split(",")[0]}) for item in items]
    run("emoji", n_items, folder / "emoji.acqh", {
        "text": texts, "picture": [picture_request(item.image) for item in items[::8]]
    })  # fmt: skip


def run_million(folder: Path, n_items: int) -> None:
    items = (Item(text=text, labels=[topic]) for text, topic in made_up_texts(n_items))
    started = time.perf_counter()
    Collection.build(items, folder / "million.acqh").close()
    built = {"benchmark": "serve", "collection": "texts", "n_items": n_items}
    emit(built | {"build_seconds": round(time.perf_counter() - started, 1)})
    words = [" ".join(text.split()[:3]) for text, _ in made_up_texts(10_000)]
    run("texts", n_items, folder / "million.acqh", {
        "text": [json_request({"text": text}) for text in words]
    })  # fmt: skip


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
