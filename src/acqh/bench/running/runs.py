"""Runs of the bench: one method in one setting on one split."""

import hashlib
import inspect
import json
from collections.abc import Iterable, Sequence
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
# Subpackages that no result comes from; all others count.
UNRELATED = (
    "bench/report", "cli", "collection", "export", "integrations", "scale", "serve",
)  # fmt: skip
# Code lengths in bits: 1 to 16 bytes.
CODE_LENGTHS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Run:
    """One method in one setting on one split, stored under a key and never run twice.

    Attributes
    ----------
    dataset, data_sha256 : str
        Name of the data, and checksum of their contents.
    preparation : dict
        Feature maps, by view, through which the data go before any method sees them.
    protocol : str
        A name of `list_protocols`.
    database : {"learnt", "hashed", "unified"}
        What database items are encoded from.
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

    def __str__(self) -> str:
        size = "" if self.n_components_asked is None else f" {self.n_components_asked}"
        return f"{self.dataset}, {self.protocol}, {self.label}{size}, seed {self.seed}"

    @property
    def setting(self) -> dict[str, Any]:
        """All that decides the result, as JSON values."""
        return {**self._fit_setting, "database": self.database}

    @property
    def _fit_setting(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIT_SETTING}

    @property
    def key(self) -> str:
        """Checksum of the setting: the run's name in a store."""
        return _digest(self.setting)

    @property
    def fit_key(self) -> str:
        """Equal for runs that need the same fit and encode the database from other views."""
        return _digest(self._fit_setting)

    def header(self) -> dict[str, Any]:
        """Return the part of the record that is known before the run."""
        asked = {name: getattr(self, name) for name in ("n_components_asked", "bytes_asked")}
        return {"key": self.key, "setting": self.setting, "label": self.label, **asked}


def build(run: Run) -> BaseMethod:
    """Return the unfitted method of a run."""
    params = dict(run.params)
    if run.feature_maps is not None:
        params["feature_maps"] = make_maps(run.feature_maps, run.seed)
    return find_method(run.method)(**params)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def plan_runs(
    sources: Iterable[BenchData],
    variants: Sequence[Variant],
    *,
    lengths: Sequence[int],
    protocols: Sequence[str],
    seeds: Sequence[int],
    n_threads: int,
    official: bool | str = False,
) -> list[Run]:
    """Return the runs that compare methods at equal bytes per item.

    `lengths`: of codes, in bits. A labelled database is encoded in the way of the method's own
    paper; an unlabelled one from the searched view and from all views, as far as the method can.
    If training has no labels, methods that need them are skipped. Runs come seed by seed, so that
    what is stored early is a whole table of fewer splits. Runs of one fit are neighbours.
    """
    runs: dict[str, dict[str, Run]] = {}
    for source, seed, name, variant in product(sources, seeds, protocols, variants):
        info, protocol = variant.cls.info, PROTOCOLS[name]
        modes: list[DatabaseMode] = [info.modes[0]]
        if not protocol.database_is_train:
            modes = [mode for mode in ("hashed", "unified") if mode in info.modes]
        if not variant.takes(len(source.data.views)) or not (
            protocol.learns_from_labels or info.label_free
        ):
            continue
        for length, database in product(lengths, modes):
            sizes = variant.sizes_by_bytes(length // 8)
            if sizes is None:
                continue
            params = variant.full_params(sizes, seed)
            run = Run(
                dataset=source.data.name,
                data_sha256=source.sha256,
                preparation=dict(source.preparation),
                protocol=name,
                database=database,
                method=info.name,
                code=fingerprint_code(variant.cls),
                params=params,
                feature_maps=variant.feature_maps,
                seed=seed,
                official=official,
                n_threads=n_threads,
                label=variant.label,
                n_components_asked=params.get("n_bits", params.get("n_components")),
                # What has no size is one run, whatever the bytes of the others.
                bytes_asked=length // 8 if sizes else None,
            )
            runs.setdefault(run.fit_key, {}).setdefault(run.key, run)
    return [run for group in runs.values() for run in group.values()]


@cache
def fingerprint_code(cls: type) -> str:
    """Return a text that changes when code changes that the results of a method may come from.

    Covered are the file of the class and all subpackages that runs may use.

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
    return hashlib.sha256(own + digest_sources(_PACKAGE)).hexdigest()


def digest_sources(package: Path) -> bytes:
    """Return a digest of every source file of a package, without unrelated subpackages."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in UNRELATED)):
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.digest()
