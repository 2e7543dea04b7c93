"""Bits learnt first, then predicted by regressions."""
