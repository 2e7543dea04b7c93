"""What scores should be, as a person types it."""

from typing import Annotated

import typer

TargetsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=WEIGHT,...",
        help="What to learn: labels and the content of views, such as labels=0.5,text=0.5. "
        "Default: labels where there are any, otherwise the content of all views; for a "
        "collection labels=0.42 and content for the rest.",
    ),
]


def parse_targets(text: str | None) -> dict[str, float] | None:
    """Return targets by name.

    `text`: such as ``labels=0.5,text=0.5``; a name alone has weight one. Raises typer.BadParameter:
    a weight that is not a number, or a name twice.

    Examples
    --------
    >>> parse_targets("labels=0.5,text")
    {'labels': 0.5, 'text': 1.0}
    """
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (each.strip() for each in part.partition("="))
        try:
            number = float(weight or 1.0)
        except ValueError:
            number = float("nan")
        if not name or name in found or number != number:
            raise typer.BadParameter(
                f"targets are names and weights such as labels=0.5,text=0.5, got {text!r}"
            )
        found[name] = number
    return found
