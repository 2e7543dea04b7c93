"""Take the pictures of the documentation in Chromium.

    python tools/screenshot.py photos.acqh                     # all pictures, in docs/images
    python tools/screenshot.py photos.acqh --only map phone
    python tools/screenshot.py photos.acqh --report results/report/index.html

The photographs of docs/images are modified copies of photographs of Pixabay
(github.com/yavuzceliker/sample-images), under the Pixabay Content License. The collection has all
2,000 of them. The dates of their files were set at random.
"""

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TYPED = "red car"


def show(page: Page, **query: str) -> None:
    """Open the address of a query, and wait until everything that is visible is loaded."""
    page.goto(f"{page.url.partition('?')[0]}?{urlencode(query)}", timeout=120_000)
    settle(page)


def settle(page: Page) -> None:
    page.wait_for_selector("#hits img", timeout=120_000)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1_500)


def open_item(page: Page) -> None:
    show(page, q="elephant")
    page.click("#hits li >> nth=0")
    page.wait_for_selector("#detail[open]")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1_500)


def explain(page: Page) -> None:
    show(page, q="lighthouse")
    page.click("#how-toggle")
    settle(page)


def open_map(page: Page) -> None:
    show(page, q="boat on the water", view="map")
    page.wait_for_selector("#legend li", timeout=120_000)
    page.wait_for_timeout(2_000)


# Name: what is done, width, height, and settings of the browser.
PICTURES: dict[str, tuple[Any, int, int, dict[str, Any]]] = {
    "photos": (lambda page: show(page, q="mountain lake"), 1280, 800, {}),
    "confidence": (lambda page: show(page, q="walrus"), 1280, 800, {}),
    "dark": (lambda page: show(page, q="sunset at the sea"), 1280, 800, {"color_scheme": "dark"}),
    "item": (open_item, 1280, 800, {}),
    "why": (explain, 1280, 800, {}),
    "map": (open_map, 1280, 800, {}),
    "timeline": (lambda page: show(page, period="2024"), 1280, 800, {}),
    "german": (lambda page: show(page, q="Berge mit Schnee"), 1280, 800, {"locale": "de-DE"}),
    "phone": (lambda page: show(page, q="dog"), 390, 844, {"device_scale_factor": 2}),
}


@contextmanager
def serve(collection: str) -> Iterator[str]:
    """Run ``acqh serve`` and yield its address."""
    command = [sys.executable, "-m", "acqh", "serve", collection, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if address := re.search(r"at (http://\S+)", line):
                    yield address[1]
                    return
            raise SystemExit(f"{collection} is not served")
        finally:
            server.terminate()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serve_site(collection: str) -> Iterator[str]:
    """Export the collection as a static site and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        command = [sys.executable, "-m", "acqh", "export", "site", collection, "--out", str(site)]
        subprocess.run([*command, "--fields", "date", "--quiet"], check=True)
        handler = partial(QuietHandler, directory=str(site))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def save(page: Page, name: str) -> None:
    """Write a picture as JPEG."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    if picture.width > 1280:
        picture = picture.resize((picture.width // 2, picture.height // 2))
    picture.save(IMAGES / f"{name}.jpg", quality=82, optimize=True, progressive=True)


def take(browser: Browser, address: str, name: str) -> None:
    """Take one picture of the web interface."""
    act, width, height, settings = PICTURES[name]
    page = browser.new_page(viewport={"width": width, "height": height}, **settings)
    page.goto(address, timeout=120_000)
    act(page)
    save(page, name)
    page.close()


def film(browser: Browser, address: str) -> None:
    """Write an animation of somebody who types."""
    page = browser.new_page(viewport={"width": 960, "height": 600})
    page.goto(address, timeout=120_000)
    settle(page)
    frames, times = [], []

    def keep(milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frames.append(picture.resize((720, 450), Image.Resampling.LANCZOS))
        times.append(milliseconds)

    keep(1_000)
    page.focus("#text")
    for end in range(1, len(TYPED) + 1):
        page.keyboard.type(TYPED[end - 1])
        page.wait_for_function(
            "words => document.querySelector('#summary').textContent.endsWith(words)",
            arg=f": {TYPED[:end].strip()}",
        )
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        keep(180)
    settle(page)
    keep(3_000)
    frames[0].save(
        IMAGES / "typing.webp",
        save_all=True,
        append_images=frames[1:],
        duration=times,
        loop=0,
        quality=60,
        method=6,
    )
    page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collection")
    parser.add_argument("--report", type=Path, help="index.html of a report")
    parser.add_argument("--only", nargs="+", choices=[*PICTURES, "site", "typing"])
    arguments = parser.parse_args()
    names = arguments.only or [*PICTURES, "site", "typing"]
    if arguments.report:
        names.append("report")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"], timeout=120_000
        )
        if {*names} & {*PICTURES, "typing"}:
            with serve(arguments.collection) as address:
                for name in names:
                    if name in PICTURES:
                        take(browser, address, name)
                if "typing" in names:
                    film(browser, address)
        if "site" in names:
            with serve_site(arguments.collection) as address:
                PICTURES["site"] = (lambda page: show(page, q="snow"), 1280, 800, {})
                take(browser, address, "site")
        if "report" in names:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(arguments.report.resolve().as_uri())
            save(page, "report")
        browser.close()


if __name__ == "__main__":
    main()
