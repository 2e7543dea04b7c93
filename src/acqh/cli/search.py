"""Commands that answer from a collection: once, or as a service."""

import logging
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.cells import cell_len, set_cell_size
from typer import Argument, BadParameter, Option

from acqh._core.fields import FILE
from acqh.cli._options import CollectionArgument, MaxPixelsOption, find_id
from acqh.cli._output import count, draw_bar, print_result, printable, shorten, voice

WordsArgument = Annotated[
    list[str] | None, Argument(metavar="WORDS", help="What to look for, such as: red car")
]
LikeOption = Annotated[
    str | None, Option("--like", metavar="ID", help="Find items like this one; its id or file.")
]
WhereOption = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION", help="label=NAME or COLUMN=VALUE; may be repeated, and all must hold."
    ),
]
ModeOption = Annotated[
    Literal["hybrid", "keyword", "semantic"],
    Option(help="Search keywords in captions, names and labels, semantic similarity, or both."),
]

QueryEncoderOption = Annotated[
    Literal["default", "fast"],
    Option(help="Encoder of query texts; fast: static token embeddings in place of MiniLM."),
]


def search(
    path: CollectionArgument,
    words: WordsArgument = None,
    image: Annotated[Path | None, Option(help="An image to search for.")] = None,
    like: LikeOption = None,
    k: Annotated[int, Option("-k", min=1, help="How many hits.")] = 10,
    where: WhereOption = None,
    mode: ModeOption = "hybrid",
    text_weight: Annotated[float, Option(min=0, help="How much the words count.")] = 1.0,
    image_weight: Annotated[float, Option(min=0, help="How much the image counts.")] = 1.0,
    query_encoder: QueryEncoderOption = "default",
    max_pixels: MaxPixelsOption = None,
) -> None:
    """Find items by words, by an image, by both, or by another item."""
    if not words and image is None and like is None:
        raise BadParameter(
            f"say what to look for: acqh search {path} WORDS..., or --image FILE, or --like ID"
        )
    from acqh.collection import Collection

    text = " ".join(words) if words else None
    given = {"text": (text, text_weight), "image": (image, image_weight)}
    weights = {name: weight for name, (value, weight) in given.items() if value is not None}
    with Collection.open(path, query_encoder=query_encoder) as collection:
        item = None if like is None else find_id(collection, like)
        asked: dict[str, Any] = {"text": text, "image": image, "item": item, "weights": weights}
        answer = collection.search(**asked, k=k, where=where, mode=mode, max_pixels=max_pixels)
    print_result(_as_json(answer), partial(_print, answer))


def _as_json(answer: Any) -> dict[str, Any]:
    facts: dict[str, Any] = answer.to_dict()
    for written, hit in zip(facts["hits"], answer.hits, strict=True):
        written["file"] = file_of(hit)
    return facts


def _print(answer: Any) -> None:
    if not answer.hits:
        print(f"nothing found among {count(answer.n_items, 'item')}")
        return
    width = shutil.get_terminal_size().columns
    if not answer.n_confident:
        print("nothing stands out; the nearest are:")
    names = [printable(_name_of(hit)) for hit in answer.hits]
    room = min(max(map(cell_len, names)), width // 2)
    for rank, (hit, name) in enumerate(zip(answer.hits, names, strict=True), start=1):
        bar = draw_bar(hit.match)
        print(f"{rank:>3}  {bar}  {set_cell_size(name, max(room, cell_len(name)))}  "
              f"{', '.join(hit.why)}".rstrip())  # fmt: skip
        said = " | ".join(filter(None, (", ".join(hit.labels), hit.text)))
        if said:
            print(" " * 5 + shorten(printable(said), width - 5))
    milliseconds = sum(answer.milliseconds.values())
    print(f"{len(names):,} of {count(answer.n_items, 'item')}, {milliseconds:.0f} ms")


def _name_of(hit: Any) -> str:
    """Return the file of a hit, and its id where that is another."""
    file = file_of(hit)
    # The id of a folder's image is its file, unless it was moved.
    same = not file or hit.id in (file, hit.fields.get(FILE))
    return (file or hit.id) if same else f"{file} (id {hit.id})"


def file_of(hit: Any) -> str:
    """Return the file of a hit, as it can be opened from here where that is known; "" for none."""
    from acqh.web.originals import file_of as name_of

    name = name_of(hit)
    if name is None:
        return ""
    path = Path(hit.folder, name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else name


def serve(
    collection: CollectionArgument,
    host: Annotated[str | None, Option(help="Any but loopback needs a token.")] = None,
    port: Annotated[int | None, Option(min=0, max=65535, help="By default 8000.")] = None,
    token_file: Annotated[Path | None, Option(help="The token of readers.")] = None,
    write_token_file: Annotated[Path | None, Option(help="The token of writers.")] = None,
    image_root: Annotated[
        Path | None, Option(exists=True, file_okay=False, help="Where the images are, to link to.")
    ] = None,
    root_path: Annotated[str | None, Option(help="What a proxy puts before every path.")] = None,
    examples: Annotated[
        list[str] | None, Option("--try", help="Words the page offers to try; may be repeated.")
    ] = None,
    query_encoder: QueryEncoderOption = "default",
    workers: Annotated[
        int | None, Option(min=1, help="Processes. Default: one per core, at most 4.")
    ] = None,
) -> None:
    """Serve the search page of a collection, and HTTP.

    To this machine and read-only, unless told otherwise.

    Every setting may also be given in the environment, such as ACQH_N_THREADS=8.
    """
    from acqh.serve import run

    settings = _settings(
        collection=collection, host=host, port=port, token_file=token_file,
        write_token_file=write_token_file, originals=image_root, root_path=root_path,
        examples=examples or None,
        query_encoder=query_encoder, workers=workers,
    )  # fmt: skip
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=voice.level(logging.INFO)
    )
    run(settings, lambda address: print(f"serving {collection} at {address}", file=sys.stderr))


def _settings(**given: Any) -> Any:
    """Return the settings given, the others from the environment; refuse what is wrong in it."""
    from pydantic import ValidationError

    from acqh.serve import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        variable = f"ACQH_{name.upper()}"
        said = variable if given.get(name) is None else f"--{name.replace('_', '-')}"
        # The one setting with a pattern is the path that a proxy puts before all others.
        is_path = wrong["type"] == "string_pattern_mismatch"
        why = "give a path such as /photos" if is_path else wrong["msg"]
        raise BadParameter(f"{said}: {why}, got {wrong['input']!r}") from None
