"""Which items are learnt from, asked with and searched."""
