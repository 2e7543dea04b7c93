"""Additive codebooks: train, encode, decode, lookup tables."""
