"""Convert data sets from the files of their publishers."""
