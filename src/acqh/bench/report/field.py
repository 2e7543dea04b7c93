"""What others have printed under the field's protocol, each cut-off for itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product

from acqh.bench.report.page_tables import render_plain_table

_TITLES = {"mirflickr25k": "MIRFlickr25K", "nuswide": "NUS-WIDE", "coco": "MS COCO"}
_BITS = (16, 32, 64)


@dataclass(frozen=True)
class PublishedRow:
    """A line of a published table.

    Attributes
    ----------
    method, venue : str
    read_in : str
        The table that the figures were read in.
    cutoff : str
        Of average precision: ``"all"``, a number, or ``"not stated"``.
    features : str
    labels : bool
        Whether training used labels.
    epoch : str
        How the epoch was chosen that the figures are of, where the public code shows it.
    figures : mapping of str to mapping of int to tuple of float
        By data set and bits: image->text and text->image.
    """

    method: str
    venue: str
    read_in: str
    cutoff: str
    features: str
    labels: bool
    epoch: str
    figures: Mapping[str, Mapping[int, tuple[float, float]]]


@cache
def load_field() -> tuple[PublishedRow, ...]:
    """Return figures that were published under the field's protocol.

    Rows are comparable only within one cut-off, and only as far as features and the choice of
    the epoch allow.

    Examples
    --------
    >>> mith = next(row for row in load_field() if row.method == "MITH")
    >>> mith.cutoff, mith.figures["mirflickr25k"][32]
    ('all', (0.865, 0.839))
    """
    text = files("acqh.bench.report").joinpath("field_figures.json").read_text(encoding="utf-8")
    rows = []
    for entry in json.loads(text)["rows"]:
        figures = {
            data: {int(bits): tuple(pair) for bits, pair in by_bits.items()}
            for data, by_bits in entry.pop("figures").items()
        }
        rows.append(PublishedRow(**entry, figures=figures))
    return tuple(rows)


def render_field() -> str:
    """Return the published figures as tables, one per data set and cut-off."""
    parts = []
    cutoffs = dict.fromkeys(row.cutoff for row in load_field())
    for cutoff, (name, title) in product(cutoffs, _TITLES.items()):
        rows = [row for row in load_field() if row.cutoff == cutoff and name in row.figures]
        if rows:
            heads = [f"{way} {bits}" for way in ("I→T", "T→I") for bits in _BITS]
            columns = ("method", "venue", "read in", *heads, "labels", "features", "epoch")
            caption = f"{title}, published MAP, cut-off {cutoff}; I→T: image → text"
            parts.append(
                render_plain_table(columns, [_cells(row, name) for row in rows], caption=caption)
            )
    return "\n".join(parts)


def _cells(row: PublishedRow, data: str) -> tuple[str, ...]:
    by_bits = row.figures[data]
    figures = [
        f"{by_bits[bits][way]:.3f}" if bits in by_bits else "–" for way in (0, 1) for bits in _BITS
    ]
    learnt = "yes" if row.labels else "no"
    return row.method, row.venue, row.read_in, *figures, learnt, row.features, row.epoch
