"""CodeIndex and HammingIndex: exact search over codes."""
