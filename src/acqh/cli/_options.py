"""What several commands take: options, and how they are read."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from acqh._core.fields import FILE, IMAGE_FIELDS
from acqh.cli._output import reporting
from acqh.errors import CollectionError


def flag(name: str, what: str) -> Any:
    """Return an option that is given or not."""
    return Option(f"--{name}", help=what)


CollectionArgument = Annotated[
    Path, Argument(metavar="COLLECTION", help="A folder that acqh build has made.")
]
ModelArgument = Annotated[Path, Argument(metavar="MODEL", help="A folder that acqh fit made.")]
ComponentsOption = Annotated[int, Option(min=1, help="Length of query vectors.")]
BytesOption = Annotated[int, Option("--bytes", min=1, max=16, help="Bytes per item.")]
ChunkSizeOption = Annotated[int, Option(min=1, help="Items in memory at a time.")]
DataDirOption = Annotated[
    Path | None, Option(help="Folder with the data files; by default $ACQH_DATA.")
]
SeedOption = Annotated[int, Option(min=0, help="Seed of everything random.")]
MaxPixelsOption = Annotated[
    int | None, Option(min=1, help="Refuse larger images; by default those over 64000000.")
]
LabelSeparatorOption = Annotated[
    str | None, Option(help="What stands between labels of a table; by default a vertical bar.")
]
ViewOption = Annotated[str | None, Option(help="Array or column of the items, if several.")]
QueryViewOption = Annotated[str | None, Option(help="The same of the queries.")]
DaskOption = Annotated[
    str | None,
    Option(metavar="ADDRESS|local", help="Work on a Dask cluster, or a process per core."),
]
DeviceOption = Annotated[
    str | None, Option(metavar="cuda|cpu", help="Work on this device, with torch (extra torch).")
]
TargetsOption = Annotated[
    str | None,
    Option(
        metavar="NAME=WEIGHT,...",
        help="What to learn: labels and the content of views, such as labels=0.5,text=0.5. "
        "Default: labels where there are any, otherwise the content of all views; for a "
        "collection labels=0.42 and content for the rest.",
    ),
]


@contextmanager
def working(address: str | None) -> Iterator[dict[str, Any]]:
    """Give the arguments of a step: a client of the cluster or None, and what shows progress."""
    with ExitStack() as stack:
        client = None
        if address is not None:
            from acqh.scale import connect

            client = stack.enter_context(connect(address))
        yield {"client": client, "progress": stack.enter_context(reporting())}


def find_id(collection: Any, name: str) -> str:
    """Return the id of the item that is meant: by its id, or by its file.

    `name`: an id; a file as hits and manifests name it; or where a file is. An unknown one comes
    back as it is. Raises CollectionError: it is the file of several items.
    """
    if name in collection:
        return name
    path, columns = Path(name).absolute(), collection.fields()
    places: list[tuple[str, str, str | None]] = [(field, name, None) for field in IMAGE_FIELDS]
    places += [(FILE, path.relative_to(it).as_posix(), str(it)) for it in path.parents]
    for column, value, folder in places:
        if column not in columns:
            continue
        found = collection.browse(where={column: value}, k=100).hits
        ids = [hit.id for hit in found if folder in (None, hit.folder)]
        if len(ids) > 1:
            raise CollectionError(f"{name} is the file of several items: {', '.join(ids)}")
        if ids:
            return str(ids[0])
    return name


def parse_targets(text: str) -> dict[str, float]:
    """Return targets by name.

    `text`: such as ``labels=0.5,text=0.5``; a name alone has weight one. Raises BadParameter: a
    weight that is not a number, or a name twice.

    Examples
    --------
    >>> parse_targets("labels=0.5,text")
    {'labels': 0.5, 'text': 1.0}
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (each.strip() for each in part.partition("="))
        try:
            number = float(weight or 1.0)
        except ValueError:
            number = float("nan")
        if not name or name in found or number != number:
            raise BadParameter(
                f"targets are names and weights such as labels=0.5,text=0.5, got {text!r}"
            )
        found[name] = number
    return found
