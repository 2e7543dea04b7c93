"""Long trials under hardship, one line of counts at the end; about twenty minutes.

    python tools/soak.py [CASE...]

A case is a program that prints one JSON object as its last line and fails, with an exit code other
than 0, where something went wrong. To add one, write it down in `CASES`.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

TOOLS = Path(__file__).parent
# Name of a case -> program in this folder, and its arguments.
CASES: dict[str, list[str]] = {
    "rebuilds": ["soak_rebuilds.py", "--rebuilds", "60"],
    "kills": ["soak_kills.py", "--builds", "60"],
    "clients": ["soak_clients.py", "--seconds", "20"],
    "serve": ["soak_serve.py", "--minutes", "10"],
    "photos": ["soak_photos.py", "--seconds", "90"],
    "mutations": ["mutate.py", "--seconds", "120"],
}


def run(name: str) -> dict[str, object]:
    program, *arguments = CASES[name]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(TOOLS / program), *arguments], stdout=subprocess.PIPE, text=True
    )
    lines = done.stdout.strip().splitlines()
    try:
        counts = json.loads(lines[-1])
    except (IndexError, ValueError):
        counts = {}
    return {"ok": done.returncode == 0, "seconds": round(time.monotonic() - started), **counts}


def main() -> int:
    names = sys.argv[1:] or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        print(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    results = {name: run(name) for name in names}
    print(json.dumps(results))
    return 0 if all(counts["ok"] for counts in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
