"""The command line, one file a command."""

from acqh.cli._app import app, main

__all__ = ["app", "main"]
