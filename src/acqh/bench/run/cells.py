"""A cell: one method, one setting, one split and one way to code the database."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from acqh.methods.registry import DatabaseMode

_KEY_DIGITS = 16


@dataclass(frozen=True)
class Cell:
    """What is run at once, stored under a key of its own, and never run twice.

    Attributes
    ----------
    dataset, data_sha256 : str
        Name of the data, and checksum of their contents.
    preparation : mapping of str to dict
        Feature maps, by view, through which the data go before any method sees them.
    protocol : str
        A name of `list_protocols`.
    database : {"learnt", "hashed", "unified"}
        What database items are coded from.
    method : str
    code : str
        Fingerprint of the method's code; see `fingerprint_code`.
    params : mapping
        All constructor arguments, as JSON values.
    feature_maps : str or None
        Name of the feature maps that replace the method's own.
    seed : int
    n_train : int or None
        Number of training items, where it is not the protocol's own.
    official : bool or str
        Whether the source's own split is used.
    n_threads : int
    label : str
        Name in tables; not part of the setting, nor is what follows.
    experiments : tuple of str
        What the cell is part of.
    n_components_asked : int or None
        Length of codes or query vectors that was asked for; None where there is no choice.
    bytes_asked : int or None
        Bytes per item that were asked for; None where the grid is not one of bytes.
    """

    dataset: str
    data_sha256: str
    preparation: Mapping[str, Any]
    protocol: str
    database: DatabaseMode
    method: str
    code: str
    params: Mapping[str, Any]
    feature_maps: str | None
    seed: int
    n_train: int | None
    official: bool | str
    n_threads: int
    label: str
    experiments: tuple[str, ...]
    n_components_asked: int | None = None
    bytes_asked: int | None = None

    @property
    def setting(self) -> dict[str, Any]:
        """All that decides the result, as JSON values."""
        return {**self._fit_setting, "database": self.database}

    @property
    def _fit_setting(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "data_sha256": self.data_sha256,
            "preparation": dict(self.preparation),
            "protocol": self.protocol,
            "method": self.method,
            "code": self.code,
            "params": dict(self.params),
            "feature_maps": self.feature_maps,
            "seed": self.seed,
            "n_train": self.n_train,
            "official": self.official,
            "n_threads": self.n_threads,
        }

    @property
    def key(self) -> str:
        """Checksum of the setting: the cell's name in a store."""
        return _digest(self.setting)

    @property
    def fit_key(self) -> str:
        """Equal for cells that need the same fit: they differ in how the database is coded."""
        return _digest(self._fit_setting)

    def header(self) -> dict[str, Any]:
        """Return what a record says of the cell before it is run."""
        return {
            "key": self.key,
            "setting": self.setting,
            "label": self.label,
            "experiments": list(self.experiments),
            "n_components_asked": self.n_components_asked,
            "bytes_asked": self.bytes_asked,
        }


def merge_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return each cell once, in the order of first appearance, with the experiments of all.

    Cells of one fit are put side by side, so that it is made once.
    """
    merged: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        group = merged.setdefault(cell.fit_key, {})
        known = group.get(cell.key)
        group[cell.key] = cell if known is None else _join(known, cell)
    return [cell for group in merged.values() for cell in group.values()]


def _join(first: Cell, second: Cell) -> Cell:
    return replace(
        first,
        experiments=tuple(dict.fromkeys((*first.experiments, *second.experiments))),
        n_components_asked=first.n_components_asked or second.n_components_asked,
        bytes_asked=first.bytes_asked or second.bytes_asked,
    )


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]
