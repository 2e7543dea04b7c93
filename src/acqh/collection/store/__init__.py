"""The items, in SQLite; all SQL is here."""
