"""From data sets and methods to stored runs."""
