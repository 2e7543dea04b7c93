"""Text that was read in images is found by keywords, marked as such."""

import numpy as np
import pytest

from acqh.collection import Collection
from acqh.encoders import ocr
from acqh.errors import InvalidInputError, MissingExtraError
from phone_folder import draw_photo

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("rapidocr_onnxruntime")


def write(path, *lines):
    from PIL import ImageDraw, ImageFont

    image = Image.new("RGB", (900, 1200), "white")
    for row, line in enumerate(lines):
        font = ImageFont.load_default(44)
        ImageDraw.Draw(image).text((60, 80 + 120 * row), line, fill="black", font=font)
    image.save(path)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        draw_photo(np.random.default_rng(number)).save(folder / f"{number}.jpg")
    write(folder / "scan.png", "Invoice number 4711", "Plumber Schmidt")
    return folder


def build(folder, **settings):
    path = folder.with_suffix(".acqh")
    return Collection.build(folder, path, image_encoder="hog", text_encoder="tfidf", **settings)


def test_text_in_a_document_is_found_and_marked_and_survives_retraining(folder):
    with build(folder, ocr="documents") as collection:
        assert collection.item("scan.png").text_in_image.startswith("Invoice number 4711")
        hit = collection.search("plumber").hits[0]
        assert (hit.id, hit.why[0]) == ("scan.png", "text in image")
        assert not collection.item("0.jpg").text_in_image
        collection.retrain()
        assert collection.search("plumber").hits[0].id == "scan.png"


def test_sync_reads_text_as_the_build_did(folder):
    with build(folder, ocr="documents") as collection:
        write(folder / "new.png", "Concert ticket")
        collection.sync(folder)
        assert collection.search("concert").hits[0].id == "new.png"
        write(folder / "new.png", "Bicycle manual")
        collection.sync(folder)
        assert collection.search("bicycle").hits[0].id == "new.png"
        assert collection.item("new.png").text_in_image == "Bicycle manual"


def test_text_is_not_read_unless_requested(folder, monkeypatch):
    def fail(_):
        raise AssertionError("text was read")

    monkeypatch.setattr("acqh.collection.build.detect.read_text", fail)
    with build(folder) as collection:
        assert not collection.item("scan.png").text_in_image


def test_all_images_are_read_on_request(folder, monkeypatch):
    monkeypatch.setattr("acqh.collection.build.detect.read_text", lambda _: "signpost")
    steps = []
    with build(folder, ocr="all", progress=lambda *step: steps.append(step)) as collection:
        assert {item.text_in_image for item in map(collection.item, collection)} == {"signpost"}
    assert (5, 5, "reading images") in steps


def test_a_missing_extra_and_an_unknown_mode_are_errors_before_any_work(folder, monkeypatch):
    with pytest.raises(InvalidInputError, match="documents"):
        build(folder, ocr="some")

    def missing():
        raise MissingExtraError("install it")

    monkeypatch.setattr(ocr, "_engine", missing)
    with pytest.raises(MissingExtraError):
        build(folder, ocr="all")
    assert not folder.with_suffix(".acqh").exists()
