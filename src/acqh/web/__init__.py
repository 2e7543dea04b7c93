"""The web interface, for the server and for static sites."""

from pathlib import Path

# Files that browsers load unchanged, from `index.html` on.
PAGE = Path(__file__).parent / "page"
