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
from dataclasses import asdict
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from acqh.cli.demo import emoji_items
from acqh.collection import Collection
from acqh.encoders import make_encoder
from acqh.export import site

MOST_BYTES = 4_000_000
# Fewer than the usual components: codebooks and the table of words are so much smaller.
N_COMPONENTS, SIDE = 48, 48
IMAGE_SIZE = 128
QUERY, WANTED = "sad cat", "crying cat"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    encoder = make_encoder("efficientnet", view="image").set_params(size=IMAGE_SIZE)
    with tempfile.TemporaryDirectory() as temporary:
        settings = {"image_encoder": encoder, "n_components": N_COMPONENTS}
        with Collection.build(list(emoji_items()), f"{temporary}/emoji.acqh", **settings) as made:
            report = site(made, folder, columns=["name", "emoji"], thumbnails=SIDE)
    n_bytes = sum(report.n_bytes.values())
    if n_bytes > MOST_BYTES:
        sys.exit(f"the site has {n_bytes:,} bytes, more than {MOST_BYTES:,}")
    print(json.dumps({**asdict(report), "bytes": n_bytes, "first": ask(folder)}))


def ask(folder: Path) -> str | None:
    """Return what a browser finds first; None where there is no browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as started:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.fill("#text", QUERY)
        first = page.locator("#hits a").first
        first.and_(page.locator(f"[title^='{WANTED}']")).wait_for()
        found = first.get_attribute("title")
        browser.close()
        server.shutdown()
    return found


if __name__ == "__main__":
    main()
