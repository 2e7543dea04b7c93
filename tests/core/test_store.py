"""Objects survive JSON and named arrays, and other values are rejected."""

import copy
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh._core.arrays import Floats
from acqh._core.store import pack, unpack
from acqh.errors import InvalidInputError


@dataclass(frozen=True)
class Inner:
    name: str
    numbers: Floats
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    parts: dict[tuple[str, ...], Inner]
    rest: Any = None
    share: float = 1.0
    size: int | None = None


HOMES = {"Inner": Inner, "Outer": Outer}
WHOLE = Outer(
    {("x", "y"): Inner("one", np.arange(3.0)), (): Inner("none", np.zeros((0, 2)), "b")},
    rest=[sp.csr_array(np.eye(3)), (1, None, True), frozenset({"q", "r"}), np.array([True, False])],
    share=float("inf"),
    size=2**63,
)


def sent(value: Any) -> Any:
    header, arrays = pack(value, HOMES)
    return unpack(json.loads(json.dumps(header, allow_nan=False)), arrays, HOMES)


def test_every_storable_value_is_read_back() -> None:
    again = sent(WHOLE)
    np.testing.assert_array_equal(again.parts["x", "y"].numbers, np.arange(3.0))
    assert again.parts[()].kind == "b"
    np.testing.assert_array_equal(again.rest[0].toarray(), np.eye(3))
    assert again.rest[1:3] == [(1, None, True), frozenset({"q", "r"})]
    assert again.rest[3].tolist() == [True, False]
    assert again.rest[3].dtype == bool
    assert (again.share, again.size) == (float("inf"), 2**63)


def test_names_that_contain_one_another_do_not_meet() -> None:
    value = {"a": {"b": np.zeros(1)}, "a/b": np.ones(1), ("a", "b"): np.ones(2)}
    again = sent(value)
    assert [again["a"]["b"].tolist(), again["a/b"].tolist()] == [[0.0], [1.0]]


def test_loaded_arrays_are_writable() -> None:
    header, arrays = pack(np.ones(2), {})
    arrays["array"].flags.writeable = False
    restored = unpack(header, arrays, {})
    restored += 1
    assert restored.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("value", [object(), max, int, np.array(["a"]), Outer({}, rest=print), 1j])
def test_values_that_cannot_be_stored_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        pack(value, HOMES)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "one"}, "lacks kind, numbers"),
        ({"name": "one", "numbers": 1, "kind": "a"}, "'numbers' of Inner is 1"),
        ({"name": 2, "numbers": {"array": "n"}, "kind": "a"}, "'name' of Inner is 2"),
        ({"name": "one", "numbers": {"array": "n"}, "kind": "c"}, "'kind' of Inner"),
        ({"name": "a", "numbers": {"array": "n"}, "kind": "a", "z": 1}, "has the unknown z"),
        ({"name": "a", "numbers": {"array": "m"}, "kind": "a"}, "'m'"),
    ],
)
def test_fields_have_the_types_of_their_annotations(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        unpack({"class": "Inner", "fields": fields}, {"n": np.ones(2)}, HOMES)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        inner = [places(child, (*path, key)) for key, child in value.items()]
    elif isinstance(value, list):
        inner = [places(child, (*path, place)) for place, child in enumerate(value)]
    else:
        inner = []
    return [path, *(child_path for paths in inner for child_path in paths)]


NESTED: Any = []
for _ in range(5_000):
    NESTED = [NESTED]
JUNK = st.sampled_from(
    [None, True, -1, 2**70, 1.5, "", "x", [], {}, {"array": "x"}, {"class": "Outer", "fields": {}}]
)


@given(st.data())
def test_damaged_descriptions_raise_nothing_else(data: st.DataObject) -> None:
    header, arrays = pack(WHOLE, HOMES)
    header = copy.deepcopy(header)
    path = data.draw(st.sampled_from(places(header)[1:]))
    where = header
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = data.draw(JUNK)
    with suppress(InvalidInputError):
        unpack(header, arrays, HOMES)


def test_endless_nesting_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="not readable"):
        unpack(NESTED, {}, {})
