"""How much of an answer is found, as expected from how words are distributed."""
