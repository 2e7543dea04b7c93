"""Codebooks whose words add up."""
