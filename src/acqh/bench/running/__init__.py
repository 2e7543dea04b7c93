"""From data sets and methods to stored cells: splits, plans, the runner, the store."""
