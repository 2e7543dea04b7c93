"""``acqh search`` and ``acqh serve``."""

import logging
import os
import secrets
import shutil
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from rich.cells import cell_len, set_cell_size
from typer import Argument, BadParameter

from acqh._core.fields import DATE, FILE
from acqh._core.imports import require
from acqh.cli._options import (
    CollectionArgument,
    LanguageOption,
    MegapixelsOption,
    QueryEncoderOption,
    WhereOption,
    as_pixels,
    check_kind,
    find_id,
    flag,
    option,
)
from acqh.cli._output import count, draw_bar, output, print_result, printable, shorten

WordsArgument = Annotated[
    list[str] | None, Argument(metavar="WORDS", help="Words to search for, such as: red car")
]


def search(
    path: CollectionArgument,
    words: WordsArgument = None,
    image: Annotated[Path | None, option("Image to search for.", metavar="FILE")] = None,
    like: Annotated[
        str | None, option("Id or file of an item: find similar ones.", metavar="ID")
    ] = None,
    mode: Annotated[
        Literal["hybrid", "keyword", "semantic"],
        option("Match keywords in captions, names and labels; semantic similarity; or both."),
    ] = "hybrid",
    dates: Annotated[
        bool,
        option(
            "Understand dates in WORDS as a filter, such as: march 2022, last week.",
            "--dates/--no-dates",
        ),
    ] = True,
    text_weight: Annotated[
        float, option("Weight of the words in a query with an image.", min=0)
    ] = 1.0,
    image_weight: Annotated[
        float, option("Weight of the image in a query with words.", min=0)
    ] = 1.0,
    query_encoder: QueryEncoderOption = "default",
    language: LanguageOption = "auto",
    max_megapixels: MegapixelsOption = None,
    where: WhereOption = None,
    k: Annotated[int, option("Number of hits.", "-k", min=1)] = 10,
    paths: Annotated[
        bool, option("Print absolute file names only, one per line.", "--paths")
    ] = False,
    nul: Annotated[bool, option("Print file names separated by NUL, for xargs -0.", "-0")] = False,
) -> None:
    """Search a collection by words, an image, both, or a similar item.

    With --where alone, list the items that meet it, the newest first.

    Example: acqh search photos.acqh dog on a beach --where date=2021

    Example: acqh search photos.acqh birthday cake last summer

    Example: acqh search photos.acqh sunset --paths -k 20

    Documentation: docs/how-to/search-syntax.md
    """  # fmt: skip
    text = " ".join(words or ()).strip() or None
    is_listing = text is None and image is None and like is None
    if is_listing and not where:
        raise BadParameter(
            f"the query is missing; use: acqh search {path} WORDS..., --image FILE or --like ID"
        )
    from acqh.collection import Collection

    check_kind(path, is_collection=True)
    queries = {"text": (text, text_weight), "image": (image, image_weight)}
    weights = {name: weight for name, (value, weight) in queries.items() if value is not None}
    with Collection.open(path, query_encoder=query_encoder) as collection:
        item = None if like is None else find_id(collection, like)
        query: dict[str, Any] = {"text": text, "image": image, "item": item, "weights": weights}
        pixels = as_pixels(max_megapixels)
        query |= {"mode": mode, "dates": dates, "language": language, "max_pixels": pixels}
        if is_listing:
            order = DATE if collection.facets()[DATE] else None
            answer = collection.browse(where=where, k=k, order=order, descending=True)
        else:
            answer = collection.search(**query, k=k, where=where)
    if (paths or nul) and not output.as_json:
        _print_paths(answer, "\0" if nul else "\n")
    else:
        print_result(_as_json(answer), partial(_print, answer, text))


def _as_json(answer: Any) -> dict[str, Any]:
    facts: dict[str, Any] = answer.to_dict()
    for written, hit in zip(facts["hits"], answer.hits, strict=True):
        written["file"] = file_of(hit)
    return facts


def _print_paths(answer: Any, end: str) -> None:
    """Print the files of hits; those of tables are relative to the current folder."""
    files = [Path(hit.folder, file) for hit in answer.hits if (file := _file_name(hit))]
    names = [str(file.absolute()) for file in files]
    # A line break in a name would look like two names.
    names = [name for name in names if end == "\0" or "\n" not in name]
    for name in names:
        sys.stdout.buffer.write(os.fsencode(name) + end.encode())
    sys.stdout.flush()
    if missing := len(answer.hits) - len(names):
        output.note(f"acqh: {count(missing, 'hit')} without a file name")


