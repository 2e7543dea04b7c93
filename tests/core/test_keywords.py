"""Errors for unknown keywords suggest the nearest one."""

import pytest
from sklearn.base import clone

import acqh
from acqh._core.runtime import suggest_keywords


@suggest_keywords
def search(text, *, image=None, k=10, where=None):
    return text, image, k, where


@pytest.mark.parametrize(
    ("wrong", "right"), [("top_k", "k"), ("filter", "where"), ("imge", "image"), ("query", "text")]
)
def test_an_unknown_keyword_names_the_right_one(wrong, right):
    with pytest.raises(TypeError, match=f"'{wrong}'; did you mean '{right}'"):
        search("dog", **{wrong: 1})


def test_a_keyword_like_no_other_gets_no_suggestion():
    with pytest.raises(TypeError, match=r"'zzzz'$"):
        search("dog", zzzz=1)


def test_right_calls_and_errors_inside_pass_through():
    assert search("dog", k=3) == ("dog", None, 3, None)
    with pytest.raises(TypeError, match="missing"):
        search(k=3)


def test_bench_run_names_the_nearest_keyword(tmp_path):
    with pytest.raises(TypeError, match="did you mean 'n_splits'"):
        acqh.bench.run("emoji", out=tmp_path, seeds=3)


def test_metrics_evaluate_names_the_nearest_keyword():
    with pytest.raises(TypeError, match="did you mean 'cutoffs'"):
        acqh.metrics.evaluate([[0]], [0], [0], cutoff=10)


def test_acqh_names_the_nearest_keyword_and_keeps_its_parameters():
    with pytest.raises(TypeError, match="did you mean 'random_state'"):
        acqh.ACQH(8, seed=0)
    model = acqh.ACQH(8, n_codebooks=2, random_state=0)
    assert clone(model).get_params() == model.get_params()
