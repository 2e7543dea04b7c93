"""The configurations of the deployment guide, run by the programs that they are for."""

import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
HOST = "search.example.org"
pytestmark = pytest.mark.slow


def configuration(language, host=HOST):
    """Return the first block of the guide in a language."""
    return re.search(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1].replace(
        HOST, host
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx(folder, upstream, port, host):
    """Return the command that starts nginx with the guide's configuration, without TLS."""
    site = configuration("nginx", host).replace("127.0.0.1:8000", upstream)
    site = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", site)
    site = re.sub(r" *ssl_certificate.*\n", "", site)
    paths = " ".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    settings = f"daemon off; pid {folder}/pid; error_log {folder}/error; events {{}}\n"
    (folder / "nginx.conf").write_text(f"{settings} http {{ access_log off; {paths}\n{site} }}")
    return ["nginx", "-p", str(folder), "-e", f"{folder}/error", "-c", f"{folder}/nginx.conf"]


def caddy(folder, upstream, port, host):
    """Return the command that starts Caddy with the guide's configuration, without TLS."""
    site = configuration("caddy", host).replace("127.0.0.1:8000", upstream)
    site = site.replace(f"{host} {{", f"http://{host}:{port} {{", 1)
    (folder / "Caddyfile").write_text(f"{{\n admin off\n}}\n{site}")
    return ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


@contextmanager
def proxied(make_command, folder, client, host=HOST):
    """Run a proxy in front of a server; give a client of the proxy."""
    port = free_port()
    upstream = "{}:{}".format(*client.address)
    command = make_command(folder, upstream, port, host)
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        headers = {"Host": host}
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, headers=headers, trust_env=False) as proxy:
            end = time.monotonic() + 60
            while True:
                try:
                    proxy.get("/healthz")
                    break
                except httpx.TransportError:
                    assert process.poll() is None, "the proxy did not start"
                    assert time.monotonic() < end
                    time.sleep(0.1)
            yield proxy
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("make_command", [nginx, caddy])
def test_a_proxy_with_the_guides_configuration_answers_queries(
    built, start, tmp_path, make_command, make_picture
):
    with (
        start(built, allowed_hosts=[HOST]) as client,
        proxied(make_command, tmp_path, client) as proxy,
    ):
        assert len(proxy.post("/search", json={"text": "cat"}).json()["hits"]) == 10
        image = {"image": make_picture((20, 60, 220))}
        assert proxy.post("/search/images", files=image).status_code == 200
        assert proxy.get("/").headers["content-type"].startswith("text/html")
        assert proxy.get("/metrics").status_code == 403
        assert client.get("/metrics").status_code == 200
        assert proxy.post("/search", content=b"x" * 9_000_000).status_code == 413


@pytest.mark.parametrize("make_command", [nginx, caddy])
def test_a_server_without_allowed_hosts_or_token_rejects_a_proxy(
    built, start, tmp_path, make_command
):
    with start(built) as client, proxied(make_command, tmp_path, client, "localhost") as proxy:
        assert proxy.post("/search", json={"text": "cat"}).status_code == 403


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = configuration("ini").replace("/opt/acqh/bin/acqh", sys.executable)
    (tmp_path / "acqh.service").write_text(unit)
    command = ["systemd-analyze", "verify", str(tmp_path / "acqh.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "acqh.service" in line]
    assert complaints == []
