"""Kinds of images: photos, screenshots, documents and drawings."""

import numpy as np
import pytest
from PIL import Image

from acqh.collection import Collection
from acqh.collection.build.detect import detect_kind
from acqh.encoders.images import read_header, working_image
from phone_folder import DRAW, SCREENS, draw_photo, exif_of


@pytest.fixture(scope="module")
def collection(phone_path):
    with Collection.open(phone_path) as opened:
        yield opened


def test_photos_with_a_camera_screenshots_by_name_and_documents_are_detected(phone, collection):
    for kind in ("photo", "screenshot", "document"):
        names = {name for name, other in phone.kinds.items() if other == kind}
        if kind == "photo":
            names = {name for name in names if name in phone.dates}
        hits = collection.browse(where={"kind": kind}, k=100).hits
        assert names <= {hit.id for hit in hits}


@pytest.mark.parametrize(
    ("kind", "least"), [("screenshot", 0.9), ("document", 0.9), ("drawing", 0.9)]
)
def test_few_images_of_a_kind_are_taken_for_another(kind, least):
    rng = np.random.default_rng(7)
    images = [DRAW[kind](rng) for _ in range(10)]
    kinds = [detect_kind(working_image(im), im.size, "", has_camera=False) for im in images]
    assert kinds.count(kind) >= least * len(images)


def test_real_photos_are_of_the_kind_photo(photographs):
    files = sorted(photographs.glob("*.jpg"))[:100]
    images = [working_image(path) for path in files]
    kinds = [detect_kind(image, image.size, "", has_camera=False) for image in images]
    assert kinds.count("photo") >= 0.9 * len(kinds)


def test_settings_of_a_camera_outweigh_the_name_and_the_screen(tmp_path):
    image = draw_photo(np.random.default_rng(0), SCREENS[0])
    image.save(tmp_path / "a.jpg", exif=exif_of("2021:01:01 10:00:00"))
    header = read_header(tmp_path / "a.jpg")
    assert header == (SCREENS[0], True, "2021-01-01T10:00:00")
    assert detect_kind(image, header.size, "screenshot.jpg", has_camera=True) == "photo"


def test_headers_that_cannot_be_read_say_nothing(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    assert read_header(tmp_path / "a.jpg") is None
    assert read_header(tmp_path / "missing.jpg") is None


def test_tiny_and_odd_images_have_a_kind():
    for size in ((1, 1), (1, 900), (900, 1)):
        kind = detect_kind(Image.new("RGB", size, "red"), size, "", has_camera=False)
        assert kind in ("photo", "screenshot", "document", "drawing")


def test_a_kind_is_found_as_a_keyword(collection):
    hits = collection.search("documents", mode="keyword", k=100).hits
    assert {hit.kind for hit in hits} == {"document"}
    assert all("tags" in hit.why for hit in hits)


def test_photos_come_first_if_nothing_matches_well(mixed):
    n_others = {"hybrid": 0, "semantic": 0}
    with Collection.open(mixed) as collection:
        for word in ("xyzzy", "plage", "hund", "asdf", "quux", "voiture"):
            for mode in n_others:
                answer = collection.search(word, k=6, mode=mode)
                if not answer.n_confident:
                    kinds = [hit.kind for hit in answer.hits]
                    assert mode == "semantic" or kinds[0] == "photo"
                    n_others[mode] += kinds.count("screenshot") + kinds.count("document")
                    scores = [hit.score for hit in answer.hits]
                    assert scores == sorted(scores, reverse=True)
    assert n_others["hybrid"] <= n_others["semantic"] / 2
