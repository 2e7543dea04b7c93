"""The text encoder against loops and against its parts."""

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from acqh.errors import InvalidInputError, NotFittedError
from acqh.features import TagSVD, Tfidf, TfidfText, feature_map_from_state, feature_map_state

TEXTS = ["A red rose", "a red, red CAR", "ein Straßenbahnwagen", "", "car park 2"]
words = st.lists(st.sampled_from(["dog", "Cat", "red", "ÉTÉ", "2"]), max_size=6).map(" ".join)


@settings(max_examples=50)
@given(texts=st.lists(words, min_size=1, max_size=6), new=st.lists(words, min_size=1, max_size=4))
def test_counts_are_those_of_a_loop(texts: list[str], new: list[str]) -> None:
    texts = [*texts, "dog"]
    encoder = TfidfText().fit(texts)
    counts = encoder.count(new).toarray()
    assert encoder.vocabulary_ == tuple(sorted({w.lower() for t in texts for w in t.split()}))
    for row, text in zip(counts, new, strict=True):
        spoken = text.lower().split()
        assert row.tolist() == [spoken.count(word) for word in encoder.vocabulary_]


def test_weights_are_tfidf_of_the_counts() -> None:
    encoder = TfidfText().fit(TEXTS)
    result = encoder.transform(TEXTS[:3])
    assert isinstance(result, sp.csr_array)
    assert result.dtype == np.float32
    expected = Tfidf().fit(encoder.count(TEXTS)).transform(encoder.count(TEXTS[:3]))
    np.testing.assert_array_equal(result.toarray(), expected.toarray())


def test_components_are_the_svd_of_the_weights() -> None:
    result = TfidfText(n_components=2).fit_transform(TEXTS)
    assert result.dtype == np.float32
    expected = TagSVD(2).fit_transform(TfidfText().fit_transform(TEXTS))
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_case_and_unicode_forms_make_no_difference() -> None:
    encoder = TfidfText().fit(["Straße café"])
    forms = encoder.count(["STRASSE cafe\u0301", "straße CAFÉ"]).toarray()
    np.testing.assert_array_equal(forms, np.ones((2, 2)))


def test_rare_words_are_left_out() -> None:
    assert TfidfText(min_texts=2).fit(TEXTS).vocabulary_ == ("a", "car", "red")


def test_unknown_words_and_empty_texts_give_empty_rows() -> None:
    encoder = TfidfText().fit(TEXTS)
    assert encoder.transform(["unseen", ""]).nnz == 0
    assert encoder.transform([]).shape == (0, len(encoder.vocabulary_))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "list of strings"),
        (["a", None], "text 1 is a NoneType"),
        (["...", ""], "no word occurs"),
        ([], "no word occurs"),
    ],
)
def test_what_has_no_words_is_refused(texts: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TfidfText().fit(texts)


def test_use_before_fit_is_refused() -> None:
    for use in (lambda e: e.transform(TEXTS), lambda e: e.get_state(), lambda e: e.count(TEXTS)):
        with pytest.raises(NotFittedError, match="not fitted"):
            use(TfidfText())


@pytest.mark.parametrize("encoder", [TfidfText(), TfidfText(n_components=2)], ids=repr)
def test_a_fitted_encoder_survives_storing(encoder: Any) -> None:
    fitted = clone(encoder).fit(TEXTS)
    description, arrays = feature_map_state(fitted)
    restored = feature_map_from_state(json.loads(json.dumps(description)), arrays)
    difference = restored.transform(TEXTS) - fitted.transform(TEXTS)
    assert abs(difference).max() == 0
    assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": None}, "not readable"),
        ({"vocabulary": b"{"}, "not readable"),
        ({"vocabulary": b'["a", "a"]'}, "no list of different words"),
        ({"vocabulary": b'["a", 2]'}, "no list of different words"),
        ({"vocabulary": b'["a"]'}, "words at once"),
        ({"other": b"1"}, "unknown array"),
        ({"svd.components": b"1"}, "n_components is None"),
        ({"tfidf.idf": None}, "lacks the array 'idf'"),
    ],
)
def test_strange_state_is_refused(change: dict[str, bytes | None], message: str) -> None:
    description, arrays = feature_map_state(TfidfText().fit(TEXTS))
    for key, value in change.items():
        if value is None:
            del arrays[key]
        else:
            arrays[key] = np.frombuffer(value, dtype=np.uint8)
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, arrays)
