"""Take a picture of a collection's search page in Chromium, as the documentation shows it.

acqh demo --no-serve
python tools/screenshot.py ~/.cache/acqh/emoji.acqh "sad cat" docs/images/page.png
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
    parser.add_argument("--height", type=int, default=720)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "acqh", "serve", arguments.collection, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = server.stderr.readline() if server.stderr else ""
            address = re.search(r"at (http://\S+)", line)
            if address is None:
                raise SystemExit(f"the collection is not served: {line}")
            take(f"{address[1]}?q={quote(arguments.words)}", arguments.target, arguments.height)
        finally:
            server.terminate()


def take(address: str, target: str, height: int) -> None:
    """Open the address, wait for its images, and write what is seen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"], timeout=120_000
        )
        page = browser.new_page(viewport={"width": 1280, "height": height})
        page.goto(address, timeout=120_000)
        page.wait_for_selector("figure img, .hit img, li img", timeout=120_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    main()
