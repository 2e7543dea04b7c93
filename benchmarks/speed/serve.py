r"""Load the server over loopback with a light client in another process.

Prints one JSON line per case, of the best of several runs. It has requests per second, and
milliseconds per request at the median and at the 99th percentile. `processor_ms` is the server's
processor time per request; other work on the machine changes it least. Each connection sends its
next query when it has read the last answer. `search_share` is the share of a request's time that
searching takes, at the median, and `encode_share` that of encoding the query.

Collections: the emoji (``emoji``), encoded by MiniLM and queried with either encoder of texts, and
captions made from a grammar (a number of items), encoded by ``--text-encoder``. Queries: texts of
earlier requests (``repeated``), texts that no request had before (``new``), one of either kind in
turn (``mixed``), and images (``image``, of the emoji).

    python -m benchmarks.speed.serve --items emoji,100000,1000000 --workers 1,2

``--before`` is another checkout of acqh, whose server is loaded in turn with this one's: the field
`code` says which. It also builds the collections, and this one gets copies. Those that are in
``--folder`` are used again. With one worker, 500 answers of each kind of query are compared before
the measurements: the field `different` counts those that are not identical.

    python -m benchmarks.speed.serve --items emoji,100000 --text-encoder minilm --folder F \\
        --query-encoders fast --queries new,repeated,mixed --runs 1 --before ../old
"""

import argparse
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from acqh.collection import Collection, Item
from acqh.data import load_dataset
from benchmarks._measure import emit

CODES = "before", "after"
N_REPEATED = 500
N_WARM = 300
N_COMPARED = 500
_RETRY_SECONDS = 0.01
# Of captions; earlier words of a list are more frequent.
ADJECTIVES = """small red old young blue white black happy large wooden quiet bright green tired
yellow busy empty wet striped broken golden muddy shiny dusty narrow curious sleepy ancient fluffy
rusty""".split()  # noqa: SIM905
NOUNS = """man woman dog cat child bicycle car horse bird train boat bus girl boy sheep cow player
truck bear elephant giraffe zebra airplane surfer skier kite umbrella pizza cake laptop clock
bench teapot lighthouse tractor violin lantern parrot tortoise canoe""".split()  # noqa: SIM905
VERBS = """standing sitting riding walking lying running playing looking eating waiting jumping
sleeping flying driving swimming climbing resting dancing reading hiding""".split()  # noqa: SIM905
PLACES = """street beach field table porch park road lake snow grass kitchen mountain river station
bridge forest harbour garden desert rooftop stadium museum market balcony tunnel vineyard castle
waterfall orchard pier""".split()  # noqa: SIM905


def emoji_items() -> list[Item]:
    data = load_dataset("emoji")
    groups = [data.label_names[row.argmax()] for row in np.asarray(data.labels)]
    rows = zip(data.items["image"], data.items["text"], groups, strict=True)
    return [Item(image=picture, text=text, labels=[group]) for picture, text, group in rows]


