"""The methods of a run: which there are, how large their codes become, how they are built."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from acqh import methods
from acqh._core.store import pack
from acqh.bench.run.cells import Cell
from acqh.bench.run.random import RandomCodes
from acqh.errors import InvalidInputError
from acqh.features import KernelMap, RBFAnchors, SignedRoot
from acqh.methods import BaseMethod
from acqh.methods.rivals.additive.base import AdditiveMethod
from acqh.methods.rivals.networks.base import NetworkMethod
from acqh.methods.state import HOMES

# The paper's number of codebooks.
PAPER_CODEBOOKS = 4
# Chosen, with the root and the width, on training rows of Wiki and MIRFlickr25K alone. Many more
# anchors than that come too close to the number of training items of small data.
_N_ANCHORS = 500
# What may follow the name of a method.
_FEATURE_MAPS = ("rbf", "kernel")
# Methods that are run with RBF features as well, besides those whose own paper asks for them.
_ALSO_RBF = ("acqh", "acqh-paper", "label-ridge")
# The control is to be as strong as it can be without looking at the queries.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {"label-ridge": {"ridge": "auto"}}


@dataclass(frozen=True)
class Variant:
    """A line of a table: a method, and what of it is not as usual."""

    label: str
    cls: type[BaseMethod]  # the method
    feature_maps: str | None = None  # ``"rbf"`` or ``"kernel"``, or the method's own
    # Constructor arguments besides those of the grid.
    params: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, n_views: int) -> bool:
        """Return whether the method can be fitted on this many views."""
        fewest, most = self.cls.view_range
        return fewest <= n_views and (most is None or n_views <= most)

    def sizes_by_components(self, n_components: int) -> dict[str, Any]:
        """Return the arguments for vectors of a length: bits, or words of four codebooks."""
        known = self._known()
        if "n_bits" in known:
            return {"n_bits": n_components}
        if "n_codebooks" in known:
            return {"n_components": n_components, "n_codebooks": PAPER_CODEBOOKS}
        return {}

    def sizes_by_bytes(self, n_bytes: int) -> dict[str, Any] | None:
        """Return the arguments for items of a number of bytes; None if there are no such items."""
        known = self._known()
        if "n_bits" in known:
            return {"n_bits": 8 * n_bytes}
        if "n_codebooks" in known:
            # A byte of these methods is for the norm.
            n_codebooks = n_bytes - issubclass(self.cls, AdditiveMethod)
            return {"n_codebooks": n_codebooks} if n_codebooks else None
        return {}

    def full_params(self, given: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return all constructor arguments as JSON values.

        Raises InvalidInputError: one of them is not a JSON value.
        """
        given = {**self.params, **given}
        if "random_state" in self._known():
            given["random_state"] = seed
        params = self.cls(**given).get_params(deep=False)
        if self.feature_maps is not None:
            params["feature_maps"] = pack(make_maps(self.feature_maps, seed), HOMES, fitted=False)[
                0
            ]
        return {name: _as_json(value, name, self.label) for name, value in sorted(params.items())}

    def _known(self) -> dict[str, Any]:
        return dict(self.cls().get_params(deep=False))


def make_maps(name: str, seed: int) -> Any:
    """Return the feature map that a name stands for, unfitted."""
    if name == "kernel":
        return KernelMap(random_state=seed)
    if name != "rbf":
        known = ", ".join(_FEATURE_MAPS)
        raise InvalidInputError(f"no feature maps are called {name!r}; there are: {known}")
    anchors = RBFAnchors(_N_ANCHORS, variant="rbf_scaled", scale=0.5, random_state=seed)
    return make_pipeline(SignedRoot(), anchors)


def find_method(name: str) -> type[BaseMethod]:
    """Return a registered method, or the random control."""
    return RandomCodes if name == RandomCodes.info.name else methods.get(name)


def make_variant(label: str) -> Variant:
    """Return the variant of a label: a method's name, or one followed by `` rbf`` or `` kernel``.

    Raises InvalidInputError: no method is called so, or it takes no feature maps.

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
        raise InvalidInputError(f"method {name!r} takes no feature maps")
    return variant


def list_variants() -> list[Variant]:
    """Return all methods that need no network, those with RBF features, and the controls."""
    names = [name for name in methods.list() if not issubclass(methods.get(name), NetworkMethod)]
    labels = [*names, *(f"{name} rbf" for name in _ALSO_RBF), RandomCodes.info.name]
    return [make_variant(label) for label in labels]


def build(cell: Cell) -> BaseMethod:
    """Return the unfitted method of a cell."""
    params = dict(cell.params)
    if cell.feature_maps is not None:
        params["feature_maps"] = make_maps(cell.feature_maps, cell.seed)
    return find_method(cell.method)(**params)


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
