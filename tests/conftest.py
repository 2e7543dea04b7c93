"""Fixtures every room's tests may use."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# How long an example takes tells nothing on a busy machine.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=60)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder with the real data sets, or skip: they cannot be shipped with the code."""
    for candidate in (os.environ.get("ACQH_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "wiki.npz").is_file():
            return Path(candidate)
    pytest.skip("real data not found: set ACQH_DATA to the folder that holds wiki.npz")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Give Playwright's browser object on the system's Chromium; skip where there is none.

    Where ``CI`` is set its absence is a failure. One browser serves a module, no longer: while it
    runs, this thread has a running event loop, so tests beside it cannot call ``asyncio.run``.
    """
    playwright_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        message = "no chromium on the PATH: pages are not checked in a browser"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with playwright_api.sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, and containers often are; pages are our own.
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=120_000
        )
        yield browser
        browser.close()
