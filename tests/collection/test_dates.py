"""Dates in names and EXIF data, in filters and in queries."""

from datetime import date

import pytest
from PIL import Image

from acqh._core.dates import date_in_name
from acqh.collection import Collection, Item
from acqh.collection.search.periods import find_period
from acqh.encoders.images import image_date
from acqh.errors import CollectionError
from phone_folder import exif_of

# A Wednesday.
TODAY = date(2024, 3, 13)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("IMG_20210314_180329.heic", "2021-03-14T18:03:29"),
        ("IMG20210314180329.jpg", "2021-03-14T18:03:29"),
        ("IMG_20210314_180329_1.jpg", "2021-03-14T18:03:29"),
        ("IMG-20240125-WA0003.jpg", "2024-01-25"),
        ("VID_20220102_030405.mp4", "2022-01-02T03:04:05"),
        ("PXL_20230101_101112345.MP.jpg", "2023-01-01T10:11:12"),
        ("Screenshot_2023-05-01-12-30-45.png", "2023-05-01T12:30:45"),
        ("Screenshot_20230501-123045_Maps.png", "2023-05-01T12:30:45"),
        ("Screenshot 2023-05-01 at 12.30.45.png", "2023-05-01T12:30:45"),
        ("Bildschirmfoto 2023-05-01 um 12.30.45.png", "2023-05-01"),
        ("WhatsApp Image 2021-03-14 at 6.03.29 PM.jpeg", "2021-03-14T18:03:29"),
        ("2021-07-30 18.03.29.jpg", "2021-07-30T18:03:29"),
        ("signal-2022-03-05-123456_001.jpeg", "2022-03-05T12:34:56"),
        ("photo_2021-07-30_18-03-29.jpg", "2021-07-30T18:03:29"),
        ("20190812_0007.jpg", "2019-08-12"),
        ("2019-08-12.jpg", "2019-08-12"),
        ("trips/2018_06_01_rome.jpg", "2018-06-01"),
        ("DSC01303.JPG", None),
        ("3385593926_be8621d17b.jpg", None),
        ("IMG_20211340_180329.jpg", None),
        ("scan 20191231x.png", None),
        ("12345678.jpg", None),
    ],
)
def test_dates_are_read_in_names_of_files(name, expected):
    assert date_in_name(name) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2021:07:30 18:03:29", "2021-07-30T18:03:29"),
        ("2021-07-30T18:03:29+02:00", "2021-07-30T18:03:29"),
        ("2021:07:30 18:03:29\x00", "2021-07-30T18:03:29"),
        ("2021:07:30", "2021-07-30T00:00:00"),
        ("0000:00:00 00:00:00", None),
        ("1970:01:01 00:00:00", None),
        ("2021:02:30 10:00:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_odd_dates_of_exif_data_are_read_or_ignored(tmp_path, written, expected):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif_of(written))
    assert image_date(tmp_path / "a.jpg") == expected


def test_an_unset_date_of_exif_data_leaves_the_others(tmp_path):
    exif = exif_of("0000:00:00 00:00:00")
    exif.get_ifd(0x8769)[0x9004] = "2015:01:02 03:04:05"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert image_date(tmp_path / "a.jpg") == "2015-01-02T03:04:05"


@pytest.mark.parametrize(
    ("query", "rest", "start", "end"),
    [
        ("march 2022", "", "2022-03", "2022-04"),
        ("dogs in summer 2021", "dogs", "2021-06", "2021-09"),
        ("Sommer 2021 am See", "am See", "2021-06", "2021-09"),
        ("été 2021", "", "2021-06", "2021-09"),
        ("14. März 2022", "", "2022-03-14", "2022-03-15"),
        ("March 14, 2022", "", "2022-03-14", "2022-03-15"),
        ("le 14 mars 2022", "", "2022-03-14", "2022-03-15"),
        ("décembre 2020", "", "2020-12", "2021"),
        ("winter 2021", "", "2021-12", "2022-03"),
        ("christmas 2020", "", "2020-12-24", "2020-12-27"),
        ("Weihnachten 2020", "", "2020-12-24", "2020-12-27"),
        ("Noël 2020", "", "2020-12-24", "2020-12-27"),
        ("yesterday", "", "2024-03-12", "2024-03-13"),
        ("Hund gestern", "Hund", "2024-03-12", "2024-03-13"),
        ("photos d'hier", "", "2024-03-12", "2024-03-13"),
        ("meine Bilder vom Sommer 2021", "", "2021-06", "2021-09"),
        ("photos of dogs last march", "photos of dogs", "2023-03", "2023-04"),
        ("last christmas", "", "2023-12-24", "2023-12-27"),
        ("Noël dernier", "", "2023-12-24", "2023-12-27"),
        ("last weekend", "", "2024-03-09", "2024-03-11"),
        ("letztes Wochenende", "", "2024-03-09", "2024-03-11"),
        ("14.3.2022", "", "2022-03-14", "2022-03-15"),
        ("dog last week", "dog", "2024-03-04", "2024-03-11"),
        ("letzte Woche", "", "2024-03-04", "2024-03-11"),
        ("la semaine dernière", "", "2024-03-04", "2024-03-11"),
        ("last month", "", "2024-02", "2024-03"),
        ("this year", "", "2024", "2025"),
        ("letzten Sommer", "", "2023-06", "2023-09"),
        ("last winter", "", "2023-12", "2024-03"),
        ("2021", "", "2021", "2022"),
        ("dog 2021-07-30", "dog", "2021-07-30", "2021-07-31"),
        ("between 2019 and 2021", "", "2019", "2022"),
        ("cats since 2020", "cats", "2020", ""),
        ("before march 2020", "", "", "2020-03"),
    ],
)
def test_periods_are_understood_in_three_languages(query, rest, start, end):
    period = find_period(query, lambda: TODAY)
    assert (period.rest, period.start, period.end) == (rest, start, end)


@pytest.mark.parametrize(
    "query",
    ["a dog", "may", "this is a dog", "hund hier", '"march 2022"', "31 february 2021",
     "IMG_20210314", "03/14/2021", "1.13.2021", "room 12345", "1920x1080", "dog -2021",
     "the last day", "b2021"],
)  # fmt: skip
def test_other_words_are_no_periods(query):
    assert find_period(query, lambda: TODAY) is None


@pytest.fixture(scope="module")
def collection(phone_path):
    with Collection.open(phone_path) as opened:
        yield opened


def _within(folder, start, end):
    return {name for name, (day, _) in folder.dates.items() if start <= day < end}


@pytest.mark.parametrize(
    ("where", "start", "end"),
    [
        ("date=2021", "2021", "2022"),
        ("date=2023-05", "2023-05", "2023-06"),
        ("date=2023-05-01", "2023-05-01", "2023-05-02"),
        (["date>=2020", "date<=2021"], "2020", "2022"),
        ({"date>": "2020", "date<": "2022-03-05"}, "2021", "2022-03-05"),
        ({"date": ["2021", "2022"]}, "2021", "2023"),
    ],
)
def test_ranges_of_dates_select_items(phone, collection, where, start, end):
    hits = collection.browse(where=where, k=100).hits
    dated = {hit.id for hit in hits if hit.date_source != "file"}
    assert dated == _within(phone, start, end) != set()


def test_a_date_in_a_query_is_a_filter_and_reported(phone, collection):
    answer = collection.search("in may 2023", k=100)
    assert {hit.id for hit in answer.hits} == _within(phone, "2023-05", "2023-06")
    assert [hit.date for hit in answer.hits] == sorted((h.date for h in answer.hits), reverse=True)
    assert {hit.why for hit in answer.hits} == {("date",)}
    assert answer.to_dict()["filters"] == [
        {"text": "in may 2023", "where": {"date>=": "2023-05", "date<": "2023-06"}}
    ]
    words = collection.search("screenshot 2023", k=100)
    assert {hit.id for hit in words.hits if "keywords" in hit.why} == _within(
        phone, "2023-05", "2023-06"
    )


def test_dates_in_queries_can_be_switched_off(collection):
    answer = collection.search("screenshot may 2023", dates=False)
    assert (answer.filters, answer.n_candidates) == ((), answer.n_items)


def test_a_number_is_no_year_if_no_item_is_of_it(collection):
    assert collection.search("camera 1850").filters == ()
    assert collection.search("summer 1990").hits == ()


def test_collections_without_dates_search_for_the_words(tmp_path):
    items = [Item(text="summer 2021 at the lake", id="a"), Item(text="a car", id="b")]
    with Collection.build(items, tmp_path / "c.acqh", text_encoder="tfidf") as collection:
        answer = collection.search("summer 2021")
    assert (answer.filters, answer.hits[0].id) == ((), "a")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("year>2005", {"b", "c"}),
        ("year>=2005", {"a", "b", "c"}),
        ("year<2010", {"a"}),
        ("year <= 2010", {"a", "b"}),
        ({"year>": 2005.5}, {"b", "c"}),
        ("year!=2010", {"a", "c", "d"}),
        ("name~ROSE", {"a", "b"}),
        ("name~100%", {"c"}),
        ("label~ow", {"a"}),
        ("label!=flower", {"b", "c", "d"}),
        ("name>=s", {"c"}),
        (["year>2005", "name~rose"], {"b"}),
        (["year!=2005", "label!=x"], {"b", "c", "d"}),
    ],
)
def test_operators_compare_numbers_and_texts(tmp_path_factory, where, expected):
    path = tmp_path_factory.getbasetemp() / "operators.acqh"
    if not path.exists():
        items = [
            Item(text="one", id="a", labels=["flower"], fields={"year": 2005, "name": "red rose"}),
            Item(text="two", id="b", fields={"year": 2010, "name": "roses"}),
            Item(text="three", id="c", fields={"year": 2015.5, "name": "tulip 100%"}),
            Item(text="four", id="d"),
        ]
        Collection.build(items, path, text_encoder="tfidf").close()
    with Collection.open(path) as collection:
        assert {hit.id for hit in collection.browse(where=where).hits} == expected


@pytest.mark.parametrize("where", [">=2021", {"colour>": "1"}, {"date>": ["1", "2"]}, "x"])
def test_conditions_that_cannot_be_read_or_met_are_rejected(collection, where):
    with pytest.raises(CollectionError):
        collection.browse(where=where)


@pytest.mark.parametrize("value", ["2023-13", "2023-02-30", "2023-1"])
def test_a_date_that_does_not_exist_is_rejected(collection, value):
    with pytest.raises(CollectionError, match=value):
        collection.browse(where=f"date>={value}")
