"""The web interface and what it shows: for the server, and for sites without one."""

from pathlib import Path

# Of files that browsers get as they are; see `index.html`.
PAGE = Path(__file__).parent / "page"
