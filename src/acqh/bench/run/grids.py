"""The grids: which cells a run is made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acqh.bench.protocol.draw import make_split
from acqh.bench.protocol.split import PROTOCOLS
from acqh.bench.run.cells import Cell, merge_cells
from acqh.bench.run.code import fingerprint_code
from acqh.bench.run.data import BenchData
from acqh.bench.run.variants import Variant
from acqh.methods.registry import DatabaseMode

# Code lengths of the paper, in bits; as storage, 1 to 16 bytes.
CODE_LENGTHS = (8, 16, 32, 64, 128)
# The length at which the paper looks at anything but average precision.
_MIDDLE_LENGTH = 32
# Shares of the training set at which the time of a fit is measured, besides the whole.
_TRAIN_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)
# What the paper times at several sizes, and the method beside it.
_TIMED_BY_SIZE = ("acqh", "acqh-paper", "dch", "fdch")
# Around the paper's values, 1e-2, 1e-4 and 4; its figures show no scale.
_SENSITIVITY: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "sensitivity-mu": ("label_ridge", (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e2)),
    "sensitivity-lambda": ("label_weight", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)),
    "sensitivity-codebooks": ("n_codebooks", (1, 2, 3, 4, 6, 8)),
}
_STUDIED = "acqh-paper"


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
        for cell in _fair_cells(_Maker(source, grid, seed, protocol), variant)
    )


def _fair_cells(make: "_Maker", variant: Variant) -> Iterator[Cell]:
    modes = variant.cls.info.modes
    chosen: list[DatabaseMode] = [modes[0]]
    if not PROTOCOLS[make.protocol].database_is_train:
        chosen = [mode for mode in ("hashed", "unified") if mode in modes]
    for length in make.grid.lengths:
        n_bytes = length // 8
        sizes = variant.sizes_by_bytes(n_bytes)
        if sizes is None:
            continue
        for database in chosen:
            # What has no size is one cell, whatever the bytes of the others.
            asked = n_bytes if sizes else None
            yield make(variant, sizes, ("fair",), database=database, n_bytes=asked)


def paper_plan(sources: Sequence[BenchData], grid: RunGrid) -> list[Cell]:
    """Return the cells of the paper's tables and figures.

    All code lengths as numbers of bits or components, the database being the training set; the
    time of a fit by the number of training items; and, of the paper's own method, convergence
    and sensitivity to its parameters.

    The grid's protocols are not used. Cells come seed by seed.
    """
    return merge_cells(
        cell
        for source in sources
        for seed in grid.seeds
        for variant in _fitting(source, grid)
        for cell in _paper_cells(_Maker(source, grid, seed, "labelled"), variant)
    )


def _paper_cells(make: "_Maker", variant: Variant) -> Iterator[Cell]:
    for length in make.grid.lengths:
        yield make(variant, variant.sizes_by_components(length), ("paper-map",))
    middle = variant.sizes_by_components(_MIDDLE_LENGTH)
    if variant.label in _TIMED_BY_SIZE:
        for n_train in (*make.train_sizes(), None):
            yield make(variant, middle, ("training-size",), n_train=n_train)
    if variant.label == _STUDIED:
        yield make(variant, middle, ("convergence",))
        for experiment, (parameter, values) in _SENSITIVITY.items():
            for value in values:
                yield make(variant, {**middle, parameter: value}, (experiment,))


def _fitting(source: BenchData, grid: RunGrid) -> list[Variant]:
    return [variant for variant in grid.variants if variant.takes(len(source.data.views))]


@dataclass(frozen=True)
class _Maker:
    """Makes the cells of one data set, seed and protocol."""

    source: BenchData
    grid: RunGrid
    seed: int
    protocol: str

    def __call__(
        self,
        variant: Variant,
        sizes: Mapping[str, Any],
        experiments: tuple[str, ...],
        *,
        database: DatabaseMode | None = None,
        n_bytes: int | None = None,
        n_train: int | None = None,
    ) -> Cell:
        params = variant.full_params(sizes, self.seed)
        return Cell(
            dataset=self.source.data.name,
            data_sha256=self.source.sha256,
            preparation=self.source.preparation,
            protocol=self.protocol,
            database=database or variant.cls.info.modes[0],
            method=variant.cls.info.name,
            code=fingerprint_code(variant.cls),
            params=params,
            feature_maps=variant.feature_maps,
            seed=self.seed,
            n_train=n_train,
            official=self.grid.official,
            n_threads=self.grid.n_threads,
            label=variant.label,
            experiments=experiments,
            n_components_asked=params.get("n_bits", params.get("n_components")),
            bytes_asked=n_bytes,
        )

    def train_sizes(self) -> list[int]:
        split = make_split(
            self.source.data, self.protocol, seed=self.seed, official=self.grid.official
        )
        return [round(share * len(split.train)) for share in _TRAIN_SHARES]
