"""Codes to and from other libraries."""
