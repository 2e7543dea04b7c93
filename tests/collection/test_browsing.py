"""Browsing without a query, and queries with several wanted and unwanted items."""

import pytest

from acqh.collection import Collection, Item
from acqh.errors import CollectionError, MissingItemError

PLAIN = {"image_encoder": "hog", "text_encoder": "tfidf"}
KINDS = {"cat": "soft grey cat", "car": "fast red car", "sea": "wide blue sea"}


def make_items(start=0):
    return [
        Item(
            text=f"{text} {turn}",
            labels=[kind],
            id=f"{kind}-{turn}",
            fields={"year": 2000 + (7 * turn) % 5} if turn else {"year": "unknown"},
        )
        for turn in range(start, start + 4)
        for kind, text in KINDS.items()
    ]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    path = tmp_path_factory.mktemp("browse") / "a.acqh"
    items = [*make_items(), Item(text="a cat of no year", labels=["cat"], id="none")]
    with Collection.build(items, path, n_components=2, n_codebooks=2, **PLAIN) as built:
        yield built


def ids(answer):
    return [hit.id for hit in answer.hits]


def test_pages_list_all_items_in_order_of_insertion(collection):
    full = collection.browse(k=100)
    assert ids(full) == list(collection)
    assert (full.n_candidates, full.n_items, full.n_scanned) == (13, 13, 0)
    pages = [ids(collection.browse(k=5, offset=start)) for start in (0, 5, 10, 15)]
    assert [item_id for page in pages for item_id in page] == list(collection)


def test_a_filter_leaves_its_items(collection):
    result = collection.browse(where={"label": "cat"})
    assert ids(result) == ["cat-0", "cat-1", "cat-2", "cat-3", "none"]
    assert result.n_candidates == 5
    assert {hit.score for hit in result.hits} == {0.0}


def test_a_field_sorts_items_and_those_without_it_are_last(collection):
    where = {"label": "cat"}
    assert ids(collection.browse(where=where, order="year")) == [
        "cat-3", "cat-1", "cat-2", "cat-0", "none",
    ]  # fmt: skip
    assert ids(collection.browse(where=where, order="year", descending=True)) == [
        "cat-0", "cat-2", "cat-1", "cat-3", "none",
    ]  # fmt: skip


@pytest.mark.parametrize("order", [None, "year"])
@pytest.mark.parametrize("where", [None, {"label": "cat"}])
def test_concatenated_pages_equal_the_full_list(collection, where, order):
    for descending in (False, True):
        full = ids(collection.browse(where=where, order=order, descending=descending, k=100))
        for k in (1, 2, 5):
            options = {"where": where, "order": order, "descending": descending, "k": k}
            pages = [ids(collection.browse(**options, offset=n)) for n in range(0, 15, k)]
            assert [item_id for page in pages for item_id in page] == full


@pytest.mark.parametrize("order", [None, "year"])
def test_a_page_far_away_fetches_no_more_rows_than_it_shows(collection, monkeypatch, order):
    from acqh.collection.search import query

    fetched = []
    monkeypatch.setattr(query, "read_fields", lambda _, numbers: fetched.append(numbers) or {})
    numbers = query.first_in_order
    monkeypatch.setattr(query, "first_in_order", lambda *args: fetched.append(numbers(*args)) or [])
    collection.browse(order=order, k=2, offset=10)
    assert [len(rows) for rows in fetched] == [2, 0]


@pytest.mark.parametrize("order", ['no "such', "label", ""])
def test_a_field_that_no_item_has_orders_nothing(collection, order):
    with pytest.raises(CollectionError, match="field"):
        collection.browse(order=order)


def test_a_page_is_read_without_reading_every_item(collection):
    collection.info()
    statements = []
    for connection, _ in collection._store._free:
        connection.set_trace_callback(statements.append)
    collection.browse(where={"label": "cat"}, order="year", k=2)
    collection.browse(k=2)
    collection.labels()
    collection.info()
    for connection, _ in collection._store._free:
        connection.set_trace_callback(None)
    assert len(statements) > 4
    with collection._store.reading() as connection:
        options = [s for s in statements if s.startswith("SELECT") and "LIMIT" not in s]
        plans = [
            connection.execute(f"EXPLAIN QUERY PLAN {option}").fetchall() for option in options
        ]
    steps = [step for plan in plans for *_, step in plan]
    assert not [step for step in steps if "SCAN item" in step and "COVERING" not in step], options


def test_several_query_items_are_combined_and_not_among_the_hits(collection):
    result = ids(collection.search(item=["cat-0", "car-0"], k=20))
    assert len(result) == 11
    assert not {"cat-0", "car-0"} & set(result)
    assert {name[:3] for name in result[:4]} <= {"cat", "car", "non"}
    one = collection.search(item=["cat-0"], k=20)
    assert one.hits == collection.search(item="cat-0", k=20).hits


def test_hits_like_an_unwanted_item_rank_lower(collection):
    expected = {"item": ["cat-0", "car-0"]}
    result = ids(collection.search(**expected, unlike=["car-1"], k=20))
    assert "car-1" not in result
    assert {name[:3] for name in result[:3]} <= {"cat", "non"}
    without = collection.search(**expected, unlike="car-1", weights={"unlike": 0.0}, k=20)
    plain = [hit for hit in collection.search(**expected, k=20).hits if hit.id != "car-1"]
    assert ids(without) == [hit.id for hit in plain]


def test_unwanted_items_alone_are_no_query(collection):
    with pytest.raises(CollectionError, match="nothing to search for"):
        collection.search(unlike="cat-0")
    with pytest.raises(MissingItemError, match="nobody"):
        collection.search(item="cat-0", unlike=["nobody"])


def test_fields_of_any_name_order_items(tmp_path):
    names = [
        'a"b',
        "a.b",
        "a[0]",
        "$",
        "$.a",
        "it's",
        "a\\b",
        "a\nb",
        "a\x00b",
        "naïve 😀",
        "[",
        "]",
    ]
    items = [
        Item(text=f"{kind} thing", id=str(n), fields=dict.fromkeys(names, order))
        for n, (kind, order) in enumerate({"red": 2, "blue": 3, "old": 1}.items())
    ]
    items.append(Item(text="red old thing", id="9", fields={"a": 0, "note": "x\x00z"}))
    items.append(Item(text="blue old thing", id="8", fields={"note": "x\x00y"}))
    with Collection.build(items, tmp_path / "c.acqh", n_components=2, **PLAIN) as collection:
        for name in names:
            assert ids(collection.browse(order=name)) == ["2", "0", "1", "9", "8"], name
            assert ids(collection.browse(where={name: 3})) == ["1"], name
        assert ids(collection.browse(order="note"))[:2] == ["8", "9"]
        kinds = {name: {"integer"} for name in [*names, "a"]} | {"note": {"text"}}
        assert collection.fields() == kinds
