"""``acqh verify``: deep check of anything acqh has written."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._output import JsonOption, print_json
from acqh.cli._voice import voice

# What is said of what consists of parts.
_SEVERAL = {
    "code-parts": "codes of {:,} items in {:,} parts.",
    "search-parts": "answers to {:,} queries in {:,} parts.",
    "code-shards": "index of {:,} items in {:,} shards.",
}


def verify(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A collection, an index, codes or a model.")
    ],
    clean: Annotated[
        bool, typer.Option("--clean", help="Also remove what killed builds of it left beside it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every byte of what acqh has written, and that its parts agree."""
    if clean:
        from acqh.collection import remove_leftovers

        n_bytes = remove_leftovers(path)
        voice.note(f"{path}: {n_bytes:,} bytes of killed builds removed")
    report, facts = _check(path)
    if as_json:
        print_json({**asdict(report), "path": str(report.path)})
    elif report.problems:
        for problem in report.problems:
            print(f"{path}: {problem}")
    else:
        print(f"{path}: whole. {facts}")
    if report.problems:
        raise typer.Exit(1)


def _as_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of ``acqh build`` that say how a collection was built."""
    for name, value in settings.items():
        option = "--seed" if name == "random_state" else f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif name == "targets" and value:
            weights = (f"{view}={target['weight']:g}" for view, target in value.items())
            yield f"{option} {','.join(weights)}"
        elif value is not None and value is not False:
            yield f"{option} {shlex.quote(str(value))}"


def _check(path: Path) -> tuple[Any, str]:
    from acqh._load import verify as check
    from acqh.io import BundleReport

    report = check(path)
    if not isinstance(report, BundleReport):
        notes = "".join(f" {note[0].upper()}{note[1:]}." for note in report.notes)
        built = " ".join(_as_options(report.settings or {}))
        return report, (
            f"collection, {report.n_items:,} items, {report.n_bytes:,} bytes."
            + (f" Built with {built}." if built else "")
            + notes
        )
    if report.kind in _SEVERAL and report.ok:
        from acqh import load

        held = load(path)
        n_parts = len(held.shards) if report.kind == "code-shards" else held.n_parts
        return report, _SEVERAL[report.kind].format(len(held), n_parts)
    title = f" '{report.name}'" if report.name else ""
    return report, (
        f"{report.kind}{title}, {report.n_members} members, {report.n_bytes:,} bytes, "
        f"format {report.version}."
    )
