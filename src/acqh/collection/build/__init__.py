"""Build, extend and sync collections: from source items to codes."""
