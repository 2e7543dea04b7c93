"""What is known of a variable of a Matlab file before it is read."""

import math
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Matrix

_FLOATS = {"float64": "double", "float32": "single", "bool": "logical"}


def matlab_kind(dtype: "np.dtype[Any]") -> str:
    """Return Matlab's name of a type of numbers.

    Examples
    --------
    >>> matlab_kind(np.dtype("f4")), matlab_kind(np.dtype("u1"))
    ('single', 'uint8')
    """
    return _FLOATS.get(dtype.name, dtype.name)


# Cells, texts, functions and objects are listed in errors but never read.
NUMBER_KINDS = frozenset(matlab_kind(np.dtype(code)) for code in "?bBhHiIqQfd") | {"sparse"}


@dataclass(frozen=True)
class Variable:
    """A variable of the file: its Matlab size and class."""

    shape: tuple[int, ...]
    kind: str

    @property
    def is_scalar(self) -> bool:
        """Whether it is empty or has one entry, as counters of a saved workspace have."""
        return math.prod(self.shape) <= 1

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix of numbers, dense or sparse, of more than one entry."""
        return self.kind in NUMBER_KINDS and len(self.shape) == 2 and not self.is_scalar


class MatFile(AbstractContextManager["MatFile"]):
    """Variables by name; fields of a struct are called ``struct.field``."""

    variables: dict[str, Variable]

    @abstractmethod
    def load(self, name: str) -> Matrix:
        """Return a matrix of numbers as Matlab shows it, dense or CSC."""