def _only_excludes(text: str) -> bool:
    from acqh.collection.store.words import read_words

    query = read_words(text)
    return bool(query.without) and not (query.terms or query.phrases)


def _print(answer: Any, text: str | None) -> None:
    for used in answer.filters:
        conditions = ", ".join(f"{name}{bound}" for name, bound in used.where.items())
        print(f"Filter: {printable(used.text)} ({conditions}); --no-dates searches for the words.")
    if answer.corrected:
        print(f"Showing results for {printable(answer.corrected)}.")
    if answer.unmatched_phrases:
        phrases = ", ".join(f'"{printable(phrase)}"' for phrase in answer.unmatched_phrases)
        print(f"No item contains {phrases}; searching without the quotes.")
    if answer.missing_extra:
        output.note(
            "acqh: the query is not in English and was searched by keywords only; run: "
            f"pip install 'acqh[{answer.missing_extra}]'"
        )
    if not answer.hits:
        print(f"No matches among {count(answer.n_items, 'item')}.")
        if text is not None and _only_excludes(text):
            print(f"The query only excludes; add what to search for: park {printable(text)}")
        return
    width = shutil.get_terminal_size().columns
    is_listing = not any(hit.why for hit in answer.hits)
    if not answer.n_confident and not is_listing:
        print("No strong matches; the closest items are:")
    names = [printable(_name_of(hit)) for hit in answer.hits]
    columns = min(max(map(cell_len, names)), width // 2)
    for rank, (hit, name) in enumerate(zip(answer.hits, names, strict=True), start=1):
        bar = "" if is_listing else f"{draw_bar(hit.match)}  "
        print(f"{rank:>3}  {bar}{set_cell_size(name, max(columns, cell_len(name)))}  "
              f"{', '.join(hit.why)}".rstrip())  # fmt: skip
        caption = " | ".join(filter(None, (", ".join(hit.labels), hit.text)))
        if caption:
            print(" " * 5 + shorten(printable(caption), width - 5))
    milliseconds = sum(answer.milliseconds.values())
    print(f"{len(names):,} of {count(answer.n_items, 'item')}, {milliseconds:.0f} ms")


def _name_of(hit: Any) -> str:
    """Return the file of a hit, and its id if commands need that."""
    file = file_of(hit)
    # An item of a tracked folder can be named by its file.
    is_enough = not file or hit.folder or hit.id in (file, hit.fields.get(FILE))
    return (file or hit.id) if is_enough else f"{file} (id {hit.id})"


def _file_name(hit: Any) -> str | None:
    from acqh.web.originals import file_of as name_of

    return name_of(hit)


def file_of(hit: Any) -> str:
    """Return the file of a hit, relative to the current folder if possible; "" for none."""
    name = _file_name(hit)
    if name is None:
        return ""
    path = Path(hit.folder, name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else name


def serve(
    collection: CollectionArgument,
    host: Annotated[
        str | None,
        option(
            "Address to listen on. The default admits only this computer; others need "
            "--token or --token-file. Default: 127.0.0.1.",
            metavar="ADDRESS",
            envvar="ACQH_HOST",
        ),
    ] = None,
    port: Annotated[
        int | None,
        option(
            "Port to listen on; 0 takes a free one. Default: 8000.",
            min=0,
            max=65535,
            envvar="ACQH_PORT",
        ),
    ] = None,
    open_browser: Annotated[bool, option("Open the browser.", "--open", "-o")] = False,
    root_path: Annotated[
        str | None,
        option(
            "Prefix that a proxy adds to every path, such as /photos.",
            metavar="PATH",
            envvar="ACQH_ROOT_PATH",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        option(
            "Number of processes. Default: one per core, at most 4.", min=1, envvar="ACQH_WORKERS"
        ),
    ] = None,
    token: Annotated[
        bool,
        flag(
            "token", "Make a token that readers must send, and print a link and a QR code with it."
        ),
    ] = False,
    write_token: Annotated[
        bool,
        flag("write-token", "Make a token that permits changes, and print a link with it."),
    ] = False,
    token_file: Annotated[
        Path | None,
        option(
            "File with the token that readers must send.", metavar="FILE", envvar="ACQH_TOKEN_FILE"
        ),
    ] = None,
    write_token_file: Annotated[
        Path | None,
        option(
            "File with the token that permits changes. Default: read-only.",
            metavar="FILE",
            envvar="ACQH_WRITE_TOKEN_FILE",
        ),
    ] = None,
    originals: Annotated[
        Path | None,
        option(
            "Folder of the original images. Default: the tracked folders, on this computer only.",
            metavar="DIR",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    suggestions: Annotated[
        list[str] | None,
        option(
            "Query to suggest on the start page; may be repeated.", "--suggest", metavar="WORDS"
        ),
    ] = None,
    query_encoder: QueryEncoderOption = "default",
    language: LanguageOption = "auto",
) -> None:
    """Start a web server with the search interface and a JSON API.

    By default it serves only this computer, read-only. Stop it with Ctrl-C. More settings come
    from environment variables, such as ACQH_N_THREADS=8.

    Example: acqh serve photos.acqh --open

    Example: acqh serve photos.acqh --host 0.0.0.0 --token

    Documentation: docs/how-to/serve.md
    """
    from acqh.serve import run

    for name, is_made, file in (
        ("--token", token, token_file),
        ("--write-token", write_token, write_token_file),
    ):
        if is_made and file is not None:
            raise BadParameter(f"{name} makes a token, but {file} holds one; remove one of the two")
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=output.level(logging.INFO)
    )
    with _new_tokens(token_file=token, write_token_file=write_token) as files:
        settings = _settings(
            collection=collection, host=host, port=port, originals=originals, root_path=root_path,
            examples=suggestions or None, query_encoder=query_encoder, language=language,
            workers=workers,
            **{"token_file": token_file, "write_token_file": write_token_file, **files},
        )  # fmt: skip
        tokens = [file.read_text() for file in files.values()]

        def announce(address: str) -> None:
            print(f"Serving {collection} at {address}", file=sys.stderr)
            link = address
            if tokens:
                link += f"#token={tokens[-1]}"  # the last one permits most
                _print_link(_reachable(link), with_code=token)
            if open_browser:
                _open_browser(link)

        run(settings, announce)


@contextmanager
def _new_tokens(**are_made: bool) -> Iterator[dict[str, Path]]:
    """Yield files with new tokens, by the settings that name them; they are deleted at the end."""
    with TemporaryDirectory(prefix="acqh-tokens-") as folder:  # nobody else can read it
        files = {name: Path(folder, name) for name, is_made in are_made.items() if is_made}
        for file in files.values():
            file.write_text(secrets.token_urlsafe(16))
        yield files


def _print_link(link: str, with_code: bool) -> None:
    """Print a link to stderr, and as a QR code for phones."""
    print(f"Open {link}", file=sys.stderr)
    if with_code:
        require("segno").make(link, micro=False).terminal(out=sys.stderr, compact=True)


def _reachable(link: str) -> str:
    """Return a link that other machines can open, with the address of this one in the network."""
    for every in ("0.0.0.0", "[::]"):  # noqa: S104
        if f"//{every}:" in link:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect(("192.0.2.1", 9))  # sends nothing; only chooses the interface
                    name = probe.getsockname()[0]
                except OSError:
                    name = socket.gethostname()
            return link.replace(f"//{every}:", f"//{name}:")
    return link


def _open_browser(address: str) -> None:
    """Open an address in the browser, if there is a display."""
    is_desktop = sys.platform in ("win32", "darwin")
    if is_desktop or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


# Options whose names differ from the settings of the server.
_OPTIONS = {"examples": "--suggest"}


def _settings(**values: Any) -> Any:
    """Return the settings: options first, then environment variables."""
    from pydantic import ValidationError

    from acqh.serve import Settings

    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        source = f"ACQH_{name.upper()}" if values.get(name) is None else option
        # The one setting with a pattern is the prefix of a proxy.
        is_path = wrong["type"] == "string_pattern_mismatch"
        fix = "use a path such as /photos" if is_path else wrong["msg"]
        raise BadParameter(f"{source}: {fix}, got {wrong['input']!r}") from None
