"""An image that is stored already is the first hit."""

import io

import pytest
from PIL import Image, ImageDraw

from acqh.collection import Collection, Item
from benchmarks.quality.drawings import KINDS


def drawn(position, size=200):
    """Draw something that encoders cannot tell from its neighbours: a dot that moves a little."""
    image = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(image)
    left = size * (10 + 3 * position) // 200
    draw.ellipse((left, left, left + size // 4, left + size // 4), fill=(200, 30, 10 * position))
    return image


def as_file(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def dots(tmp_path_factory):
    items = [
        Item(image=drawn(n), text=f"dot {n % 3}", labels=["dot", f"row {n % 3}"], id=f"dot-{n}")
        for n in range(20)
    ]
    path = tmp_path_factory.mktemp("dots") / "dots.acqh"
    settings = {"image_encoder": "hog", "text_encoder": "tfidf"}
    with Collection.build(items, path, n_components=4, n_codebooks=2, **settings) as collection:
        yield collection


def test_every_stored_image_is_its_first_hit_with_the_reason_same_image(dots):
    for n in range(20):
        first, second = dots.search(image=as_file(drawn(n), "PNG"), k=2).hits
        assert first.id == f"dot-{n}"
        assert first.why == ("same image",)
        assert second.why != ("same image",)
        assert first.score > second.score


def test_the_parts_of_every_score_add_up_to_it(dots):
    answer = dots.search(image=as_file(drawn(7), "PNG"), explain=True)
    assert answer.explanation.names[-1] == "same image"
    sums = answer.explanation.parts.sum(axis=1)
    assert sums == pytest.approx([hit.score for hit in answer.hits], abs=1e-5)


def test_an_image_that_was_scaled_and_compressed_again_is_recognised(dots):
    for n in range(20):
        query = as_file(drawn(n).resize((150, 150)), "JPEG", quality=80)
        assert dots.search(image=query, k=1).hits[0].id == f"dot-{n}"


def test_only_similarity_ranks_in_semantic_mode_or_with_more_than_an_image(dots):
    query = as_file(drawn(3), "PNG")
    alone = dots.search(image=query, mode="semantic").hits
    assert not any("same image" in hit.why for hit in alone)
    assert [hit.score for hit in alone] == sorted((hit.score for hit in alone), reverse=True)
    for more in ({"text": "dot"}, {"unlike": "dot-3"}):
        assert not any("same image" in hit.why for hit in dots.search(image=query, **more).hits)


def test_another_image_is_not_taken_for_a_stored_one(dots):
    query = as_file(Image.new("RGB", (200, 200), "navy"), "PNG")
    assert not any("same image" in hit.why for hit in dots.search(image=query).hits)


def test_an_invoice_that_is_not_stored_is_not_a_stored_one(tmp_path):
    items = [Item(image=KINDS["invoices"](n), id=f"{n}") for n in range(12)]
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 4}
    with Collection.build(items, tmp_path / "c.acqh", **settings) as collection:
        hits = collection.search(image=as_file(KINDS["invoices"](500), "PNG"), k=12).hits
        assert not any("same image" in hit.why for hit in hits)
        copy = KINDS["invoices"](3).resize((496, 701))
        assert collection.search(image=as_file(copy, "JPEG"), k=1).hits[0].why == ("same image",)


def test_filters_hold_for_the_same_image_too(dots):
    query = as_file(drawn(3), "PNG")
    result = dots.search(image=query, where={"label": "row 1"}).hits
    assert "dot-3" not in {hit.id for hit in result}
    assert dots.search(image=query, where={"label": "row 0"}).hits[0].id == "dot-3"
