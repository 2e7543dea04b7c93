"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh.data._multiview import MultiViewData
from acqh.data._splits import split_rows
from acqh.data._synthetic import make_like, make_multiview

__all__ = ["MultiViewData", "make_like", "make_multiview", "split_rows"]
