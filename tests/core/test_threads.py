import os
import subprocess
import sys

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


def test_without_a_limit_every_core_has_a_thread():
    assert 1 <= default_threads() <= (os.cpu_count() or 1)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("fails", [False, True])
def test_the_number_of_blas_threads_is_restored(fails):
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


def test_an_inner_block_lowers_the_limit_and_restores_that_of_the_outer_one():
    with threadpool_limits(4, user_api="blas"):
        before = blas_threads()
        with limit_threads(2):
            assert blas_threads() == {2}
            with one_blas_thread(), limit_threads(2):
                assert blas_threads() == {1}
            assert blas_threads() == {2}
        assert blas_threads() == before


OVERLAPPING_BLOCKS = """
import threading
from threadpoolctl import threadpool_info

import scipy.linalg
from acqh._core.runtime import one_blas_thread

def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

before = blas_threads()
entered, may_leave = threading.Event(), threading.Event()

def outlast():
    with one_blas_thread():
        entered.set()
        may_leave.wait()

with one_blas_thread():
    second = threading.Thread(target=outlast)
    second.start()
    entered.wait()
    inside = blas_threads()
may_leave.set()
second.join()
print(before, inside, blas_threads())
"""


def test_blocks_that_overlap_in_threads_give_blas_its_threads_back():
    threads = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", OVERLAPPING_BLOCKS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **threads},
    )
    before, inside, after = done.stdout.split()
    assert (inside, after) == ("{1}", before)
