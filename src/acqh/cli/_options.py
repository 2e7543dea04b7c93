"""Arguments and options that several commands take."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from typer import BadParameter

from acqh._core.fields import FILE, IMAGE_FIELDS
from acqh.cli._output import reporting
from acqh.errors import AcqhError, CollectionError, InvalidInputError


def shared() -> None:
    """Arguments and options that commands share, by the names of their parameters.

    Every command takes the first three, except that serve and open print no result.

    Parameters
    ----------
    as_json : Output, --json
        Print the result as JSON.
    verbose : Output, --verbose -v
        Show details, a log and tracebacks.
    quiet : Output, --quiet -q
        Show results and errors only.
    label_separator : Input, TEXT
        Separator of labels in a table. Default: |.
    max_megapixels : Input, N, 1e-6..
        Skip images of more megapixels. Default: 64.
    strict : Input
        Stop at the first item that cannot be read.
    language : Encoders, ACQH_LANGUAGE
        Language of the texts (ISO 639-1). All but English need the extra languages.
    n_components : Model, 1..
        Dimensions of query vectors.
    n_codebooks : Model, --bytes, 1..16
        Bytes per item, from 1 to 16.
    targets : Model, NAME=N,...
        Weights of labels and views in training, such as labels=0.5,text=0.5. Default: labels if
        there are any, otherwise all views; for a collection labels=0.42 and the rest for images and
        texts.
    seed : Model, 0..
        Random seed.
    path : COLLECTION
        Collection made by acqh build or acqh sync.
    data : DATA
        File or folder of features (.npz, .npy, Zarr, .mat, Parquet, CSV).
    chunk_size : Resources, 1..
        Number of rows in memory at a time.
    device : Resources, cpu|cuda
        Run on this device (extra torch).
    dask : Resources, ADDRESS
        Run on a Dask cluster. 'local' starts one process per core.
    overwrite : Output
        Replace the output if it exists.
    model : MODEL
        Model made by acqh fit.
    items_column : Input, NAME
        Array or column with the items, if the file has several.
    queries_column : Input, NAME
        Array or column with the queries, if the file has several.
    rerank : Input, FILE
        Re-rank hits by the vectors of this .npy file, in the order of the items: the vectors
        themselves, or those of acqh compress --keep.
    plot : Output, FILE
        Plot recall against bytes per item to a .svg, .png or .pdf file.
    rerank_k : Resources, 1..
        Number of hits to re-rank per query. Default: 200, or k if that is more.
    data_dir : Input, DIR
        Folder with the data files. Default: the environment variable ACQH_DATA.
    where : Filters, FIELD=VALUE
        Use only items with this value, such as label=dog, date=2021-07, kind=photo or tag=violin.
        Also 'date>=2023-01-31', 'year>2005', kind!=photo, or tag~vio (contains). May be repeated:
        all must hold.
    source : SOURCE
        Collection made by acqh build, or index made by acqh compress or acqh index.
    codes : Contents
        Write codes instead of vectors.
    metadata : Contents, --metadata/--no-metadata
        Also write texts, labels and fields.
    query_encoder : Encoders, ACQH_QUERY_ENCODER
        Encoder of query texts: that of the collection, or fast static embeddings.
    """


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
