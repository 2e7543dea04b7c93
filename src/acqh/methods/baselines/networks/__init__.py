"""Networks that give bits, by torch."""
