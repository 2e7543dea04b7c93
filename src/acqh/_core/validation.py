"""Checks of constructor arguments: the only file that touches scikit-learn's private validation."""

from collections.abc import Mapping
from typing import Any

from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)

from acqh.errors import InvalidInputError

__all__ = ["Interval", "StrOptions", "check_parameters"]


def check_parameters(estimator: Any, constraints: Mapping[str, Any]) -> None:
    """Check an estimator's constructor arguments against its constraints.

    `constraints`: what each argument may be: types, `Interval`, `StrOptions`, None, callable.
    Raises InvalidInputError: the message names the argument, what it may be and what it is.
    """
    given, owner = estimator.get_params(deep=False), type(estimator).__name__
    for name, allowed in constraints.items():
        # Which counts as a number elsewhere.
        if isinstance(given.get(name), bool) and "boolean" not in allowed:
            kinds = " or ".join(str(make_constraint(it)) for it in allowed)
            raise InvalidInputError(
                f"The {name!r} parameter of {owner} must be {kinds}. Got {given[name]} instead."
            )
    try:
        validate_parameter_constraints(dict(constraints), given, owner)
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from None
