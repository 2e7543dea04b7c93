"""Arguments and options that several commands take."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from acqh._core.fields import FILE, IMAGE_FIELDS, Language
from acqh.cli._output import reporting
from acqh.errors import AcqhError, CollectionError, InvalidInputError

# Panels of the help, and the parameters whose options they list.
_PANELS = {
    "Access": "token token_file write_token write_token_file",
    "Changes": "clean delete dry_run forget",
    "Contents": "base_url captions codes fields index_all_fields metadata thumbnails",
    "Encoders": "encoder image_encoder language query_encoder text_encoder",
    "Filters": "where",
    "Input": "clear data_dir download features image_root items items_column label_separator "
    "max_megapixels modality model ocr ocr_all queries queries_column rerank source strict watch",
    "Measure": "at",
    "Methods": "method_files methods trivial",
    "Model": "by_labels metric n_bytes n_codebooks n_components seed similarity sweep targets "
    "train_size",
    "Network": "host open_browser port root_path serve workers",
    "One item": "identifier label text",
    "Output": "append as_json cache_dir evaluate help k keep list_removable nul out overwrite "
    "paths plot quiet verbose",
    "Protocol": "protocol split splits",
    "Query": "dates image image_weight like mode text_weight",
    "Resources": "chunk_size dask device rerank_k shards threads",
    "Runs": "retry_failed",
    "Web interface": "originals suggestions",
}
PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}


def option(text: str, *names: str, panel: str | None = None, **settings: Any) -> Any:
    """Return an option with this help; `settings`: of `typer.Option`.

    `panel`: where the help lists it, if not in the panel of `PANEL_OF`.
    """
    return Option(*names, help=text, rich_help_panel=panel, **settings)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    """Return an option without a value."""
    return option(text, f"--{name}", panel=panel)


CollectionArgument = Annotated[
    Path, Argument(metavar="COLLECTION", help="Collection made by acqh build or acqh sync.")
]
ModelArgument = Annotated[Path, Argument(metavar="MODEL", help="Model made by acqh fit.")]
OverwriteOption = Annotated[bool, flag("overwrite", "Replace the output if it exists.")]
ComponentsOption = Annotated[int, option("Dimensions of query vectors.", min=1)]
BytesOption = Annotated[int, option("Bytes per item, from 1 to 16.", "--bytes", min=1, max=16)]
ChunkSizeOption = Annotated[int, option("Number of rows in memory at a time.", min=1)]
DataDirOption = Annotated[
    Path | None,
    option(
        "Folder with the data files. Default: the environment variable ACQH_DATA.", metavar="DIR"
    ),
]
SeedOption = Annotated[int, option("Random seed.", min=0)]
MegapixelsOption = Annotated[
    float | None,
    option(
        "Skip images of more megapixels; a JPEG may have four times as many. Default: 64.",
        "--max-megapixels",
        min=1e-6,
        metavar="N",
    ),
]
LabelSeparatorOption = Annotated[
    str | None, option("Separator of labels in a table. Default: |.", metavar="TEXT")
]
ItemsColumnOption = Annotated[
    str | None,
    option("Array or column with the items, if the file has several.", metavar="NAME"),
]
QueriesColumnOption = Annotated[
    str | None,
    option("Array or column with the queries, if the file has several.", metavar="NAME"),
]
DaskOption = Annotated[
    str | None,
    option("Run on a Dask cluster. 'local' starts one process per core.", metavar="ADDRESS"),
]
DeviceOption = Annotated[
    str | None, option("Run on this device (extra torch).", metavar="cpu|cuda")
]
TargetsOption = Annotated[
    str | None,
    option(
        "Weights of labels and views in training, such as labels=0.5,text=0.5. "
        "Default: labels if there are any, otherwise all views; for a collection labels=0.42 "
        "and the rest for images and texts.",
        metavar="NAME=N,...",
    ),
]
QueryEncoderOption = Annotated[
    Literal["default", "fast"],
    option(
        "Encoder of query texts: that of the collection, or fast static embeddings.",
        envvar="ACQH_QUERY_ENCODER",
    ),
]
LanguageOption = Annotated[
    Language,
    option(
        "Language of the texts (ISO 639-1). All but English need the extra languages.",
        envvar="ACQH_LANGUAGE",
    ),
]
PortOption = Annotated[int, option("Port to listen on; 0 takes a free one.", min=0, max=65535)]
WhereOption = Annotated[
    list[str] | None,
    option(
        "Use only items with this value, such as label=dog, date=2021-07, kind=photo or "
        "tag=violin. Also 'date>=2023-01-31', 'year>2005', kind!=photo, or tag~vio (contains). "
        "May be repeated: all must hold.",
        metavar="FIELD=VALUE",
    ),
]


def as_pixels(megapixels: float | None) -> int | None:
    """Return a number of megapixels in pixels.

    Examples
    --------
    >>> as_pixels(1.5), as_pixels(None)
    (1500000, None)
    """
    return None if megapixels is None else max(1, round(megapixels * 1e6))


@contextmanager
def working(address: str | None) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a step: the client of a cluster or None, and the progress callback."""
    with ExitStack() as stack:
        client = None
        if address is not None:
            from acqh.scale import connect

            client = stack.enter_context(connect(address))
        yield {"client": client, "progress": stack.enter_context(reporting())}


