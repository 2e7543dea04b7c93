"""Compiled sums of shared counts; `tests/features` holds their NumPy twin."""

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh._core.runtime import kernel


@kernel()
def add_intersections(
    indptr: Ints,
    indices: Ints,
    data: Array,
    column_starts: Ints,
    column_rows: Ints,
    column_data: Array,
    out: Array,
) -> None:
    """Add ``sum_j min(x_ij, z_aj)`` to ``out[i, a]``: rows of x in CSR, rows of z in CSC."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            value = data[k]
            column = indices[k]
            for other in range(column_starts[column], column_starts[column + 1]):
                out[i, column_rows[other]] += np.minimum(value, column_data[other])
