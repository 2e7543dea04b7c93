"""Take a picture of the web interface in Chromium, as the documentation shows it.

    python tools/screenshot.py photos.acqh "mountain lake" docs/images/photos.jpg
    python tools/screenshot.py photos.acqh cat docs/images/phone.jpg --width 390

The photographs of docs/images are modified copies of photographs of Pixabay
(github.com/yavuzceliker/sample-images), under the Pixabay Content License.
"""

import argparse
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

from playwright.sync_api import sync_playwright


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("collection", "words", "target"):
        parser.add_argument(name)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "acqh", "serve", arguments.collection, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = server.stderr.readline() if server.stderr else ""
            address = re.search(r"at (http://\S+)", line)
            if address is None:
                raise SystemExit(f"the collection is not served: {line}")
            take(f"{address[1]}?q={quote(arguments.words)}", arguments)
        finally:
            server.terminate()


def take(address: str, arguments: argparse.Namespace) -> None:
    """Open the address, wait for its images, and write the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"], timeout=120_000
        )
        page = browser.new_page(
            viewport={"width": arguments.width, "height": arguments.height},
            color_scheme="dark" if arguments.dark else "light",
        )
        page.goto(address, timeout=120_000)
        page.wait_for_selector("figure img, .hit img, li img", timeout=120_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=arguments.target)
        browser.close()


if __name__ == "__main__":
    main()
