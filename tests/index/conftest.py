import sys
from pathlib import Path

import pytest

# Tests import the NumPy references of the compiled kernels from here.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="module")
def lay_out_few():
    """Have compiled code search indexes of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acqh.index.code_index.FLAT_MAX_ROWS", 0)
        yield
