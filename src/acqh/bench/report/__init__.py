"""From stored cells to a page, tables and figures."""
