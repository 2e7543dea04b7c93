"""Methods of the bench: names, code sizes and constructor arguments."""

import hashlib
import inspect
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from acqh import methods
from acqh._core.store import pack
from acqh.bench.running.trivial import TRIVIAL
from acqh.errors import InvalidInputError
from acqh.features import KernelMap, RBFAnchors, SignedRoot
from acqh.methods import BaseMethod
from acqh.methods.baselines.additive import AdditiveMethod
from acqh.methods.baselines.networks import NetworkMethod
from acqh.methods.registry import HOMES, MethodInfo

# Chosen, with the root and the width, on training rows of Wiki and MIRFlickr25K only. Many more
# anchors would come close to the number of training items of small data.
_N_ANCHORS = 500
# Suffixes of method names.
_FEATURE_MAPS = ("rbf", "kernel")
# Methods that also run with RBF features, in addition to those whose papers use them.
_ALSO_RBF = ("acqh", "acqh-paper", "label-ridge")
# The trivial baseline uses its best setting that does not depend on the queries.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {"label-ridge": {"ridge": "auto"}}


@dataclass(frozen=True)
class Variant:
    """A row of a table: a method with its feature maps and parameters."""

    label: str
    cls: type[BaseMethod]  # the method
    feature_maps: str | None = None  # ``"rbf"``, ``"kernel"``, or None for those of the method
    # Constructor arguments in addition to those of the grid.
    params: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, n_views: int) -> bool:
        """Return whether the method supports this number of views."""
        fewest, most = self.cls.view_range
        return fewest <= n_views and (most is None or n_views <= most)

    def sizes_by_bytes(self, n_bytes: int) -> dict[str, Any] | None:
        """Return the constructor arguments for a code size in bytes; None if it is impossible."""
        names = self._parameters()
        if "n_bits" in names:
            return {"n_bits": 8 * n_bytes}
        if "n_codebooks" in names:
            # These methods store the norm in one byte.
            n_codebooks = n_bytes - issubclass(self.cls, AdditiveMethod)
            return {"n_codebooks": n_codebooks} if n_codebooks else None
        return {}

    def full_params(self, arguments: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return all constructor arguments as JSON values.

        Raises InvalidInputError for an argument that is not a JSON value.
        """
        arguments = {**self.params, **arguments}
        if "random_state" in self._parameters():
            arguments["random_state"] = seed
        params = self.cls(**arguments).get_params(deep=False)
        if self.feature_maps is not None:
            feature_maps = make_maps(self.feature_maps, seed)
            params["feature_maps"], _ = pack(feature_maps, HOMES, fitted=False)
        return {name: _as_json(value, name, self.label) for name, value in sorted(params.items())}

    def _parameters(self) -> dict[str, Any]:
        return dict(self.cls().get_params(deep=False))


def make_maps(name: str, seed: int) -> Any:
    """Return the unfitted feature map of a name."""
    if name == "kernel":
        return KernelMap(random_state=seed)
    if name != "rbf":
        names = ", ".join(_FEATURE_MAPS)
        raise InvalidInputError(f"unknown feature maps {name!r}; choose one of {names}")
    anchors = RBFAnchors(_N_ANCHORS, variant="rbf_scaled", scale=0.5, random_state=seed)
    return make_pipeline(SignedRoot(), anchors)


def find_method(name: str) -> type[BaseMethod]:
    """Return a registered method, or a trivial baseline of the bench."""
    return TRIVIAL[name] if name in TRIVIAL else methods.get(name)


def make_variant(label: str) -> Variant:
    """Return the variant of a label: a method's name, optionally with `` rbf`` or `` kernel``.

    Raises InvalidInputError for an unknown method, or one without feature maps.

    Examples
    --------
    >>> make_variant("acqh rbf").feature_maps
    'rbf'
    """
    name, _, maps = label.rpartition(" ")
    if maps not in _FEATURE_MAPS:
        name, maps = label, ""
    cls = find_method(name)
    variant = Variant(label, cls, maps or None, _SETTINGS.get(name, {}))
    if variant.feature_maps is not None and "feature_maps" not in cls().get_params():
        raise InvalidInputError(f"method {name!r} has no feature maps; remove {maps!r}")
    return variant


def list_variants() -> list[Variant]:
    """Return all methods without neural networks, some with RBF features, trivial baselines."""
    names = [name for name in methods.list() if not issubclass(methods.get(name), NetworkMethod)]
    labels = [*names, *(f"{name} rbf" for name in _ALSO_RBF), *TRIVIAL]
    return [make_variant(label) for label in labels]


def find_variants(names: Sequence[str]) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Return the variants, and the files of custom methods."""
    files = tuple(name for name in names if ".py:" in name)
    # Load files first, so that their methods can also be selected by name.
    named = {file: load_method_file(file).info.name for file in files}
    variants: list[Variant] = []
    for name in names:
        variants += list_variants() if name == "all" else [make_variant(named.get(name, name))]
    return tuple({variant.label: variant for variant in variants}.values()), files


def name_of(method: Any) -> str:
    """Return the name of a method, or ``FILE:CLASS`` for a class outside this package."""
    if isinstance(method, str):
        return method.strip()
    if not (isinstance(method, type) and issubclass(method, BaseMethod)):
        raise InvalidInputError(f"methods must be names or BaseMethod classes, got {method!r}")
    if method.__module__.partition(".")[0] == "acqh":
        return method.info.name
    # The worker process imports it from its file.
    return f"{inspect.getsourcefile(method)}:{method.__name__}"


def _as_json(value: Any, name: str, label: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): _as_json(entry, name, label) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_json(entry, name, label) for entry in value]
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if value is None or (isinstance(value, bool | int | float | str) and is_finite):
        return value
    raise InvalidInputError(
        f"argument {name} of method {label!r} is {value!r}; only JSON values can be stored"
    )


def load_method_file(argument: str) -> type[BaseMethod]:
    """Load a method from ``FILE.py:CLASS``; executes the file.

    The class must derive from BaseMethod and be registered with `acqh.methods.register`. Raises
    InvalidInputError for a missing file or class, an error in the file, or an unregistered class.

    Examples
    --------
    >>> load_method_file("mine.py")
    Traceback (most recent call last):
        ...
    acqh.errors.InvalidInputError: a method file must be FILE.py:CLASS, got 'mine.py'
    """
    file, _, name = argument.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise InvalidInputError(f"a method file must be FILE.py:CLASS, got {argument!r}")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise InvalidInputError(f"no such file: {path}")
    cls = getattr(_import_file(path), name, None)
    if not (isinstance(cls, type) and issubclass(cls, BaseMethod)):
        raise InvalidInputError(f"{path} has no class {name} that derives from BaseMethod")
    if not isinstance(cls.__dict__.get("info"), MethodInfo):
        raise InvalidInputError(
            f"class {name} of {path} is not registered; decorate it with "
            "@acqh.methods.register(...)"
        )
    return cls


def _import_file(path: Path) -> object:
    # A unique module name per file: two files may have the same name.
    name = f"acqh_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file may raise anything
        del sys.modules[name]
        raise InvalidInputError(f"{path} cannot be imported: {error!r}") from error
    return module
