"""A query becomes an answer."""
