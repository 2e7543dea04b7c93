"""Kernel ridge regression as a feature map."""
