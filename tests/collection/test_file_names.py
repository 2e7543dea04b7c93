"""Files are found by their names as people type them."""

import pytest

from acqh.collection import Collection, Item


@pytest.fixture(scope="module")
def collection(phone_path):
    with Collection.open(phone_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("IMG_20190101_180300.jpg", "DCIM/Camera/IMG_20190101_180300.jpg"),
        ("IMG_20190101_180300", "DCIM/Camera/IMG_20190101_180300.jpg"),
        ("img_20190101", "DCIM/Camera/IMG_20190101_180300.jpg"),
        ("DSC01303", "Ferien in Österreich/DSC01303.JPG"),
        ("dsc013", "Ferien in Österreich/DSC01303.JPG"),
        ("IMG-20240125-WA0003", "WhatsApp Images/IMG-20240125-WA0003.jpg"),
        ("2021-07-30 18.03.29.jpg", "2021-07-30 18.03.29.jpg"),
        ("2021-07-30 18.03.29", "2021-07-30 18.03.29.jpg"),
        ("Bild 1.png", "Zeichnungen/Bild 1.png"),
        ("wall.webp", "北京/wall.webp"),
        ("北京/wall.webp", "北京/wall.webp"),
    ],
)
def test_a_file_is_first_by_its_name_or_its_beginning(collection, typed, name):
    answer = collection.search(typed)
    assert (answer.hits[0].id, answer.hits[0].match) == (name, 1.0)
    assert answer.hits[0].why[0] == "file name"
    assert answer.filters == ()


def test_all_files_of_a_beginning_come_first(collection):
    hits = collection.search("Screenshot_2023", k=5).hits
    assert [hit.id.rpartition("/")[2][:15] for hit in hits[:3]] == ["Screenshot_2023"] * 3


def test_filters_also_hold_for_names(collection):
    hits = collection.search("DSC01303", where="date=2024").hits
    assert all("file name" not in hit.why for hit in hits)


def test_a_percent_sign_in_a_name_is_kept(tmp_path):
    items = [Item(text="a dog", id=str(n), fields={"image": name})
             for n, name in enumerate(("100%_a.jpg", "1000_a.jpg"))]  # fmt: skip
    with Collection.build(items, tmp_path / "c.acqh", text_encoder="tfidf") as collection:
        hits = collection.search("100%_a", mode="keyword").hits
    assert [hit.id for hit in hits if "file name" in hit.why] == ["0"]


def test_capitals_with_accents_are_ignored_in_names(tmp_path):
    items = [Item(text="a dog", id=str(n), fields={"image": name})
             for n, name in enumerate(("a/Été_123.jpg", "a/Âté_123.jpg"))]  # fmt: skip
    with Collection.build(items, tmp_path / "c.acqh", text_encoder="tfidf") as collection:
        hits = collection.search("été_123", mode="keyword").hits
    assert [hit.id for hit in hits if "file name" in hit.why] == ["0"]
