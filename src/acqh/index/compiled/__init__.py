"""Loops compiled by numba, each with a NumPy twin."""
