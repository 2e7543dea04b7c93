import os

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from acqh._core.runtime import default_threads, limit_threads, one_blas_thread


def test_a_limit_holds_in_its_block_only():
    before = default_threads()
    with limit_threads(1):
        assert default_threads() == 1
        with limit_threads(10**6):
            assert default_threads() == before
        assert default_threads() == 1
    assert default_threads() == before


def test_without_a_limit_there_is_a_thread_a_core():
    assert 1 <= default_threads() <= (os.cpu_count() or 1)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("fails", [False, True])
def test_one_blas_thread_is_given_back_as_it_was(fails):
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        try:
            with one_blas_thread():
                assert blas_threads() == {1}
                if fails:
                    raise RuntimeError
        except RuntimeError:
            assert fails
        assert blas_threads() == before
