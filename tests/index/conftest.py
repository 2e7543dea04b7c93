import sys
from pathlib import Path

import pytest

# Where the tests of this room find the NumPy twins of its kernels.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="module")
def lay_out_few():
    """Have compiled code search indexes of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acqh.index.code_index.FLAT_MAX_ROWS", 0)
        yield
