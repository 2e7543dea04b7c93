"""Loops compiled by numba; the tests compare each with a NumPy implementation."""
