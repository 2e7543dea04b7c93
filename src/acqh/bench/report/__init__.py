"""From stored runs to a page, tables and figures."""
