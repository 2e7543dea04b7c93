import os

from acqh._core.threads import default_threads, limit_threads


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
