"""Check the results in README.md and docs: their commands exist, and no claim has two values.

    python tools/check_numbers.py           # check; part of make check
    python tools/check_numbers.py --list    # every result with its command, as CSV

A result is a decimal number, a percentage or a time in prose or in a table. Its command is the last
one before it in its section, or else the first one after it; sections without a command inherit
that of the page, and tables that of the page that shows them. Every result must have one, and those
of README.md must stand in docs too. ``docs/numbers.toml`` lists claims that stand in several
places: each has a value and a pattern whose group must have that value wherever the pattern
matches.
"""

import argparse
import csv
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = ROOT / "docs" / "numbers.toml"
COMMAND = re.compile(
    r"(?<![\w/-])(?:python -m (?P<module>[\w.]+)|python (?P<script>tools/\w+\.py)"
    r"|(?m:(?<=`)|^(?:\w+=\S+ )*)acqh (?P<acqh>[a-z][a-z-]*))(?P<rest>[^`\n|]*)"
)
RESULT = re.compile(
    r"(?<![\w.,:/-])\d[\d,]*(?:\.\d+(?: ?(?:ms|s|%|MB|GB))?|(?: ?(?:ms|s|%|MB|GB))\b)"
)
# The method acqh with other features, in tables, and the first line of the server.
NO_COMMANDS = ("rbf", "kernel", "at")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Code, but not the commands in it, and addresses: their numbers are no results.
NO_RESULT = re.compile(r"`[^`]*`|\]\([^)]*\)")


def pages() -> list[Path]:
    """Return README.md, and the pages and tables of the documentation."""
    docs = [path for ending in ("md", "csv") for path in (ROOT / "docs").rglob(f"*.{ending}")]
    return [ROOT / "README.md", *sorted(path for path in docs if "generated" not in path.parts)]


def text_of(page: Path) -> str:
    """Return a page, and a CSV file as the rows of a table."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".csv":
        return text
    return "\n".join(f"| {' | '.join(row)} |" for row in csv.reader(text.splitlines()))


def commands() -> dict[str, set[str]]:
    """Return the options of each command of the program."""
    from typer.main import get_command

    from acqh.cli import app

    options_by_command: dict[str, set[str]] = {}

    def add(name: str, command: object, inherited: set[str]) -> None:
        params = command.params  # type: ignore[attr-defined]
        options = {option for param in params for option in (*param.opts, *param.secondary_opts)}
        options_by_command[name] = options | inherited | {"--help"}
        for child, other in getattr(command, "commands", {}).items():
            add(f"{name} {child}".strip(), other, options if name else set())

    add("", get_command(app), set())
    return options_by_command


def code_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the code of a page with its line numbers: lines of blocks, and spans in prose."""
    is_block = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_block = not is_block
        elif is_block:
            yield number, line
        else:
            yield from ((number, span) for span in re.findall(r"`([^`]+)`", line))


def problems_of(code: str, options_by_command: dict[str, set[str]]) -> Iterator[str]:
    """Yield what is wrong with the commands in a line of code."""
    for match in COMMAND.finditer(code):
        rest = match["rest"].partition(" #")[0]
        if match["acqh"]:
            words = f"{match['acqh']} {rest}".split()
            name = " ".join(words[:2]) if " ".join(words[:2]) in options_by_command else words[0]
            options = options_by_command.get(name)
        else:
            name = match["module"] or match["script"]
            options = _options_of(name)
        if options is None:
            if match["acqh"] not in NO_COMMANDS:
                yield f"there is no command {match[0].partition('#')[0].strip()!r}"
            continue
        for option in OPTION.findall(rest):
            if options and option not in options:
                yield f"{name!r} has no option {option}"


def _options_of(name: str) -> set[str] | None:
    """Return the options named in the source of a module or script; None if it does not exist."""
    path = ROOT / (name if name.endswith(".py") else name.replace(".", "/") + ".py")
    if not path.is_file():
        path = path.with_suffix("") / "__main__.py"
    if path.is_file():
        return set(OPTION.findall(path.read_text(encoding="utf-8"))) | {"--help"}
    # A module of another project, such as `python -m venv`.
    is_ours = name.startswith(("benchmarks", "tools", "acqh"))
    return None if is_ours else set()


def results() -> Iterator[tuple[str, int, str, str]]:
    """Yield every result: page, line, number and command."""
    shown_by = {
        name: page
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r":file: data/(\S+)", page.read_text(encoding="utf-8"))
    }
    for page in pages():
        text = text_of(page)
        of_page = COMMAND.search(text_of(shown_by.get(page.name, page)))
        start, is_block = 1, False
        for section in re.split(r"(?m)^(?=#)", text):
            lines = section.splitlines()
            first = next((m for line in lines if (m := COMMAND.search(line))), of_page)
            current = first[0].strip() if first else ""
            for number, line in enumerate(lines, start=start):
                if match := COMMAND.search(line):
                    current = match[0].strip()
                is_block ^= line.startswith("```")
                if is_block:
                    continue
                for value in RESULT.findall(NO_RESULT.sub("", line)):
                    yield str(page.relative_to(ROOT)), number, value, current
            start += len(lines)


def check() -> list[str]:
    """Return what is wrong, one line per problem."""
    options_by_command, problems = commands(), []
    texts = {page: text_of(page) for page in pages()}
    for page, text in texts.items():
        name = page.relative_to(ROOT)
        for number, code in code_of(text):
            problems += [
                f"{name}:{number}: {problem}" for problem in problems_of(code, options_by_command)
            ]
            if "../shared" in code:
                problems.append(f"{name}:{number}: names a folder that readers do not have")
    in_docs = {
        value
        for page, text in texts.items()
        if page.name != "README.md"
        for value in re.findall(r"(?<![\w.,])\d[\d,.]*\b", text)
    }
    for page, number, value, command in results():
        if not command:
            problems.append(f"{page}:{number}: {value} has no command")
        if page == "README.md" and value.rstrip(" msGB%") not in in_docs:
            problems.append(f"{page}:{number}: {value} stands nowhere in docs")
    for claim in tomllib.loads(REGISTRY.read_text(encoding="utf-8"))["claim"]:
        problems += [
            f"numbers.toml: {problem}"
            for problem in problems_of(claim["command"], options_by_command)
        ]
        matches = [
            (page.relative_to(ROOT), match)
            for page, text in texts.items()
            for match in re.finditer(claim["pattern"], text)
        ]
        if not matches:
            problems.append(f"numbers.toml: {claim['text']!r} stands nowhere")
        for name, match in matches:
            if match[1] != claim["value"]:
                problems.append(
                    f"{name}: {claim['text']}: {match[1]}, but {claim['value']} elsewhere"
                )
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every result with its command")
    if parser.parse_args().list:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("page", "line", "result", "command"))
        writer.writerows(results())
        return 0
    problems = check()
    print("\n".join(problems) or f"{sum(1 for _ in results()):,} results, no problem")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
