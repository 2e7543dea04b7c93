"""Embeddings to codes."""
