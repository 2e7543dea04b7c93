"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh.data._multiview import MultiViewData
from acqh.data._splits import split_rows

__all__ = ["MultiViewData", "split_rows"]
