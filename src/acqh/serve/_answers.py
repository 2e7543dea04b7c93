"""What the collection returns becomes what clients read."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import acqh.collection as inside
from acqh.serve import _schemas as schemas
from acqh.serve._map import CollectionMap

# The columns that name an item's image file: a manifest's, and that of a folder of images.
_FILES = ("image", "file")
# A name on the map.
_NAME_CHARS = 80


@dataclass(frozen=True)
class Addresses:
    """Where clients find what belongs to an item."""

    root_path: str = ""  # what stands before every path, behind a proxy
    has_originals: bool = False  # whether images are served as they were

    def thumbnail(self, item: inside.Item) -> str | None:
        """Return where an item's small image is, or None where it has none."""
        if not item.has_thumbnail:
            return None
        part = quote(item.id, safe="")
        if item.id in (".", ".."):  # clients take dots out of a path before they send it
            return f"{self.root_path}/item/thumbnail?id={part}"
        return f"{self.root_path}/items/{part}/thumbnail"

    def original(self, item: inside.Item) -> str | None:
        """Return where an item's image is as it was, or None where it is not served."""
        if not self.has_originals or file_of(item) is None:
            return None
        return f"{self.root_path}/item/original?id={quote(item.id, safe='')}"


def file_of(item: inside.Item) -> str | None:
    """Return the name of an item's image file, as its manifest or its folder gave it."""
    names = (item.columns.get(column) for column in _FILES)
    return next((name for name in names if isinstance(name, str) and name), None)


def hit_schema(hit: inside.Hit, addresses: Addresses) -> schemas.Hit:
    """Return a hit as clients read it."""
    fields = _fields(hit, addresses)
    return schemas.Hit(**fields, score=hit.score, why=list(hit.why), code=list(hit.code))


def item_schema(item: inside.Item, addresses: Addresses) -> schemas.Item:
    """Return an item as clients read it."""
    return schemas.Item(**_fields(item, addresses))


def _fields(item: inside.Item, addresses: Addresses) -> dict[str, Any]:
    return {
        "id": item.id,
        "text": item.text,
        "labels": list(item.labels),
        "columns": item.columns,
        "file": file_of(item),
        "thumbnail": addresses.thumbnail(item),
        "original": addresses.original(item),
    }


def map_schema(made: CollectionMap, addresses: Addresses) -> schemas.Map:
    """Return a map as clients read it."""
    points = [
        schemas.MapPoint(
            id=item.id,
            name=(item.text or file_of(item) or item.id)[:_NAME_CHARS],
            x=round(float(x), 4),
            y=round(float(y), 4),
            label=item.labels[0] if item.labels else None,
            thumbnail=addresses.thumbnail(item),
        )
        for item, (x, y) in zip(made.items, made.positions, strict=True)
    ]
    return schemas.Map(points=points, n_items=made.n_items)


def explanation_schema(explanation: inside.Explanation) -> schemas.Explanation:
    """Return an explanation as clients read it."""
    rows = zip(
        *(each.tolist() for each in (explanation.words, explanation.entries, explanation.parts)),
        strict=True,
    )
    return schemas.Explanation(
        query=explanation.query.tolist(),
        tables=explanation.tables.tolist(),
        names=list(explanation.names),
        hits=[
            schemas.HitParts(words=w, entries=entries, parts=parts) for w, entries, parts in rows
        ],
    )


def answer_schema(
    answer: inside.Answer, bytes_per_item: float, total_ms: float, addresses: Addresses
) -> schemas.SearchAnswer:
    """Return an answer as clients read it."""
    why = answer.explanation
    return schemas.SearchAnswer(
        hits=[hit_schema(hit, addresses) for hit in answer.hits],
        n_items=answer.n_items,
        n_candidates=answer.n_candidates,
        n_seen=answer.n_seen,
        bytes_per_item=bytes_per_item,
        milliseconds=schemas.Milliseconds(**answer.milliseconds, total=total_ms),
        explanation=None if why is None else explanation_schema(why),
    )
