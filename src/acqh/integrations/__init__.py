"""Adapters for other frameworks: `acqh.integrations.mteb` runs mteb's retrieval tasks on codes."""

__all__: list[str] = []
