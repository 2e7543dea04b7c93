"""Fixtures for the tests of all subpackages."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# No deadline: the time of an example varies on a busy machine.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=60)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Run two more workers than there are cores: many tests wait for another process."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tutorials first: each takes long, and workers then share the short tests at the end."""
    items.sort(key=lambda item: "test_tutorials" not in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def no_flushing() -> Iterator[None]:
    """Let files be written without waiting for the disk: no test loses power.

    Thousands of files are flushed, each in some milliseconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # fails for closed files, too
        if hasattr(os, "sync"):
            patch.setattr(os, "sync", lambda: None)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder with the real data sets; skip the test if they are not available."""
    for candidate in (os.environ.get("ACQH_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "wiki.npz").is_file():
            return Path(candidate)
    pytest.skip("real data not found: set ACQH_DATA to the folder that holds wiki.npz")


def find_program(*names: str) -> str:
    """Return the path of the first program that exists; fail in CI, skip elsewhere."""
    for name in names:
        if program := shutil.which(name):
            return program
    message = f"{names[0]} is not on the PATH"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def node() -> str:
    """Return the path of Node.js; skip the test if it is not installed."""
    return find_program("node")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Yield Playwright's browser object for the installed Chromium; skip if there is none.

    Every module has its own browser. A running browser has a running event loop in its thread, so
    other tests of the module cannot call ``asyncio.run``.
    """
    playwright_api = pytest.importorskip("playwright.sync_api")
    program = find_program("chromium", "chromium-browser")
    with playwright_api.sync_playwright() as playwright:
        # Chromium cannot use its sandbox as root, which is the usual user of a container.
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=120_000
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def make_video():
    """Return a function that writes a small video."""
    return _make_video


def _make_video(path, codec="mpeg4", size=(160, 96), n_black=0):
    """Write two seconds of video, red at the left and blue at the right, after black frames."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        container.metadata["creation_time"] = "2021-03-14T18:03:29.000000Z"
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.gop_size = 5
        for number in range(20):
            pixels = np.zeros((size[1], size[0], 3), np.uint8)
            if number >= n_black:
                pixels[:] = (0, 0, 255)
                pixels[:, : size[0] // 2] = (255, 0, 0)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
