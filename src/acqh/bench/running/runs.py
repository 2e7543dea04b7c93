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
# Parameters that determine a fit.
_FIT_SETTING = (
    "dataset", "data_sha256", "preparation", "protocol", "method", "code", "params",
    "feature_maps", "seed", "official", "n_threads",
)  # fmt: skip
_PACKAGE = Path(__file__).parents[2]
# Subpackages without influence on results.
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
        Feature maps by view that preprocess the data for all methods.
    protocol : str
        A name of `list_protocols`.
    database : {"training", "single", "fused"}
        Kind of database codes.
    method : str
    code : str
        Fingerprint of the method's code; see `fingerprint_code`.
    params : dict
        All constructor arguments, as JSON values.
    feature_maps : str or None
        Name of the feature maps that replace those of the method.
    seed : int
    official : bool or str
        Whether the run uses the official split, or its name.
    n_threads : int
    label : str
        Name in tables. This and the following attributes are not part of the setting.
    n_components_requested : int or None
        Requested length of codes or query vectors; None if the method has a fixed length.
    bytes_requested : int or None
        Requested bytes per item; None if the method has a fixed size.
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
    n_components_requested: int | None = None
    bytes_requested: int | None = None

    def __str__(self) -> str:
        size = "" if self.n_components_requested is None else f" {self.n_components_requested}"
        return f"{self.dataset}, {self.protocol}, {self.label}{size}, seed {self.seed}"

    @property
    def setting(self) -> dict[str, Any]:
        """All parameters that determine the result, as JSON values."""
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
        """Checksum of the fit; runs that differ only in their database codes share it."""
        return _digest(self._fit_setting)

    def header(self) -> dict[str, Any]:
        """Return the part of the record that does not depend on the result."""
        sizes = {
            name: getattr(self, name) for name in ("n_components_requested", "bytes_requested")
        }
        return {"key": self.key, "setting": self.setting, "label": self.label, **sizes}


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

    `lengths`: of codes, in bits. A labelled database gets the codes of the method's paper. An
    unlabelled one gets single and fused codes, as far as the method supports them. Without labels
    in training, methods that need them are skipped. Runs are ordered by seed, so early results
    form complete tables of fewer splits. Runs with the same fit are adjacent.
    """
    runs: dict[str, dict[str, Run]] = {}
    for source, seed, name, variant in product(sources, seeds, protocols, variants):
        info, protocol = variant.cls.info, PROTOCOLS[name]
        modes: list[DatabaseMode] = [info.modes[0]]
        if not protocol.database_is_train:
            modes = [mode for mode in ("single", "fused") if mode in info.modes]
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
                n_components_requested=params.get("n_bits", params.get("n_components")),
                # A method with a fixed size has one run for all sizes.
                bytes_requested=length // 8 if sizes else None,
            )
            runs.setdefault(run.fit_key, {}).setdefault(run.key, run)
    return [run for group in runs.values() for run in group.values()]


@cache
def fingerprint_code(cls: type) -> str:
    """Return a checksum of the code that the results of a method may depend on.

    It covers the file of the class and all subpackages that runs may use. Returns 64 hexadecimal
    digits. Raises InvalidInputError if the class has no source file.

    Examples
    --------
    >>> from acqh.methods import CVH
    >>> len(fingerprint_code(CVH))
    64
    """
    try:
        source = Path(inspect.getsourcefile(cls) or "").read_bytes()
    except (OSError, TypeError):
        raise InvalidInputError(
            f"class {cls.__name__} has no source file; define it in a .py file"
        ) from None
    return hashlib.sha256(source + digest_sources(_PACKAGE)).hexdigest()


def digest_sources(package: Path) -> bytes:
    """Return a digest of every source file of a package, without unrelated subpackages."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in UNRELATED)):
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.digest()
