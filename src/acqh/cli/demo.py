"""``acqh demo``: the embedded emoji set in the web interface, in searches and in a table."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from acqh import __version__
from acqh._core.runtime import Progress
from acqh.cli._options import PortOption, flag, option
from acqh.cli._output import output, print_result, print_rows, print_table, reporting
from acqh.cli.search import serve as serve_collection
from acqh.errors import AcqhError

# Queries that the web interface suggests: none is the name of an emoji.
EXAMPLES = ["sad cat", "red flower", "happy birthday", "fast car", "morning coffee", "scary"]


def demo(
    evaluate: Annotated[
        bool,
        flag("evaluate", "Also measure the search with and without labels, as a table."),
    ] = False,
    serve: Annotated[
        bool | None,
        option(
            "Start the web interface, until Ctrl-C. Default: on a terminal, unless the "
            "environment variable CI is set or --json is passed.",
            "--serve/--no-serve",
        ),
    ] = None,
    open_browser: Annotated[bool, option("Open the browser.", "--open/--no-open", "-o")] = True,
    port: PortOption = 0,
    cache_dir: Annotated[
        Path | None,
        option("Folder that keeps the collection. Default: the cache of the user.", metavar="DIR"),
    ] = None,
    seed: Annotated[int, option("Random seed of the evaluation.", min=0, panel="Output")] = 0,
) -> None:
    """Search 1,906 emoji by text in the browser.

    Without a terminal, it prints some searches instead.

    Example: acqh demo

    Documentation: docs/tutorials/search.md
    """
    with reporting() as progress:
        collection = emoji_collection(cache_dir or cache_folder(), progress)
    if serve is None:
        serve = sys.stdout.isatty() and not os.environ.get("CI") and not output.as_json
    if evaluate:
        data, rows, seconds = _evaluate(seed)
        print_result([asdict(row) for row in rows], partial(_print, data, rows, seconds))
    elif not serve:
        _print_searches(collection)
    if serve:
        serve_collection(
            collection, port=port, suggestions=EXAMPLES, workers=1, open_browser=open_browser
        )
    elif not output.as_json:
        # By the path of the program: in a virtual environment it may not be on the PATH.
        program = sys.argv[0] if Path(sys.argv[0]).stem == "acqh" else "acqh"
        print(f"\nNext: {shlex.join([program, 'serve', str(collection)])} --open")


def _print_searches(path: Path) -> None:
    """Print the names of the best hits of some queries."""
    from acqh.collection import Collection

    with Collection.open(path) as collection:
        names = {
            text: [str(hit.fields["name"]) for hit in collection.search(text=text, k=5).hits]
            for text in EXAMPLES
        }
    print_result(
        {"collection": path, "searches": names},
        lambda: print_rows([(text, ", ".join(hits)) for text, hits in names.items()]),
    )


def _evaluate(seed: int) -> tuple[Any, list[Any], float]:
    """Return the data, the rows of the table, and the seconds they took."""
    from sklearn.base import clone
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import make_pipeline

    from acqh.bench import make_split
    from acqh.bench.running.evaluate import measure
    from acqh.data import load_dataset
    from acqh.features import TagSVD
    from acqh.methods import get
    from acqh.methods.registry import DatabaseMode

    began, data = time.perf_counter(), load_dataset("emoji")
    maps = {"text": make_pipeline(TfidfTransformer(), TagSVD(400, random_state=seed))}
    methods = [
        get("acqh")(32, n_codebooks=4, feature_maps=maps, random_state=seed),
        get("label-ridge")(ridge="auto", feature_maps=maps),
    ]
    databases: dict[str, tuple[DatabaseMode, ...]] = {
        "labelled": ("training",),
        "unlabelled": ("single", "fused"),
    }
    rows = []
    with reporting() as progress:
        runs = list(product(methods, databases))
        for number, (method, protocol) in enumerate(runs):
            step = f"evaluating: {method.info.name}, {protocol} database"
            progress(number, len(runs), step)
            split = make_split(data, protocol, seed=seed, groups="family")
            parts, started = split.parts(data), time.perf_counter()
            fitted = clone(method).fit(parts.train.views, parts.train.labels)
            fit_seconds = time.perf_counter() - started
            for database in databases[protocol]:
                measured = measure(fitted, split, parts, database, fit_seconds)
                rows += [row for row, *_ in measured]
    return data, rows, time.perf_counter() - began


def _print(data: Any, rows: list[Any], seconds: float) -> None:
    columns = ["method", "bytes", "database", "encoded from", "query", "MAP@all", "@50", "@100"]
    cells = []
    for row in rows:
        query, searched = row.direction.split("->")
        encoded_from = {"training": "labels", "single": searched, "fused": "both"}
        scores = (f"{value:.3f}" for value in (row.map_all, row.map_50, row.map_100))
        facts = (row.method, str(row.bytes_per_item), row.protocol, encoded_from[row.database])
        cells.append([*facts, query, *scores])
    first, last = rows[0], rows[-1]
    caption = (
        f"{len(data):,} emoji in {len(data.label_names)} groups, variants of one thing kept "
        f"together; {first.n_query} queries against {first.n_database:,} labelled or "
        f"{last.n_database} unlabelled items. Average precision over the relevant items within "
        f"the cut-off, ties in expectation; chance is 0.13. {seconds:.0f} s."
    )
    print_table("Emoji: images find names, names find images", columns, cells, caption=caption)


# Settings of a collection that is reused.
_SETTINGS = {"n_components": 128, "n_codebooks": 8}
# Emoji are drawings of 64 pixels: larger inputs are slower to encode, and not better.
_IMAGE_SIZE = 128


def cache_folder() -> Path:
    """Return the folder of acqh in the cache of the user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "acqh"


def emoji_collection(folder: Path, progress: Progress) -> Path:
    """Return the path of the emoji collection in a folder; build it if necessary.

    It is rebuilt if it is damaged, or if it has another version or other settings.
    """
    from acqh.collection import Collection
    from acqh.encoders import EfficientNetLite0, make_encoder

    path = folder / "emoji.acqh"
    if not _is_current(path):
        folder.mkdir(parents=True, exist_ok=True)
        encoder = make_encoder("auto", view="image")
        if isinstance(encoder, EfficientNetLite0):
            encoder.set_params(size=_IMAGE_SIZE, classes=False)
        settings: dict[str, Any] = {**_SETTINGS, "overwrite": True, "progress": progress}
        # A list, so that progress has a total.
        Collection.build(list(emoji_items()), path, image_encoder=encoder, **settings).close()
    return path


def emoji_items() -> Iterator[Any]:
    """Yield the emoji; their labels are their group and their subgroup."""
    from scipy.sparse import csr_array

    from acqh.collection import Item
    from acqh.data import load_dataset

    data = load_dataset("emoji")
    items = data.items
    groups = csr_array(data.labels).indices  # one per item
    for row, group in enumerate(groups):
        yield Item(
            image=items["image"][row],
            text=items["text"][row],
            labels=[data.label_names[group], items["subgroup"][row]],
            id=str(data.ids[row]),
            fields={
                "name": items["text"][row].partition(",")[0],
                "emoji": items["emoji"][row],
                "family": items["family"][row],
            },
        )


def _is_current(path: Path) -> bool:
    from acqh.collection import Collection

    try:
        with Collection.open(path, verify=True) as collection:
            info = collection.info()
    except (AcqhError, FileNotFoundError):
        return False
    made_with = {name: getattr(info, name) for name in _SETTINGS}
    return info.version == __version__ and made_with == _SETTINGS
