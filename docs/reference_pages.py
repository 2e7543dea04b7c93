"""Reference pages that are generated from the program.

Command line, HTTP API, settings and methods.
"""

import asyncio
import inspect
import json
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

import acqh
from acqh.cli import app as commands
from acqh.collection import Answer, Collection, CollectionInfo, Explanation, Hit, Item, TextFilter
from acqh.serve import Settings, create_app

# Schemas whose fields are the attributes of a class.
CLASSES = {kind.__name__: kind for kind in (Answer, Explanation, Hit, Item, TextFilter)}
CLASSES["Info"] = CollectionInfo
# Fields that the server adds to these attributes, or has in another form.
SERVED = {
    "name": "The name to show.",
    "file": "Path of the original in its tracked folder.",
    "thumbnail": "Address of the thumbnail.",
    "original": "Address of the original, if the server has its folder.",
}
CARDS = Path(__file__).parent / "reference" / "cards.md"
_COMMON = {"as_json", "verbose", "quiet", "help"}


def write(folder: Path) -> None:
    """Write the generated pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "commands": command_line(),
        "http": http_api(),
        "settings": settings(),
        "methods": methods(),
    }
    for name, lines in pages.items():
        path, text = folder / f"_{name}.md", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# Command line


def command_line() -> Iterator[str]:
    """Yield a section for each command, in the groups of ``acqh --help``."""
    root = typer.main.get_command(commands)
    panel = ""
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            yield f"## {panel}\n"
        for words, leaf in leaves(name, command):
            yield from section(words, leaf)


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command, or the sub-commands of a group."""
    for word, child in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {word}", child)
    if not hasattr(command, "commands"):
        yield name, command


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the lines about one command."""
    context = command.make_context(name, [], resilient_parsing=True)
    parameters = command.get_params(context)
    usage = " ".join(["acqh", name, *command.collect_usage_pieces(context)])
    yield f"### acqh {name}\n"
    yield f"```text\n{usage}\n```\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    panels: dict[str, list[str]] = {}
    for parameter in parameters:
        if parameter.name in _COMMON:
            continue
        if parameter.param_type_name == "argument":
            panel, usage = "Arguments", parameter.display_name_raw
        else:
            panel = parameter.rich_help_panel or "Options"
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            usage = f"{names} {parameter.metavar or ''}".strip()
        panels.setdefault(panel, []).append(f"`{usage}`\n: {meaning_of(parameter)}\n")
    for panel, entries in panels.items():
        yield f"**{panel}**\n"
        yield from entries
    examples = [line[9:] for line in (command.epilog or "").splitlines() if line[:9] == "Example: "]
    if examples:
        yield "```sh\n" + "\n".join(examples) + "\n```\n"


def meaning_of(parameter: Any) -> str:
    """Return the help of a parameter with its default and environment variable."""
    text = " ".join((parameter.help or "").split())
    default = parameter.default
    shown = default is not None and default is not False and not callable(default)
    if shown and default not in ((), []) and "Default" not in text:
        value = "on" if default is True else getattr(default, "value", default)
        text += f" Default: {value}."
    if parameter.envvar:
        text += f" Environment: `{parameter.envvar}`."
    return text.replace("<", r"\<")


# HTTP API


def http_api() -> Iterator[str]:
    """Yield a section for each operation of the server, then the schemas they name."""
    document = openapi_document()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"## {method.upper()} {path}\n"
            yield (operation.get("description") or operation.get("summary", "")) + "\n"
            yield from parameter_table(operation.get("parameters", ()))
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                yield f"Body (`{kind}`): {type_of(content.get('schema', {}))}\n"
            yield from answers_of(operation["responses"])
    yield "## Schemas\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"(schema-{name.lower()})=\n### {name}\n"
        if "description" in schema:
            yield inspect.cleandoc(schema["description"]).split("\n\n")[0] + "\n"
        yield from property_table(schema, attributes(CLASSES.get(name)) | SERVED)


def openapi_document() -> dict[str, Any]:
    """Return the document that a server with a write token has at ``/openapi.json``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        items = [Item(text=f"one {word}", labels=[word]) for word in ["cat", "car"] * 4]
        Collection.build(items, folder / "things.acqh", n_components=2).close()
        (folder / "token").write_text(secrets.token_urlsafe(32), encoding="utf-8")
        app = create_app(
            Settings(collection=folder / "things.acqh", write_token_file=folder / "token")
        )
        try:
            route: Any = next(r for r in app.routes if getattr(r, "path", "") == "/openapi.json")
            return json.loads(asyncio.run(route.endpoint(None)).body)
        finally:
            app.state.live.close()


