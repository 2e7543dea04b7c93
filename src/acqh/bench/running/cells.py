"""Cells, and the grids of them that a run is made of."""

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from acqh.bench.protocol import PROTOCOLS
from acqh.bench.running.evaluate import BenchData
from acqh.bench.running.variants import Variant, find_method, make_maps
from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod
from acqh.methods.registry import DatabaseMode

_KEY_DIGITS = 16
# What decides a fit.
_FIT_SETTING = (
    "dataset", "data_sha256", "preparation", "protocol", "method", "code", "params",
    "feature_maps", "seed", "official", "n_threads",
)  # fmt: skip
_PACKAGE = Path(__file__).parents[2]
# What no figure of a cell comes from; all else counts.
APART = (
    "bench/report", "cli", "collection", "export", "integrations", "scale", "serve",
)  # fmt: skip
# Code lengths in bits: 1 to 16 bytes.
CODE_LENGTHS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Cell:
    """What is run at once, stored under a key of its own, and never run twice.

    Attributes
    ----------
    dataset, data_sha256 : str
        Name of the data, and checksum of their contents.
    preparation : dict
        Feature maps, by view, through which the data go before any method sees them.
    protocol : str
        A name of `list_protocols`.
    database : {"learnt", "hashed", "unified"}
        What database items are coded from.
    method : str
    code : str
        Fingerprint of the method's code; see `fingerprint_code`.
    params : dict
        All constructor arguments, as JSON values.
    feature_maps : str or None
        Name of the feature maps that replace the method's own.
    seed : int
    official : bool or str
        Whether the source's own split is used.
    n_threads : int
    label : str
        Name in tables; not part of the setting, nor is what follows.
    n_components_asked : int or None
        Length of codes or query vectors that was asked for; None where there is no choice.
    bytes_asked : int or None
        Bytes per item that were asked for; None where the grid is not one of bytes.
    """

    dataset: str
    data_sha256: str
    preparation: dict[str, Any]
    protocol: str
    database: DatabaseMode
    method: str
    code: str
    params: dict[str, Any]
    feature_maps: str | None
    seed: int
    official: bool | str
    n_threads: int
    label: str
    n_components_asked: int | None = None
    bytes_asked: int | None = None

    @property
    def setting(self) -> dict[str, Any]:
        """All that decides the result, as JSON values."""
        return {**self._fit_setting, "database": self.database}

    @property
    def _fit_setting(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIT_SETTING}

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
        asked = {name: getattr(self, name) for name in ("n_components_asked", "bytes_asked")}
        return {"key": self.key, "setting": self.setting, "label": self.label, **asked}


def merge_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return each cell once, in the order of first appearance.

    Cells of one fit are put side by side, so that it is made once.
    """
    merged: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        merged.setdefault(cell.fit_key, {}).setdefault(cell.key, cell)
    return [cell for group in merged.values() for cell in group.values()]


def build(cell: Cell) -> BaseMethod:
    """Return the unfitted method of a cell."""
    params = dict(cell.params)
    if cell.feature_maps is not None:
        params["feature_maps"] = make_maps(cell.feature_maps, cell.seed)
    return find_method(cell.method)(**params)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


@dataclass(frozen=True)
class RunGrid:
    """What all cells of a run have in common."""

    variants: tuple[Variant, ...]
    lengths: tuple[int, ...]  # code lengths in bits
    protocols: tuple[str, ...]
    seeds: tuple[int, ...]
    n_threads: int
    official: bool | str = False  # whether to use the source's own split, or its name


def fair_plan(sources: Sequence[BenchData], grid: RunGrid) -> list[Cell]:
    """Return the cells that compare methods at equal bytes per item.

    A labelled database is coded in the way of the method's own paper; an unlabelled one by the
    searched view and by all views, as far as the method can. Where training has no labels, methods
    that need them are left out.

    The grid's lengths are multiples of 8. Cells come seed by seed, so that what is stored early is
    a whole table of fewer runs.
    """
    return merge_cells(
        cell
        for source in sources
        for seed in grid.seeds
        for protocol in grid.protocols
        for variant in _fitting(source, grid)
        if PROTOCOLS[protocol].learns_from_labels or variant.cls.info.label_free
        for cell in _fair_cells(source, grid, seed, protocol, variant)
    )


def _fair_cells(
    source: BenchData, grid: RunGrid, seed: int, protocol: str, variant: Variant
) -> Iterator[Cell]:
    info = variant.cls.info
    chosen: list[DatabaseMode] = [info.modes[0]]
    if not PROTOCOLS[protocol].database_is_train:
        chosen = [mode for mode in ("hashed", "unified") if mode in info.modes]
    for length, database in product(grid.lengths, chosen):
        sizes = variant.sizes_by_bytes(length // 8)
        if sizes is None:
            continue
        params = variant.full_params(sizes, seed)
        yield Cell(
            dataset=source.data.name,
            data_sha256=source.sha256,
            preparation=dict(source.preparation),
            protocol=protocol,
            database=database,
            method=info.name,
            code=fingerprint_code(variant.cls),
            params=params,
            feature_maps=variant.feature_maps,
            seed=seed,
            official=grid.official,
            n_threads=grid.n_threads,
            label=variant.label,
            n_components_asked=params.get("n_bits", params.get("n_components")),
            # What has no size is one cell, whatever the bytes of the others.
            bytes_asked=length // 8 if sizes else None,
        )


def _fitting(source: BenchData, grid: RunGrid) -> list[Variant]:
    return [variant for variant in grid.variants if variant.takes(len(source.data.views))]


@cache
def fingerprint_code(cls: type) -> str:
    """Return a text that changes when code changes that the figures of a method may come from.

    Covered are the file of the class and all rooms of the package that cells may use.

    Gives 64 hexadecimal digits. Raises InvalidInputError: the source of the class cannot be found.

    Examples
    --------
    >>> from acqh.methods import CVH
    >>> len(fingerprint_code(CVH))
    64
    """
    try:
        own = Path(inspect.getsourcefile(cls) or "").read_bytes()
    except (OSError, TypeError):
        raise InvalidInputError(f"the source of {cls.__name__} cannot be found") from None
    return hashlib.sha256(own + digest_rooms(_PACKAGE)).hexdigest()


def digest_rooms(package: Path) -> bytes:
    """Return a digest of every source file of a package that does not stand apart."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{room}/" for room in APART)):
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.digest()
