"""The program `acqh`: its commands, and how errors reach a person."""

import sys
from typing import Annotated

import typer

from acqh import __version__
from acqh.cli import (
    _add,
    _bench,
    _build,
    _compress,
    _datasets,
    _demo,
    _export,
    _fit,
    _index,
    _remove,
    _report,
    _search,
    _serve,
    _sync,
    _verify,
)
from acqh.errors import AcqhError

app = typer.Typer(
    help="Find texts for an image and images for a text, from a few bytes per item.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("add")(_add.add)
app.command("bench")(_bench.bench)
app.command("build")(_build.build)
app.command("compress")(_compress.compress)
app.command("datasets")(_datasets.datasets)
app.command("demo")(_demo.demo)
app.command("encode")(_fit.encode)
app.command("export")(_export.export)
app.command("fit")(_fit.fit)
app.command("index")(_index.index)
app.command("remove")(_remove.remove)
app.command("report")(_report.report)
app.command("search")(_search.search)
app.command("serve")(_serve.serve)
app.command("sync")(_sync.sync)
app.command("verify")(_verify.verify)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"acqh {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: 0 if all went well, 1 if it failed, 2 for a wrong call."""
    try:
        app()
    except SystemExit:
        # Whoever reads has enough, as `head` does: Typer then silences what is left to print and
        # leaves with 1, but nothing has failed.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            raise SystemExit(0) from None
        raise
    except (AcqhError, OSError) as error:
        # A user's mistake or a full disk: the message says it all, a traceback would hide it.
        print(f"acqh: {error}", file=sys.stderr)
        raise SystemExit(1) from None
