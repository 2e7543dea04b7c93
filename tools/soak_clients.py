"""Attack a service from many sides while polite clients use it.

    python tools/soak_clients.py --seconds 20

Each attack lasts so long: bodies that are declared and never sent, answers that are never read,
JSON of very many keys, images of very many pixels, bodies broken off, and bytes that are not HTTP.
Meanwhile a polite client asks for words and another for `/healthz`. Prints one JSON line. What
must be 0: `failed` (polite requests without a right answer; 429 and 503, after which one asks
again, count as `busy`), `unwell` (`/healthz` not answered) and `tracebacks` in the log. The most
memory and the length of the log have bounds, too.
"""

import argparse
import io
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from PIL import Image

from acqh.collection import Collection, Item

N_FILES = 128
N_CONNECTIONS = 140
MOST_MB = 1_000
MOST_LOG_BYTES = 200_000
POST = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
JSON, FORM = b"application/json", b"multipart/form-data; boundary=x"
Address = tuple[str, int]


def build(path: Path) -> None:
    """Make a collection whose answers may be long, and which knows images."""
    kinds = {"cat": (120, 120, 120), "car": (220, 30, 30)}
    items = []
    for turn in range(200):
        for kind, colour in kinds.items():
            file = io.BytesIO()
            Image.new("RGB", (32, 32), colour).save(file, "PNG")
            note = {"note": "miaow " * 1600}
            items.append(
                Item(image=file.getvalue(), text=f"{kind} {turn}", labels=[kind], fields=note)
            )
    Collection.build(
        items, path, n_components=2, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()


@contextmanager
def serving(path: Path, log: Path) -> Iterator[tuple[Address, int]]:
    """Serve in a process that may open few files; give its address and its number."""
    code = (
        "import resource, sys; from acqh.cli import main; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({N_FILES}, {N_FILES})); "
        f"sys.argv = ['acqh', 'serve', {str(path)!r}, '--port', '0']; main()"
    )
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", code], stderr=file)
    try:
        while not (address := re.search(rb"http://127.0.0.1:(\d+)/", log.read_bytes())):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield ("127.0.0.1", int(address.group(1))), process.pid
    finally:
        process.terminate()
        process.wait(60)


def connect(address: Address) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(5)
    connection.connect(address)
    return connection


def holding(address: Address, sent: Callable[[], bytes], until: float) -> int:
    """Keep many connections that send something and neither send nor read any more."""
    held: list[socket.socket] = []
    n_made = 0
    while time.monotonic() < until:
        with suppress(OSError):
            connection = connect(address)
            connection.sendall(sent())
            held.append(connection)
            n_made += 1
        if len(held) > N_CONNECTIONS:
            held.pop(0).close()
        time.sleep(0.01)
    for connection in held:
        connection.close()
    return n_made


def sending(address: Address, sent: Callable[[], bytes], until: float) -> int:
    """Send something again and again from several threads, and read what comes."""
    counts: Counter[str] = Counter()

    def send() -> None:
        while time.monotonic() < until:
            with suppress(OSError), connect(address) as connection:
                counts["sent"] += 1
                connection.sendall(sent())
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts["sent"]


def attacks(rng: random.Random) -> dict[str, tuple[Callable[..., int], Callable[[], bytes]]]:
    """Return what is done to the service, by name."""
    much = json.dumps({"text": "cat", "k": 400}).encode()
    keys = json.dumps({f"key {n}": n for n in range(60_000)}).encode()
    file = io.BytesIO()
    Image.new("1", (5_000, 3_000)).save(file, "PNG")
    part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    image = part + file.getvalue() + b"\r\n--x--\r\n"
    return {
        "idle_bodies": (
            holding,
            lambda: POST % rng.choice([(JSON, 10**6), (FORM, 8 * 10**6), (JSON, 10**9)]),
        ),
        "never_read": (holding, lambda: POST % (JSON, len(much)) + much),
        "many_keys": (sending, lambda: POST % (JSON, len(keys)) + keys),
        "many_pixels": (sending, lambda: POST % (FORM, len(image)) + image),
        "hang_ups": (sending, lambda: POST % (FORM, len(image)) + image[: rng.randrange(200)]),
        "not_http": (sending, lambda: rng.randbytes(rng.randrange(1, 400)) + b"\r\n\r\n"),
    }


def ask(address: Address, method: str, path: str, body: bytes | None) -> int:
    """Return the status of an answer, or 0 where there is none."""
    connection = HTTPConnection(*address, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()
    return response.status


def politely(address: Address, counts: Counter[str], stop: threading.Event) -> None:
    """Use the service as people do."""
    body = b'{"text": "cat", "k": 3}'
    while not stop.is_set():
        started = time.monotonic()
        well = ask(address, "GET", "/healthz", None)
        counts["unwell"] += well != 200
        status = ask(address, "POST", "/search", body)
        counts["asked"] += 1
        counts["busy"] += status in (429, 503)
        counts["failed"] += status not in (200, 429, 503)
        counts["slowest_ms"] = max(counts["slowest_ms"], round(1000 * (time.monotonic() - started)))
        stop.wait(0.05)


def megabytes(process: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) // 1024  # type: ignore[union-attr]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "c.acqh"), Path(folder, "log.txt")
        build(path)
        with serving(path, log) as (address, process):
            before = megabytes(process)
            stop = threading.Event()
            polite = threading.Thread(target=politely, args=(address, counts, stop))
            polite.start()
            for name, (attack, sent) in attacks(rng).items():
                counts[name] = attack(address, sent, time.monotonic() + arguments.seconds)
            stop.set()
            polite.join()
            counts["more_mb"] = megabytes(process) - before
        written = log.read_bytes()
    counts["log_bytes"], counts["tracebacks"] = len(written), written.count(b"Traceback")
    zero = ("failed", "unwell", "tracebacks")
    print(json.dumps({**dict.fromkeys(zero, 0), **counts}))
    bounded = counts["more_mb"] <= MOST_MB and counts["log_bytes"] <= MOST_LOG_BYTES
    return 0 if bounded and not any(counts[name] for name in zero) else 1


if __name__ == "__main__":
    sys.exit(main())