def check_kind(path: Path, *, is_collection: bool) -> None:
    """Raise InvalidInputError if `acqh query` gets a collection, or `acqh search` an index."""
    from acqh.io.read import kind_of

    try:
        kind = kind_of(path)
    except (AcqhError, OSError):
        return  # opening it raises an error with a better message
    if not is_collection and kind == "collection":
        raise InvalidInputError(f"{path} is a collection; use: acqh search {path} WORDS...")
    if is_collection and kind in ("code-index", "code-parts"):
        raise InvalidInputError(f"{path} is an index of vectors; use: acqh query {path} QUERIES")


def find_id(collection: Any, name: str) -> str:
    """Return the id of an item from its id or its file.

    `name`: an id, a file as hits and tables name it, or the path of a file. An unknown name is
    returned unchanged. Raises CollectionError: several items have this file.
    """
    if name in collection:
        return name
    path, fields = Path(name).absolute(), collection.fields()
    places: list[tuple[str, str, str | None]] = [(field, name, None) for field in IMAGE_FIELDS]
    places += [(FILE, path.relative_to(parent).as_posix(), str(parent)) for parent in path.parents]
    for field, value, folder in places:
        if field not in fields:
            continue
        hits = collection.browse(where={field: value}, k=100).hits
        ids = [hit.id for hit in hits if folder in (None, hit.folder)]
        if len(ids) > 1:
            raise CollectionError(f"{name} is the file of several items: {', '.join(ids)}")
        if ids:
            return str(ids[0])
    return name


def parse_targets(text: str) -> dict[str, float]:
    """Return targets by name.

    `text`: such as ``labels=0.5,text=0.5``; a name without a weight has weight one. Raises
    BadParameter: a weight is not a number, or a name occurs twice.

    Examples
    --------
    >>> parse_targets("labels=0.5,text")
    {'labels': 0.5, 'text': 1.0}
    """
    targets: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (field.strip() for field in part.partition("="))
        try:
            number = float(weight or 1.0)
        except ValueError:
            number = float("nan")
        if not name or name in targets or number != number:
            raise BadParameter(
                f"--targets takes names with weights such as labels=0.5,text=0.5, got {text!r}"
            )
        targets[name] = number
    return targets


def parse_list(text: str) -> list[str]:
    """Return the parts of a text between commas.

    Examples
    --------
    >>> parse_list("date, author,")
    ['date', 'author']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_numbers(text: str, option: str, most: int = 1_000_000) -> list[int]:
    """Return whole numbers between commas; raise BadParameter for others.

    Examples
    --------
    >>> parse_numbers("2,4,8", "--bytes")
    [2, 4, 8]
    """
    parts = parse_list(text)
    if not parts or not all(part.isdecimal() and 1 <= int(part) <= most for part in parts):
        raise BadParameter(
            f"{option} takes whole numbers from 1 to {most:,} such as 2,4,8, got {text!r}"
        )
    return [int(part) for part in parts]
