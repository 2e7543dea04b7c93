"""Directions of views that go together."""
