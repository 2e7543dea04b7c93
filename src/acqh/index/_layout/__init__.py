"""Putting codes in the order in which they are searched, in little more memory than they take."""

from acqh.index._layout._kernels import measure_reaches, read_codes, read_lists
from acqh.index._layout._lay_out import (
    Blocks,
    Layout,
    choose_digits,
    digits_a_side,
    grouping_pays,
    lay_out,
)

__all__ = [
    "Blocks",
    "Layout",
    "choose_digits",
    "digits_a_side",
    "grouping_pays",
    "lay_out",
    "measure_reaches",
    "read_codes",
    "read_lists",
]
