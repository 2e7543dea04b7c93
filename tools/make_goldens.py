"""Store the results of the cases in tests/golden again: all of them, or those that are named.

Run it only for a change that is meant to change results; say in its commit what improved.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "golden")]

from golden_cases import CASES, FOLDER  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    names = parser.parse_args().cases or CASES
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        np.savez_compressed(FOLDER / f"{name}.npz", **CASES[name]())


if __name__ == "__main__":
    main()