def captions(n_captions: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield captions of photos, and the subject of each."""
    rng = np.random.default_rng(seed)
    lists = ADJECTIVES, NOUNS, VERBS, PLACES, ADJECTIVES, NOUNS
    for start in range(0, n_captions, 10_000):
        n_rows = min(10_000, n_captions - start)
        picks = [(rng.random(n_rows) ** 1.5 * len(words)).astype(int) for words in lists]
        for row in zip(*picks, strict=True):
            a, noun, verb, place, b, other = (words[i] for words, i in zip(lists, row, strict=True))
            yield f"a {a} {noun} {verb} near a {place} with a {b} {other}", noun


class Service(NamedTuple):
    """A server in a process of its own."""

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
def serving(
    path: Path, n_workers: int, *options: str, source: Path | None = None
) -> Iterator[Service]:
    """Serve a collection until all workers are ready; `source`: of another checkout's code."""
    command = [sys.executable, "-m", "acqh", "serve", str(path), "--port", "0"]
    command += ["--workers", str(n_workers), *options]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        address, log = None, []
        for line in process.stderr:
            log.append(line)
            match = re.search(r" at (http://\S+)$", line)
            address = urlsplit(match[1]) if match else address
            if address and (n_workers == 1 or "workers are serving" in line):
                break
        assert address, f"the server did not start: {''.join(log)}"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Service((str(address.hostname), int(address.port or 0)), process.pid)
        finally:
            process.terminate()
            process.wait()


def text_request(text: str) -> bytes:
    return json_request({"text": text})


def json_request(query: dict[str, Any]) -> bytes:
    content = json.dumps(query).encode()
    head = "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def body_of(message: bytes) -> bytes:
    return message.partition(b"\r\n\r\n")[2]


def image_request(image: bytes) -> bytes:
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    content = start + image + b"\r\n--x--\r\n"
    head = (
        "POST /search/images HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: multipart/form-data; boundary=x"
    )
    return f"{head}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Client:
    """A connection that sends one query after the other."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.n_expected = 0  # bytes of the answer, once its header has arrived
        self.sent_at = 0.0

    def send(self, request: bytes) -> None:
        """Send a request."""
        self.received, self.n_expected = b"", 0
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def read(self) -> bool:
        """Read what has arrived; return whether the answer is complete."""
        received = self.socket.recv(1 << 18)
        if not received:
            raise ConnectionError("the server closed a connection")
        self.received += received
        if not self.n_expected:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            length = re.search(rb"content-length: (\d+)", self.received[:end])
            assert length
            self.n_expected = end + 4 + int(length[1])
        return len(self.received) >= self.n_expected

    def ask(self, request: bytes) -> dict[str, Any]:
        """Return the answer to a request."""
        self.send(request)
        while not self.read():
            pass
        answer: dict[str, Any] = json.loads(body_of(self.received))
        return answer

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def load(
    server: Service, requests: Iterator[bytes], n_connections: int, seconds: float
) -> dict[str, float]:
    """Send queries for some seconds; after 429, a connection waits a little."""
    times, parts, n_rejected = [], [], 0
    waiting: deque[tuple[float, Client]] = deque()  # until when, in order
    before = server.processor_ms
    with selectors.DefaultSelector() as selector:
        for _ in range(n_connections):
            client = Client(server.address)
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send(next(requests))
        started = time.perf_counter()
        until = started + seconds
        while (now := time.perf_counter()) < until:
            while waiting and waiting[0][0] <= now:
                waiting.popleft()[1].send(next(requests))
            for key, _ in selector.select(min(until, waiting[0][0] if waiting else until) - now):
                client = key.data
                if not client.read():
                    continue
                elapsed = 1e3 * (time.perf_counter() - client.sent_at)
                if client.received.startswith(b"HTTP/1.1 200 "):
                    times.append(elapsed)
                    if len(times) % 32 == 0:  # parsing all would take the client's time
                        answer = json.loads(body_of(client.received))
                        spans = answer["milliseconds"]
                        parts.append((spans["search"] / elapsed, spans["encode"] / elapsed))
                else:
                    assert client.received.startswith(b"HTTP/1.1 429 "), client.received
                    n_rejected += 1
                    waiting.append((time.perf_counter() + _RETRY_SECONDS, client))
                    continue
                client.send(next(requests))
        processor_ms = server.processor_ms - before
        for key in list(selector.get_map().values()):
            key.data.socket.close()
    median, slow = np.percentile(times, [50, 99])
    search, encode = np.median(parts, axis=0) if parts else (np.nan, np.nan)
    return {
        "requests_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(float(median), 3),
        "p99_ms": round(float(slow), 3),
        "processor_ms": round(processor_ms / len(times), 3),
        "rejected": n_rejected,
        "search_share": round(float(search), 4),
        "encode_share": round(float(encode), 4),
    }


def measure(
    case: dict[str, Any],
    paths: dict[str, Path],
    n_workers: int,
    encoder: str,
    queries: dict[str, Iterator[bytes]],
    options: Any,
) -> None:
    """Load the servers of this code and of the code before in turn, and print their best runs."""
    with ExitStack() as stack:
        servers = {}
        for code, path in paths.items():
            source = options.before / "src" if code == "before" else None
            server = serving(path, n_workers, "--query-encoder", encoder, source=source)
            servers[code] = stack.enter_context(server)
        if len(servers) > 1 and n_workers == 1:
            compare({**case, "query_encoder": encoder}, servers, queries)
        for kind in filter(queries.__contains__, options.queries):
            for server in servers.values():
                warm_up(server, islice(queries[kind], N_REPEATED if kind == "repeated" else N_WARM))
            for n_connections in map(int, options.connections.split(",")):
                runs: dict[str, list[dict[str, float]]] = {code: [] for code in servers}
                for _ in range(options.runs):
                    for code, server in servers.items():
                        results = load(server, queries[kind], n_connections, options.seconds)
                        runs[code].append(results)
                for code, results_of in runs.items():
                    best = max(results_of, key=lambda results: results["requests_per_second"])
                    labels = {"query_encoder": encoder, "workers": n_workers, "query": kind}
                    labels |= {"connections": n_connections, "code": code}
                    emit({"benchmark": "serve", **case, **labels} | best)


def compare(
    case: dict[str, Any], servers: dict[str, Service], queries: dict[str, Iterator[bytes]]
) -> None:
    """Print how many of 500 answers differ between this code and the code before, by kind."""
    with ExitStack() as stack:
        before, after = (
            stack.enter_context(closing(Client(servers[code].address))) for code in CODES
        )
        ids: list[str] = []
        texts = [json.loads(body_of(request)) for request in islice(queries["new"], N_COMPARED)]
        kinds = {
            mode: (json_request(text | {"mode": mode}) for text in texts)
            for mode in ("hybrid", "keyword", "semantic")
        }
        kinds["explained"] = (json_request(text | {"explain": True}) for text in texts)
        kinds["item"] = (json_request({"item": identifier, "k": 30}) for identifier in cycle(ids))
        if "image" in queries:
            kinds["image"] = queries["image"]
        for kind, requests in kinds.items():
            n_different = 0
            for request in islice(requests, N_COMPARED):
                answers = [client.ask(request) for client in (before, after)]
                for answer in answers:
                    del answer["milliseconds"]
                n_different += answers[0] != answers[1]
                ids += [hit["id"] for hit in answers[0]["hits"][:1]] if kind == "hybrid" else []
            results = {"answers": N_COMPARED, "different": n_different}
            emit({"benchmark": "serve", **case, "compared": kind} | results)


def warm_up(server: Service, requests: Iterator[bytes]) -> None:
    """Send requests over several connections, so that all workers get some."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(server.address))) for _ in range(4)]
        for client, request in zip(cycle(clients), requests, strict=False):
            client.ask(request)


def text_queries(repeated: list[str], new: Iterator[str]) -> dict[str, Iterator[bytes]]:
    """Return requests by kind; `new` texts are sent once."""
    again, fresh = cycle(map(text_request, repeated)), map(text_request, new)
    return {"new": fresh, "repeated": again, "mixed": (next(n) for n in cycle([fresh, again]))}


def build(name: str, folder: Path, options: Any) -> dict[str, Path]:
    """Build a collection unless it exists; return the path of each code's own."""
    paths = {code: folder / code / f"{name}-{options.text_encoder}.acqh" for code in CODES}
    if options.before is None:
        del paths["before"]
    first = next(iter(paths.values()))
    if not first.exists():
        source = Path(__file__).parents[2] if options.before is None else options.before
        environment = os.environ | {"PYTHONPATH": str(source / "src")}
        command = [sys.executable, "-m", "benchmarks.speed.serve", "--build", str(first)]
        command += ["--items", name, "--text-encoder", options.text_encoder]
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True)
        elapsed = round(time.perf_counter() - started, 1)
        emit({"benchmark": "serve", "collection": name, "build_seconds": elapsed})
    if not paths["after"].exists():
        shutil.copytree(first, paths["after"])
    return paths


