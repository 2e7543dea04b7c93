"""How codes lie in memory."""
