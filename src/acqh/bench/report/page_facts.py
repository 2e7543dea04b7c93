"""What a reader needs besides results: settings, methods, machine, failures, how to cite."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from acqh import __version__
from acqh.bench.protocol.split import PROTOCOLS
from acqh.bench.report.page_tables import render_plain_table, render_tabs
from acqh.bench.report.results import Results, group
from acqh.bench.run.store import Record
from acqh.methods.registry import get
from acqh.methods.registry import list as list_methods

# What to cite, as BibTeX.
CITATION = f"""\
@article{{wang2020acqh,
  author = {{Wang, Lu and Yang, Jie}},
  title  = {{Asymmetric Correlation Quantization Hashing for Cross-modal Retrieval}},
  year   = {{2020}}
}}
@software{{acqh,
  author  = {{{{the acqh authors}}}},
  title   = {{acqh: cross-modal retrieval from a few bytes per item}},
  version = {{{__version__}}}
}}"""


def render_failures(results: Results) -> str:
    """Return the cells that failed, with reasons; cells with one reason in one line."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in results.failures:
        setting = record["setting"]
        name = (record["label"], setting["dataset"], setting["protocol"], setting["database"])
        found.setdefault((*name, str(record.get("reason") or "not said")), []).append(record)
    return render_plain_table(
        ("method", "data", "protocol", "database", "reason", "sizes", "seeds"),
        [(*name, _sizes(records), _seeds(records)) for name, records in found.items()],
    )


def _sizes(records: Sequence[Record]) -> str:
    sizes = {
        f"{record['bytes_asked']} bytes"
        if record.get("bytes_asked")
        else f"K = {record.get('n_components_asked')}"
        for record in records
    }
    return ", ".join(sorted(sizes))


def _seeds(records: Iterable[Record]) -> str:
    return ", ".join(map(str, sorted({record["setting"]["seed"] for record in records})))


def render_settings(results: Results) -> str:
    """Return data, splits, parameters, versions and machine of all that is in the report."""
    records = [*{run.record["key"]: run.record for run in results.runs}.values()]
    tabs = [
        ("Data", _data(records)),
        ("Splits", _splits(records)),
        ("Parameters", _parameters(records)),
        ("Machine and versions", _machines([*records, *results.failures])),
    ]
    command = (results.store.plan() or {}).get("command", [])
    last = f"<p>Last command: <code>{escape(shlex.join(map(str, command)))}</code></p>"
    return (last if command else "") + render_tabs("settings", tabs)


def _data(records: Sequence[Record]) -> str:
    rows = {}
    for record in records:
        setting = record["setting"]
        row = record["rows"][0]
        counts = tuple(f"{row[name]:,}" for name in ("n_train", "n_query", "n_database"))
        if setting.get("n_train") is None:
            prepared = "; ".join(
                f"{view}: {_map_name(made)}"
                for view, made in (setting.get("preparation") or {}).items()
            )
            name = (setting["dataset"], setting["protocol"], *counts)
            digest = str(setting.get("data_sha256", ""))[:16]
            rows[name] = (*name, prepared or "none", digest)
    columns = ("data", "protocol", "training", "queries", "database", "preparation", "sha256")
    said = " ".join(f"{p.name.capitalize()}: {p.description}." for p in PROTOCOLS.values())
    return f"<p>{said}</p>{render_plain_table(columns, sorted(rows.values()))}"


def _map_name(described: Any) -> str:
    if not isinstance(described, Mapping) or "class" not in described:
        return str(described)
    given = {key: value for key, value in described.get("params", {}).items() if value is not None}
    return f"{described['class']}({', '.join(f'{key}={value}' for key, value in given.items())})"


def _splits(records: Sequence[Record]) -> str:
    rows = set()
    for record in records:
        setting = record["setting"]
        part = "all" if setting.get("n_train") is None else f"{setting['n_train']:,}"
        kind = "official" if setting.get("official") else "drawn"
        name = (setting["dataset"], setting["protocol"], setting["seed"], part, kind)
        rows.add((*name, str(record["split_hash"])[:32]))
    columns = ("data", "protocol", "seed", "training items", "split", "sha256 (first half)")
    return render_plain_table(columns, sorted(rows))


def _parameters(records: Sequence[Record]) -> str:
    """Return one line per label: what all its cells share, and which values the others take."""
    found: dict[str, dict[str, list[Any]]] = {}
    for record in records:
        values = found.setdefault(record["label"], {})
        for name, value in record["setting"]["params"].items():
            seen = values.setdefault(name, [])
            if value not in seen:
                seen.append(value)
    rows = []
    for label, values in sorted(found.items()):
        fixed = [f"{name}={json.dumps(seen[0])}" for name, seen in values.items() if len(seen) == 1]
        varied = [f"{name}: {_listed(seen)}" for name, seen in values.items() if len(seen) > 1]
        rows.append((label, ", ".join(fixed), "; ".join(varied)))
    return render_plain_table(("method", "the same in all cells", "varied"), rows)


def _listed(values: Sequence[Any]) -> str:
    """Return values as JSON, numbers in order and before all else."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    others = [value for value in values if not isinstance(value, int | float)]
    return ", ".join(json.dumps(value) for value in (*numbers, *others))


def _machines(records: Sequence[Record]) -> str:
    rows: dict[tuple[str, ...], int] = {}
    for record in records:
        machine = ", ".join(f"{key}: {value}" for key, value in record["machine"].items())
        versions = ", ".join(f"{key} {value}" for key, value in record["versions"].items())
        name = (machine, versions, str(record["setting"].get("n_threads", "not said")))
        rows[name] = rows.get(name, 0) + 1
    columns = ("machine", "versions", "threads", "cells")
    return render_plain_table(columns, [(*name, count) for name, count in rows.items()])


def render_methods(results: Results) -> str:
    """Return what each method is, and what of it is our reconstruction."""
    known = set(list_methods())
    rows = []
    for method, runs in sorted(group(results.runs, lambda run: run.method, unique=False).items()):
        labels = ", ".join(dict.fromkeys(run.label for run in runs))
        if method not in known:
            rows.append((labels, "", "", "", "", ""))
            continue
        info = get(method).info
        learns = " or ".join(["labels"] * info.supervised + ["pairs alone"] * bool(info.label_free))
        row = (labels, info.title, info.reference, info.code, learns, info.reconstruction or "–")
        rows.append(row)
    columns = ("rows", "method", "reference", "code", "learns from", "our reconstruction")
    return render_plain_table(columns, rows)
