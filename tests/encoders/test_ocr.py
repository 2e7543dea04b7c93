"""Text in images is read on this machine, and nothing of the process is changed."""

import logging
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from acqh.encoders.images import working_image
from acqh.encoders.ocr import may_have_text, read_text
from phone_folder import draw_document, draw_photo, draw_screenshot

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def page() -> Any:
    """Return a page of text as a phone shows it."""
    from PIL import ImageDraw, ImageFont

    image = Image.new("RGB", (1080, 1500), "white")
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(["Invoice number 4711", "Delivery to Lake Garda", "Thank you"]):
        draw.text((80, 100 + 180 * row), line, fill="black", font=ImageFont.load_default(48))
    return image


def test_text_is_read_line_by_line_offline(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr_onnxruntime")

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    lines = ["Invoice number 4711", "Delivery to Lake Garda", "Thank you"]
    assert read_text(page).split("\n") == lines
    small = page.resize((360, 500), Image.Resampling.LANCZOS)
    assert {"Invoice", "number", "Delivery"} <= set(read_text(small).split())


@pytest.mark.parametrize("size", [(1, 1), (4_000, 33), (33, 4_000), (40, 40)])
def test_images_of_any_shape_without_text_have_none(size: tuple[int, int]) -> None:
    pytest.importorskip("rapidocr_onnxruntime")
    assert read_text(Image.new("RGB", size, "white")) == ""


def test_reading_leaves_the_process_as_it_was() -> None:
    pytest.importorskip("rapidocr_onnxruntime")
    program = """
import logging, os
from PIL import Image
from acqh.encoders.ocr import read_text
import sklearn  # which sets a variable itself
before = dict(os.environ), logging.root.level, list(logging.root.handlers)
read_text(Image.new("RGB", (64, 64)))
assert before == (dict(os.environ), logging.root.level, list(logging.root.handlers))
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    run = [sys.executable, "-c", program]
    result = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert logging.root.level == logging.WARNING


def test_documents_and_screenshots_may_have_text_and_photos_mostly_not() -> None:
    rng = np.random.default_rng(3)
    for draw, least, most in ((draw_document, 9, 10), (draw_screenshot, 9, 10), (draw_photo, 0, 1)):
        n_chosen = sum(may_have_text(working_image(draw(rng))) for _ in range(10))
        assert least <= n_chosen <= most, draw.__name__
    assert not may_have_text(Image.new("RGB", (1, 1)))
