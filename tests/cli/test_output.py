"""What commands show while they work."""

from types import SimpleNamespace

import pytest

from acqh.cli._output import progress


@pytest.mark.parametrize(
    ("speed", "left", "text"),
    [
        (1234.5, 61, "1,234 a second, 0:01:01 left"),
        (1234.5, None, "1,234 a second"),
        (None, None, ""),
    ],
)
def test_progress_of_items_says_how_fast_it_is_and_how_long_it_takes(speed, left, text):
    column = progress(of_items=True).columns[-1]
    assert str(column.render(SimpleNamespace(speed=speed, time_remaining=left))) == text
