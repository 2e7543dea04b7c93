"""Shared helpers of all subpackages: checks, linear algebra, randomness, lazy imports, files."""
