"""Checks of constructor arguments: the only file that touches scikit-learn's private validation."""

from collections.abc import Mapping
from typing import Any

from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

from acqh.errors import InvalidInputError

__all__ = ["Interval", "StrOptions", "check_parameters"]


def check_parameters(estimator: Any, constraints: Mapping[str, Any]) -> None:
    """Check an estimator's constructor arguments against its constraints.

    `constraints`: what each argument may be: types, `Interval`, `StrOptions`, None, callable.
    Raises InvalidInputError: the message names the argument, what it may be and what it is.
    """
    try:
        validate_parameter_constraints(
            dict(constraints), estimator.get_params(deep=False), type(estimator).__name__
        )
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from None
