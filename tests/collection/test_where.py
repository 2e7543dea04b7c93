"""Filtered searches are exact for all field names and values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.collection import Collection, Item
from acqh.collection.types import MAX_NAME_CHARACTERS
from acqh.errors import CollectionError

ODD_NUMBERS = [1 / 3, 0.1 + 0.2, 1e16, 1e-7, 10**20, -0.0, 0, 7, -7, 2.5, 2**53 + 1, True, 5e-324]
ODD_NAMES = ["a\tb", "a\nb", "a\\b", 'a"b', "a.b", "$", "é", "a\x00b", "[0]", " a ", "x" * 999]
ODD_TEXTS = [
    "a\x00b",
    "a",
    "a\x00",
    "",
    "1.0",
    "1",
    "true",
    '"year": 7',
    "é",
    "e\u0301",
    "nan",
    "007",
]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    values = [*ODD_NUMBERS, *ODD_TEXTS]
    items = [
        Item(
            text="dog cat" if number % 2 else "rose tulip",
            labels=["animal" if number % 2 else "flower", "x" * (number + 1)],
            id=str(number),
            fields={"value": value, "other": values[number - 1], "year": 70},
        )
        for number, value in enumerate(values)
    ]
    items += [
        Item(text="dog", labels=["animal"], id=name, fields={name: 7, f"{name}x": 8})
        for name in ODD_NAMES
    ]
    path = tmp_path_factory.mktemp("where") / "c.acqh"
    with Collection.build(
        items, path, n_components=2, n_codebooks=1, image_encoder="hog", text_encoder="tfidf"
    ) as built:
        yield built


def ids_of(collection, where):
    hits = collection.search(text="dog rose", k=200, where=where).hits
    return {hit.id for hit in hits}


def equal(value, expected):
    """Return whether a stored value is the expected one, in the obvious way."""
    return isinstance(value, str) == isinstance(expected, str) and value == expected


@pytest.mark.parametrize("condition", [*ODD_NUMBERS, 1.0, 7.0, 70.0, False, 10.0**20, 2.0**53])
def test_numbers_are_found_exactly(collection, condition):
    values = [*ODD_NUMBERS, *ODD_TEXTS]
    expected = {str(n) for n, value in enumerate(values) if equal(value, condition)}
    assert ids_of(collection, {"value": condition}) == expected
    if not isinstance(condition, bool):  # on the command line all values are texts
        texts = {str(n) for n, value in enumerate(values) if value == str(condition)}
        assert ids_of(collection, f"value={condition}") == expected | texts


@pytest.mark.parametrize("condition", ODD_TEXTS)
def test_texts_are_found_exactly(collection, condition):
    expected = {str(len(ODD_NUMBERS) + ODD_TEXTS.index(condition))}
    if condition in ("1", "1.0", "true"):  # on the command line all values are texts
        expected.add(str(ODD_NUMBERS.index(True)))
    if condition == "007":
        expected.add(str(ODD_NUMBERS.index(7)))
    assert ids_of(collection, {"value": condition}) == expected


@pytest.mark.parametrize("name", ODD_NAMES)
def test_fields_are_found_by_any_name(collection, name):
    assert ids_of(collection, {name: 7}) == {name}
    assert ids_of(collection, {name: 8}) == set()


def test_many_values_and_several_conditions_hold_together(collection):
    everything = {str(n) for n in range(len(ODD_NUMBERS) + len(ODD_TEXTS))}
    assert ids_of(collection, {"year": list(range(1000))}) == everything
    assert ids_of(collection, {"value": [7, 2.5], "label": "animal"}) == {"7", "9"} & {
        str(n) for n in range(1, 30, 2)
    }


def test_every_label_that_can_be_stored_can_be_searched_for(collection):
    longest = "y" * MAX_NAME_CHARACTERS
    collection.upsert(Item(text="dog", labels=[longest, "nul\x00label"], id="long"))
    assert ids_of(collection, {"label": longest}) == {"long"}
    assert ids_of(collection, {"label": "nul\x00label"}) == {"long"}
    with pytest.raises(CollectionError, match="more than 1,000"):
        collection.add(Item(text="dog", labels=[longest + "y"]), strict=True)
    collection.remove("long")


def test_an_unknown_field_is_rejected_with_the_list_of_fields(collection):
    for condition in ("yeer=70", {"label": "animal", "yeer": 70}):
        with pytest.raises(CollectionError, match="; there are: label, "):
            ids_of(collection, condition)
        with pytest.raises(CollectionError, match="field"):
            collection.browse(where=condition)
    assert ids_of(collection, {"year": 71}) == set()


def test_an_unknown_label_is_rejected_with_the_list_of_labels(collection):
    for condition in ("label=qqq", {"label": ["animal", "qqq"]}, {"year": 70, "label": "qqq"}):
        for ask in (collection.browse, lambda where: ids_of(collection, where)):
            with pytest.raises(CollectionError, match=r"qqq.*animal"):
                ask(where=condition)


@pytest.mark.parametrize(("text", "expected"), [("true", {"yes"}), ("False", {"no"})])
def test_booleans_are_found_by_text(collection, text, expected):
    built = [
        Item(text="dog", id=name, fields={"favourite": name == "yes"}) for name in ("yes", "no")
    ]
    collection.upsert(built)
    assert ids_of(collection, f"favourite={text}") == expected
    assert ids_of(collection, {"favourite": text}) == expected
    collection.remove(["yes", "no"])


def test_the_text_true_is_not_read_as_a_boolean(collection):
    collection.upsert(Item(text="dog", id="text", fields={"answer": "true"}))
    assert ids_of(collection, "answer=true") == {"text"}
    assert ids_of(collection, "answer=True") == set()
    collection.remove("text")


def test_labels_in_the_plural_are_labels(collection):
    assert (
        ids_of(collection, {"labels": "animal"}) == ids_of(collection, {"label": "animal"}) != set()
    )


@pytest.mark.parametrize("typed", ["Animal", "animals", "anmal"])
def test_an_unknown_label_is_rejected_with_a_suggestion(collection, typed):
    for ask in (collection.browse, lambda where: ids_of(collection, where)):
        with pytest.raises(CollectionError, match=f"label '{typed}'; did you mean 'animal'"):
            ask(where={"label": typed})


def test_an_unknown_kind_and_a_bound_that_is_no_date_are_rejected(collection):
    collection.upsert(Item(text="dog", id="page", fields={"date": "2021-05-01", "kind": "note"}))
    for condition, message in (("kind=foto", "there are: note"), ("date>=may", "no date")):
        with pytest.raises(CollectionError, match=message):
            ids_of(collection, condition)
    assert ids_of(collection, "kind=document") == set()
    collection.remove("page")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"v": np.array([1, 2])}, "'v' holds a ndarray; give a str"),
        ({"v": np.array([1])}, "'v' holds a ndarray; give a str"),
        ({"labels": "dog"}, "name of a field"),
    ],
)
def test_fields_that_cannot_be_stored_are_rejected(collection, fields, message):
    with pytest.raises(CollectionError, match=message):
        collection.add(Item(text="dog", fields=fields), strict=True)


def test_a_number_does_not_match_its_text(tmp_path):
    items = [Item(text="dog", id="number", fields={"year": 2000})]
    items += [Item(text="dog cat", id="text", fields={"year": "2000"})]
    with Collection.build(
        items, tmp_path / "c.acqh", n_components=2, text_encoder="tfidf"
    ) as built:
        assert ids_of(built, {"year": 2000}) == {"number"}
        assert ids_of(built, {"year": "2000"}) == ids_of(built, "year=2000") == {"number", "text"}


def test_texts_that_spell_numbers_are_ordered_as_numbers(collection):
    ratings = {"low": "3.50", "high": "10", "older": "900", "new": "2011", "none": "1-2"}
    collection.upsert([Item(text="dog", id=id_, fields={"n": n}) for id_, n in ratings.items()])
    assert ids_of(collection, "n>=4") == {"high", "older", "new"}
    assert ids_of(collection, "n<4") == {"low"}
    assert ids_of(collection, "n>2009") == {"new"}
    collection.remove(list(ratings))


def test_fields_of_nothing_are_fields_and_an_empty_collection_has_any(tmp_path):
    items = [Item(text="rose", fields={"none": None}), Item(text="dog rose")]
    with Collection.build(
        items, tmp_path / "a.acqh", n_components=2, text_encoder="tfidf"
    ) as built:
        assert built.search(text="rose", where={"none": 1}).hits == ()
        built.remove(list(built))
        assert built.search(text="rose", where={"place": "sea"}).hits == ()


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4).filter(
    lambda name: name not in ("label", "labels") and not name[1:].endswith((*"=<>",))
)
values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


@given(name=names, stored=values, draws=st.data())
def test_any_value_is_found_by_itself_and_by_no_other(collection, name, stored, draws):
    other = draws.draw(st.one_of(values, st.just(stored)))
    collection.upsert(Item(text="dog", id="drawn", fields={name: stored}))
    assert "drawn" in ids_of(collection, {name: stored})
    if not isinstance(other, str) or isinstance(stored, str):  # a text also finds its number
        assert ("drawn" in ids_of(collection, {name: other})) == equal(stored, other)
