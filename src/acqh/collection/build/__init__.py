"""Items become codes."""
