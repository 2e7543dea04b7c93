"""Published results: the tables of the ACQH paper, and MAP under the field's protocol.

``python -m benchmarks.paper.published`` prints the results of the field as Markdown, one table per
data set and cut-off: results of different cut-offs cannot be compared.
"""

import json
from itertools import product
from pathlib import Path

FOLDER = Path(__file__).parent
PAPER = json.loads((FOLDER / "printed.json").read_text(encoding="utf-8"))
FIELD = json.loads((FOLDER / "field.json").read_text(encoding="utf-8"))["rows"]
BITS = ("16", "32", "64")


def paper_row(method):
    """Return the paper's name of one of our methods, None if it has no such row."""
    method = method.partition(" as printed")[0]
    return next((name for name, ours in PAPER["methods"].items() if method in ours), None)


def paper_result(quantity, dataset, method, n_components, direction):
    """Return a printed result, None where the paper has none.

    `quantity`: map, fit_seconds or query_seconds. `method`: our name. `direction`: such as
    ``"image->text"``; tables of times have none.
    """
    row, widths = paper_row(method), PAPER["n_components"]
    if row is None or n_components not in widths:
        return None
    for table in PAPER["tables"]:
        is_wanted = (table["quantity"], table["dataset"]) == (quantity, dataset)
        if is_wanted and table["direction"] in (None, direction):
            return float(table["rows"][row][widths.index(n_components)])
    return None


def main():
    heads = [f"{way} {bits}" for way in ("I→T", "T→I") for bits in BITS]
    cutoffs = dict.fromkeys(row["cutoff"] for row in FIELD)
    for cutoff, data in product(cutoffs, ("mirflickr25k", "nuswide", "coco")):
        rows = [row for row in FIELD if row["cutoff"] == cutoff and data in row["figures"]]
        if not rows:
            continue
        print(f"\n{data}, MAP, cut-off {cutoff}\n")
        print("| method | venue | " + " | ".join(heads) + " | labels | features | epoch |")
        print("|---" * (5 + len(heads)) + "|")
        for row in rows:
            pairs = [row["figures"][data].get(bits) for bits in BITS]
            values = [f"{pair[way]:.3f}" if pair else "–" for way in (0, 1) for pair in pairs]
            facts = (row["method"], row["venue"], *values)
            labels = "yes" if row["labels"] else "no"
            print(f"| {' | '.join(facts)} | {labels} | {row['features']} | {row['epoch']} |")


if __name__ == "__main__":
    main()
