"""From data sets and methods to stored cells: splits, plans and their runs, the store."""
