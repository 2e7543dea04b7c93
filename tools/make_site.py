"""Make the emoji site in a folder and check it: its size, and that a browser finds a cat there.

``python tools/make_site.py site`` prints one line of JSON. The browser is asked where Playwright
and Chromium are installed.
"""

import argparse
import functools
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from acqh.cli.demo import emoji_items
from acqh.collection import Collection
from acqh.encoders import make_encoder
from acqh.export import site

MOST_BYTES = 4_000_000
# Fewer than the usual components: codebooks and the table of words are so much smaller.
N_COMPONENTS, SIDE = 48, 48
IMAGE_SIZE = 128
QUERY, WANTED = "sad cat", "crying cat"


class Quiet(SimpleHTTPRequestHandler):
    """A web host that keeps no log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def browsing(folder: Path, **settings: Any) -> Iterator[Any]:
    """Give a page of Chromium that shows a folder as a web host does; `settings`: of the page."""
    from playwright.sync_api import sync_playwright

    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as started:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"], timeout=120_000
        )
        page = browser.new_page(**settings)
        page.set_default_timeout(120_000)
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        yield page
        browser.close()
        server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    encoder = make_encoder("efficientnet", view="image").set_params(size=IMAGE_SIZE)
    with tempfile.TemporaryDirectory() as temporary:
        settings = {"image_encoder": encoder, "n_components": N_COMPONENTS}
        with Collection.build(
            list(emoji_items()), f"{temporary}/emoji.acqh", **settings
        ) as collection:
            report = site(collection, folder, fields=["name", "emoji"], thumbnails=SIDE)
    n_bytes = sum(report.n_bytes.values())
    if n_bytes > MOST_BYTES:
        sys.exit(f"the site has {n_bytes:,} bytes, more than {MOST_BYTES:,}")
    print(json.dumps({**asdict(report), "bytes": n_bytes, "first": ask(folder)}))


def ask(folder: Path) -> str | None:
    """Return what a browser finds first; None where there is no browser."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    if shutil.which("chromium") is None:
        return None
    with browsing(folder) as page:
        page.fill("#text", QUERY)
        first = page.locator("#hits a").first
        first.and_(page.locator(f"[title^='{WANTED}']")).wait_for()
        title: str = first.get_attribute("title")
    return title


if __name__ == "__main__":
    main()
