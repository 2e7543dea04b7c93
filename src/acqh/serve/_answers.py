"""What the collection returns becomes what clients read."""

from urllib.parse import quote

import acqh.collection as inside
from acqh.serve import _schemas as schemas


def thumbnail_of(item: inside.StoredItem | inside.Hit) -> str | None:
    """Return where an item's small picture is, or None where it has none."""
    if not item.has_thumbnail:
        return None
    part = quote(item.id, safe="")
    # Clients take dots out of a path before they send it.
    return f"/item/thumbnail?id={part}" if item.id in (".", "..") else f"/items/{part}/thumbnail"


def hit_schema(hit: inside.Hit) -> schemas.Hit:
    """Return a hit as clients read it."""
    return schemas.Hit(
        id=hit.id,
        score=hit.score,
        text=hit.text,
        labels=list(hit.labels),
        columns=hit.columns,
        thumbnail=thumbnail_of(hit),
        code=list(hit.code),
    )


def item_schema(item: inside.StoredItem) -> schemas.Item:
    """Return an item as clients read it."""
    return schemas.Item(
        id=item.id,
        text=item.text,
        labels=list(item.labels),
        columns=item.columns,
        thumbnail=thumbnail_of(item),
    )


def explanation_schema(explanation: inside.Explanation) -> schemas.Explanation:
    """Return an explanation as clients read it."""
    pairs = zip(explanation.words.tolist(), explanation.parts.tolist(), strict=True)
    return schemas.Explanation(
        query=explanation.query.tolist(),
        tables=explanation.tables.tolist(),
        hits=[schemas.HitParts(words=words, parts=parts) for words, parts in pairs],
    )


def answer_schema(
    answer: inside.Answer, bytes_per_item: float, total_ms: float
) -> schemas.SearchAnswer:
    """Return an answer as clients read it."""
    why = answer.explanation
    return schemas.SearchAnswer(
        hits=[hit_schema(hit) for hit in answer.hits],
        n_items=answer.n_items,
        n_candidates=answer.n_candidates,
        n_seen=answer.n_seen,
        bytes_per_item=bytes_per_item,
        milliseconds=schemas.Milliseconds(**answer.milliseconds, total=total_ms),
        explanation=None if why is None else explanation_schema(why),
    )
