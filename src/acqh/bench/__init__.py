"""Protocols, runner, result rows, tables, figures."""
