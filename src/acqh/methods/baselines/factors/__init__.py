"""Latent factors that views share, without labels."""
