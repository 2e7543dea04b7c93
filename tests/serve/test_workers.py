"""Several worker processes behind one listening socket."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from acqh.serve import Settings, create_app, run
from acqh.serve.settings import Limits

WRITE = {"Authorization": "Bearer write-0123456789abcdef"}
pytestmark = pytest.mark.slow


def until(condition, seconds=120.0):
    """Wait for something that is bound to happen."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


def children(process):
    """Return the worker processes of a supervisor."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in listed}
    return {pid for pid, path in commands.items() if b"spawn_main" in path.read_bytes()}


def is_gone(pid):
    """Return whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def serving(path, log, *options, n_workers=2):
    """Serve a collection by several processes; give a client, the supervisor and its log."""
    command = [sys.executable, "-m", "acqh", "serve", str(path), "--port", "0"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--workers", str(n_workers), *map(str, options)], stderr=file
        )
    try:
        address = until(lambda: re.search(r" at (http://\S+)", log.read_text()))
        with httpx.Client(base_url=address[1], timeout=60, trust_env=False) as client:
            until(lambda: f"{n_workers} workers are serving" in log.read_text())
            yield client, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def ask(client, path="/healthz", **options):
    """Send a request on a connection of its own."""
    with httpx.Client(base_url=client.base_url, timeout=60, trust_env=False) as other:
        return other.request("POST" if "json" in options else "GET", path, **options)


def test_metrics_of_all_workers_are_in_one_scrape(own_copy, tmp_path):
    with serving(own_copy, tmp_path / "log") as (client, process):
        ask(client, "/search", json={"text": "cat"})
        before = count_of(client)
        for _ in range(40):
            assert ask(client, "/search", json={"text": "cat"}).status_code == 200
        assert count_of(client) == before + 40
        page = ask(client, "/metrics").text
        shown = set(map(int, re.findall(r'acqh_worker_info\{pid="(\d+)"\} 1.0', page)))
        assert shown == children(process)
        assert len(shown) == 2


def count_of(client):
    page = ask(client, "/metrics").text
    line = 'acqh_requests_total{method="POST",route="/search",status="200"} '
    return float(page.partition(line)[2].partition("\n")[0])


def test_a_worker_that_dies_is_replaced_and_shutdown_ends_all(own_copy, tmp_path):
    with serving(own_copy, tmp_path / "log") as (client, process):
        before = children(process)
        os.kill(min(before), signal.SIGKILL)
        # The killed process is listed until its supervisor notices.
        until(lambda: len(children(process)) == len(children(process) - before) + 1 == 2)
        until(lambda: Counter(ask(client).status_code for _ in range(5)) == {200: 5})
        workers = children(process)
    for worker in workers:
        until(lambda pid=worker: is_gone(pid))
    assert process.returncode == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def n_sockets(pid):
    """Return how many sockets a process has open."""
    links = [path for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return sum(str(path.readlink()).startswith("socket:") for path in links)


def test_connections_are_spread_evenly(own_copy, tmp_path):
    with serving(own_copy, tmp_path / "log") as (client, process):
        before = {pid: n_sockets(pid) for pid in children(process)}
        address = client.base_url.host, client.base_url.port
        opened = [socket.create_connection(address) for _ in range(20)]
        until(lambda: sum(map(n_sockets, before)) == sum(before.values()) + 20)
        assert sorted(n_sockets(pid) - before[pid] for pid in before) == [10, 10]
        for connection in opened:
            connection.close()


def test_1000_idle_connections_hold_nobody_up(own_copy, tmp_path):
    with serving(own_copy, tmp_path / "log") as (client, _):
        address = client.base_url.host, client.base_url.port
        with ExitStack() as idle:
            for _ in range(1_000):
                idle.enter_context(socket.create_connection(address))
            statuses = [ask(client, "/search", json={"text": "cat"}).status_code for _ in range(20)]
        assert set(statuses) == {200}


def test_workers_end_with_their_supervisor(own_copy, tmp_path):
    with serving(own_copy, tmp_path / "log") as (_, process):
        workers = children(process)
        process.kill()
        process.wait(60)
        for worker in workers:
            until(lambda pid=worker: is_gone(pid))


def test_a_reload_reaches_every_worker(own_copy, tmp_path):
    log = tmp_path / "log"
    with serving(own_copy, log) as (_, process):
        process.send_signal(signal.SIGHUP)
        until(lambda: log.read_text().count("is reloaded: 38 items") == 2)


def test_what_one_worker_writes_every_worker_finds(own_copy, tmp_path, token_files):
    options = ["--write-token-file", token_files["write_token_file"]]
    with serving(own_copy, tmp_path / "log", *options) as (client, _):
        for n in range(10):
            new = {"items": [{"text": f"black cat {n}", "id": f"new-{n}"}]}
            assert ask(client, "/items", json=new, headers=WRITE).status_code == 201
            statuses = [ask(client, f"/item?id=new-{n}").status_code for _ in range(6)]
            assert set(statuses) == {200}


def test_an_error_at_the_start_of_workers_reaches_the_caller(tmp_path, built):
    token = tmp_path / "token"
    token.write_text("short")
    settings = Settings(collection=built, port=0, workers=2, token_file=token)
    with pytest.raises(ValueError, match="16"):
        run(settings)


def test_limits_are_divided_among_workers():
    limits = Limits()
    part = limits.divided(4)
    assert part.max_requests == limits.max_requests // 4
    assert part.max_connections == limits.max_connections // 4
    assert part.max_buffered_bytes == limits.max_buffered_bytes // 4
    assert part.max_body_bytes == limits.max_body_bytes
    assert Limits(max_requests=1).divided(4).max_requests == 1


def test_an_application_can_be_made_from_the_environment_alone(built, monkeypatch):
    monkeypatch.setenv("ACQH_COLLECTION", str(built))
    app = create_app()
    assert len(app.state.live.collection) == 38
    app.state.live.close()


def test_an_interrupt_while_workers_start_ends_all_without_a_traceback(own_copy, tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-m", "acqh", "serve", str(own_copy), "--port", "0"]
    with log.open("wb") as file:
        command += ["--workers", "2"]
        process = subprocess.Popen(command, stderr=file, start_new_session=True)
    until(lambda: " at http://" in log.read_text())
    until(lambda: len(children(process)) == 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    process.wait(60)
    text = log.read_text()
    assert "Traceback" not in text, text


def test_nothing_is_lost_through_writes_retraining_and_killed_workers():
    program = Path(__file__).parents[2] / "tools" / "soak_serve.py"
    command = [sys.executable, str(program), "--minutes", "0.25"]
    done = subprocess.run(command, capture_output=True, text=True)
    counts = json.loads(done.stdout.splitlines()[-1])
    assert {counts[name] for name in ("failed", "lost", "damage", "tracebacks")} == {0}, done.stderr
    assert min(counts[name] for name in ("searches", "added", "killed", "retrained")) > 0
