"""Bits descended one after the other, from labels."""
