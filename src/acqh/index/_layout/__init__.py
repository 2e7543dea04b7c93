"""Putting codes in the order in which they are searched, in little more memory than they take."""
