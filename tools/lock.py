"""Write down what gets installed: versions in `constraints.txt`, hashes in `requirements.lock`.

    python tools/lock.py            # keep the versions of constraints.txt, add what is new
    python tools/lock.py --upgrade  # the newest versions that pyproject.toml allows

pip resolves everything that the Makefile installs, the build backend and pip itself included, and
says which files it would take. Hashes are those of these files; run under another Python or on
another kind of machine, this adds theirs. Nothing is installed.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
HEAD = "# Made by `make lock`; checked by `pip install --require-hashes`.\n"
# What builds the package, editable too; pip is what installs.
_TOOLS = ("editables", "pip")


def requirements() -> list[str]:
    """Return the arguments of pip for everything that may be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = ",".join(project["project"]["optional-dependencies"])
    groups = [part for group in project["dependency-groups"] for part in ("--group", group)]
    return [f".[{extras}]", *groups, *project["build-system"]["requires"], *_TOOLS]


def resolve(arguments: list[str]) -> dict[str, tuple[str, str]]:
    """Return name to version and sha256 of what pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        command += ["--quiet", "--report", str(report), *arguments]
        subprocess.run(command, cwd=ROOT, check=True)
        entries = json.loads(report.read_text(encoding="utf-8"))["install"]
    packages = {}
    for entry in entries:
        archive = entry["download_info"].get("archive_info")
        if archive is not None:
            # A build for one kind of machine, as of 2.13.0+cpu, is a build of that version.
            version = entry["metadata"]["version"].partition("+")[0]
            packages[normal(entry["metadata"]["name"])] = (version, archive["hashes"]["sha256"])
    return packages


def normal(name: str) -> str:
    """Return a project's name as all its spellings have it.

    Examples
    --------
    >>> normal("Foo_Bar")
    'foo-bar'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return name to version and hashes of a lock file.

    Examples
    --------
    >>> read_lock("idna==3.7 --hash=sha256:ab --hash=sha256:cd")["idna"][0]
    '3.7'
    """
    packages = {}
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.match(r"([^=#\s]+)==(\S+)", line):
            packages[normal(match[1])] = (match[2], set(re.findall(r"--hash=sha256:(\w+)", line)))
    return packages


def write_lock(entries: dict[str, tuple[str, set[str]]]) -> str:
    """Return the text of a lock file."""
    lines = [
        " \\\n    ".join(
            [f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in sorted(hashes))]
        )
        for name, (version, hashes) in sorted(entries.items())
    ]
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upgrade", action="store_true")
    keep = [] if parser.parse_args().upgrade else ["--constraint", str(CONSTRAINTS)]
    before = read_lock(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    entries: dict[str, tuple[str, set[str]]] = {}
    for name, (version, digest) in resolve([*keep, *requirements()]).items():
        locked = before.get(name, ("", set[str]()))
        entries[name] = (version, {digest} | (locked[1] if locked[0] == version else set()))
    pins = sorted(f"{name}=={version}" for name, (version, _) in entries.items())
    CONSTRAINTS.write_text("\n".join(pins) + "\n", encoding="utf-8")
    LOCK.write_text(write_lock(entries), encoding="utf-8")
    print(f"{len(entries)} packages in {CONSTRAINTS.name} and {LOCK.name}")


if __name__ == "__main__":
    main()