def run_emoji(folder: Path, options: Any) -> None:
    items = emoji_items()
    paths = build("emoji", folder, options)
    case = {"collection": "emoji", "n_items": len(items)}
    names = list(dict.fromkeys(item.text.split(",")[0] for item in items))
    rng = np.random.default_rng(0)
    new = (" ".join(rng.choice(names, 2)) for _ in count())
    texts = text_queries(list(rng.choice(names, N_REPEATED, replace=False)), new)
    images = cycle([image_request(item.image) for item in items[::8]])
    for n_workers in map(int, options.workers.split(",")):
        for encoder in options.query_encoders.split(","):
            queries = texts | ({"image": images} if encoder == "default" else {})
            measure(case, paths, n_workers, encoder, queries, options)


def run_captions(folder: Path, n_items: int, options: Any) -> None:
    paths = build(str(n_items), folder, options)
    case = {"collection": "captions", "text_encoder": options.text_encoder, "n_items": n_items}
    texts = [" ".join(text.split()[1:4]) for text, _ in captions(N_REPEATED, seed=1)]
    # An adjective, the subject, the place, and the second subject.
    new = (
        " ".join(np.array(text.split())[[1, 2, 6, 9]])
        for seed in count(2)
        for text, _ in captions(10_000, seed)
    )
    # Only texts that MiniLM encoded can be queried with another encoder.
    has_both = options.text_encoder != "tfidf"
    for n_workers in map(int, options.workers.split(",")):
        for encoder in options.query_encoders.split(",") if has_both else ["default"]:
            measure(case, paths, n_workers, encoder, text_queries(texts, new), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--items", default="emoji", help="Collections: emoji, or numbers of captions.")
    add("--workers", default="1,2", help="Numbers of worker processes.")
    add("--connections", default="1,8,64", help="Numbers of connections.")
    add("--query-encoders", default="fast,default", help="Encoders of query texts.")
    add("--text-encoder", default="tfidf", help="Encoder of captions: tfidf, or minilm (slow).")
    add("--queries", default="new,repeated,mixed,image", help="Kinds of queries.")
    add("--seconds", type=float, default=1.5, help="Duration of a run.")
    add("--runs", type=int, default=2, help="Runs per case; the best counts.")
    add("--folder", type=Path, help="Folder that keeps the collections. Default: a temporary one.")
    add("--before", type=Path, help="Another checkout of acqh to compare with.")
    add("--build", type=Path, help="Build the one collection of --items at this path, and exit.")
    options = parser.parse_args()
    options.queries = options.queries.split(",")
    if options.build is not None:
        options.build.parent.mkdir(parents=True, exist_ok=True)
        if options.items == "emoji":
            Collection.build(emoji_items(), options.build).close()
        else:
            rows = captions(int(options.items))
            items = (Item(text=text, labels=[noun]) for text, noun in rows)
            Collection.build(items, options.build, text_encoder=options.text_encoder).close()
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        for name in options.items.split(","):
            if name == "emoji":
                run_emoji(folder, options)
            else:
                run_captions(folder, int(name), options)


if __name__ == "__main__":
    main()
