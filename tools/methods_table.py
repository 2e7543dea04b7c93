"""Write the table of all methods into the guide, or check that it is up to date.

Run ``python tools/methods_table.py`` to write, with ``--check`` to fail where it would change.
"""

import argparse
import sys
from pathlib import Path

import acqh
from acqh.methods.registry import MethodInfo

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "methods.md"
START, END = "<!-- methods: start -->\n", "<!-- methods: end -->\n"
HEAD = "| method | title | year | labels | codes | database, the paper's way first | status |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    renewed = renew(page)
    if arguments.check and page != renewed:
        sys.exit(f"{PAGE.name} is out of date; run: python tools/methods_table.py")
    PAGE.write_text(renewed, encoding="utf-8")


def renew(page: str) -> str:
    """Return the page with the table between its markers made again."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{PAGE.name} lacks the line {START.strip()!r} or {END.strip()!r}")
    return before + START + table() + END + after


def table() -> str:
    """Return a row per method, from the registry."""
    rows = [acqh.methods.get(name).info for name in acqh.methods.list()]
    lines = [
        f"| [{info.name}](../method/{info.name}.md) | {info.title} | {info.year} "
        f"| {_use_of_labels(info)} | {info.code} "
        f"| {', '.join(info.modes)} | {info.status} |\n"
        for info in rows
    ]
    return HEAD + "|---" * 7 + "|\n" + "".join(lines)


def _use_of_labels(info: MethodInfo) -> str:
    if not info.supervised:
        return "not used"
    return "used if given" if info.label_free else "needed"


if __name__ == "__main__":
    main()