def parameter_table(parameters: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a table of the parameters of an operation."""
    rows = [
        (f"`{p['name']}`", p["in"], type_of(p.get("schema", {})), p.get("description", ""))
        for p in parameters
    ]
    yield from table(("parameter", "in", "type", "meaning"), rows)


def answers_of(responses: dict[str, Any]) -> Iterator[str]:
    """Yield what an operation answers, and the statuses of its errors."""
    errors = [f"`{status}`" for status in responses if int(status) >= 400]
    for status, response in responses.items():
        if int(status) < 400:
            bodies = " or ".join(
                type_of(content["schema"]) if content.get("schema") else f"`{kind}`"
                for kind, content in response.get("content", {}).items()
            )
            yield f"Answer: `{status}`{', ' + bodies if bodies else ''}.\n"
    if errors:
        yield f"Errors: {', '.join(errors)}, each an [ErrorResponse](#schema-errorresponse).\n"


def property_table(schema: dict[str, Any], meanings: dict[str, str]) -> Iterator[str]:
    """Yield a table of the fields of a schema; ``meanings``: of fields that have none in it."""
    required = set(schema.get("required", ()))
    rows = [
        (
            f"`{name}`",
            type_of(field),
            "yes" if name in required else "",
            field.get("description", meanings.get(name, "")),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    yield from table(("field", "type", "required", "meaning"), rows)


def type_of(schema: dict[str, Any]) -> str:
    """Return a schema's type in a few words, with links to named schemas."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_of(option) for option in schema[key]))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


# Settings


def settings() -> Iterator[str]:
    """Yield a table of the settings of the server and their environment variables."""
    meanings = attributes(Settings)
    rows = []
    for name, field in Settings.model_fields.items():
        has_default = not field.is_required() and field.default not in (None, "")
        default = f"`{field.default}`" if has_default and not field.default_factory else ""
        rows.append((f"`ACQH_{name.upper()}`", default, meanings[name]))
    yield from table(("variable", "default", "meaning"), rows)


def attributes(kind: type | None) -> dict[str, str]:
    """Return the meaning of each parameter and attribute in the docstring of a class."""
    if kind is None:
        return {}
    inherited = attributes(kind.__base__) if kind.__base__ is not object else {}
    text = inspect.cleandoc(kind.__doc__ or "")
    text = re.split(r"(?m)^(?:Notes|Examples)$", text)[0]
    _, *parts = re.split(r"(?m)^([a-z][\w, ]*) : [^\n]*\n", text)
    meanings = zip(parts[::2], parts[1::2], strict=True)
    properties = {
        name: inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]
        for name, value in vars(kind).items()
        if isinstance(value, property)
    }
    parameters = {name: meaning for names, meaning in meanings for name in names.split(", ")}
    return inherited | {
        name: " ".join(meaning.split()).replace("``", "`")
        for name, meaning in {**properties, **parameters}.items()
    }


# Methods


def methods() -> Iterator[str]:
    """Yield a table of all methods, then a card for each baseline."""
    infos = [acqh.methods.get(name).info for name in acqh.methods.list()]
    texts = cards()
    rows = [
        (
            f"[{info.name}](#{info.name})" if info.name in texts else f"`{info.name}`",
            info.title,
            str(info.year),
            use_of_labels(info),
            info.code,
            ", ".join(info.modes),
            info.status,
        )
        for info in infos
    ]
    heads = ("method", "title", "year", "labels", "codes", "database codes", "status")
    yield from table(heads, rows)
    for info in infos:
        if info.name in texts:  # ACQH has pages of its own
            yield from card(info, texts[info.name])


def card(info: Any, text: str) -> Iterator[str]:
    """Yield the section about one baseline."""
    kind = acqh.methods.get(info.name)
    defaults = ", ".join(
        f"`{name}={parameter.default!r}`"
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not parameter.empty and name not in ("random_state", "device")
    )
    yield f"({info.name})=\n## {info.name}: {info.title}\n"
    yield text
    yield from table(
        ("", ""),
        [
            ("status", info.status),
            ("differs from its source", info.reconstruction or "nowhere"),
            ("labels", use_of_labels(info)),
            ("database codes, the paper's first", ", ".join(info.modes)),
            ("defaults", defaults or "none"),
            ("class", f"{{py:class}}`acqh.methods.{kind.__name__}`"),
            ("reference", info.reference + "."),
        ],
    )


def cards() -> dict[str, str]:
    """Return the text of each card by the name of its method."""
    _, *parts = re.split(r"(?m)^## (.+)\n", CARDS.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def use_of_labels(info: Any) -> str:
    """Return whether a method needs labels."""
    if not info.supervised:
        return "not used"
    return "used if given" if info.label_free else "needed"


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield a Markdown table without empty columns, or nothing if it has no rows."""
    if not rows:
        return
    heads, *rows = zip(*[c for c in zip(heads, *rows, strict=True) if any(c[1:])], strict=True)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in row) + " |"
    yield ""
