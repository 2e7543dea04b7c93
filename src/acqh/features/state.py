"""What ``fit`` learnt as named arrays: given, checked and taken back, never pickled."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn import exceptions

from acqh._core.arrays import Array, is_sparse
from acqh.errors import InvalidInputError, NotFittedError

WIDTH = "n_features_in_"
_CSR_PARTS = ("data", "indices", "indptr", "shape")

# Fitted attribute -> a name for each axis. Axes of one name must have one length; "n_features" is
# the width that was fitted. No axes: one number.
Axes = Mapping[str, tuple[str, ...]]


class UnfittedMapError(NotFittedError, exceptions.NotFittedError):
    """A feature map or encoder was used before ``fit``; also scikit-learn's own error."""


class StateMixin:
    """Give and take what ``fit`` learnt as named arrays, so that nothing is ever pickled.

    A class lists its fitted attributes in ``_state_axes`` with a name for each axis; axes of one
    name must have one length, and ``"n_features"`` is the width that was fitted. An attribute
    without axes is a number, stored as an array of one entry. A sparse attribute is stored as its
    four CSR pieces.
    """

    _state_axes: ClassVar[Axes] = {}

    def get_state(self) -> dict[str, Array]:
        """Return the fitted attributes as arrays that can be stored as they are.

        Returns
        -------
        dict of str to ndarray
            Constructor arguments are not in it; they come from ``get_params``.

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        """
        require_fitted(self)
        return arrays_of(self, self._state_axes)

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Become fitted with what `get_state` gave.

        Parameters
        ----------
        arrays : dict of str to ndarray

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A name is missing or unknown, or the shapes do not fit one another.
        """
        take_arrays(self, self._state_axes, arrays)
        return self


def require_fitted(estimator: Any) -> None:
    """Raise unless ``fit`` or ``set_state`` has been called."""
    if not hasattr(estimator, WIDTH):
        raise UnfittedMapError(
            f"this {type(estimator).__name__} is not fitted; call fit with training rows first"
        )


def arrays_of(estimator: Any, axes: Axes, optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the width and fitted attributes as named arrays.

    Those of `optional` that are None or absent are left out.
    """
    state: dict[str, Array] = {}
    for attribute in (WIDTH, *axes):
        value, name = getattr(estimator, attribute, None), attribute.removesuffix("_")
        if value is None:
            if attribute not in optional:
                raise UnfittedMapError(
                    f"this {type(estimator).__name__} is not fitted; call fit first"
                )
        elif is_sparse(value):
            value = sp.csr_array(value)
            parts = (value.data, value.indices, value.indptr, np.asarray(value.shape))
            state.update(zip((f"{name}.{part}" for part in _CSR_PARTS), parts, strict=True))
        else:
            state[name] = np.atleast_1d(value)
    return state


def take_arrays(
    estimator: Any, axes: Axes, arrays: Mapping[str, Array], optional: frozenset[str] = frozenset()
) -> None:
    """Set what `arrays_of` gave, all of it or, where it does not fit, nothing."""
    left, owner = dict(arrays), type(estimator).__name__
    sizes: dict[str, int] = {}
    values: dict[str, Any] = {}
    for attribute, names in {WIDTH: (), **axes}.items():
        name = attribute.removesuffix("_")
        if attribute in optional and not {name, f"{name}.indptr"} & set(left):
            continue
        value = _take_value(left, name, owner)
        if names:
            _check_axes(value, names, sizes, f"{name!r} of {owner}")
        values[attribute] = value if names else _number(value, name, owner)
        if attribute == WIDTH:
            sizes["n_features"] = values[attribute] = int(values[attribute])
    if left:
        raise InvalidInputError(f"state of {owner} has unknown arrays: {sorted(left)}")
    for attribute, value in values.items():
        setattr(estimator, attribute, value)


def _take(arrays: dict[str, Array], name: str, owner: str) -> Array:
    if name not in arrays:
        raise InvalidInputError(f"state of {owner} lacks the array {name!r}")
    array = np.asarray(arrays.pop(name))
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name!r} of {owner} holds no numbers but {array.dtype}")
    return array


def _number(array: Array, name: str, owner: str) -> Any:
    if array.size != 1:
        raise InvalidInputError(f"{name!r} of {owner} must be one number, got {array!r}")
    return array.item()


def _take_value(arrays: dict[str, Array], name: str, owner: str) -> Any:
    if f"{name}.indptr" not in arrays:
        return _take(arrays, name, owner)
    data, indices, indptr, shape = (_take(arrays, f"{name}.{part}", owner) for part in _CSR_PARTS)
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInputError(f"{name!r} of {owner} is not a CSR matrix: {error}") from error
    return matrix


def _check_axes(value: Any, axes: tuple[str, ...], sizes: dict[str, int], name: str) -> None:
    if value.ndim != len(axes):
        raise InvalidInputError(f"{name} has {value.ndim} dimensions, not {len(axes)}")
    for axis, length in zip(axes, value.shape, strict=True):
        expected = sizes.setdefault(axis, length)
        if expected != length:
            raise InvalidInputError(f"{name} has {length} entries along {axis}, not {expected}")
