"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""
