"""The rows of codes that many items share."""
