"""Networks trained by others, as encoders: batches, and a check of the weights.

Weights are not part of what is saved, only a fingerprint of them: features of other weights
would not fit a model, so other weights are refused.
"""

import hashlib
import inspect
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh._core.imports import require
from acqh.errors import InvalidInputError

_FINGERPRINT = "fingerprint"
_CHUNK_BYTES = 1 << 22


class Network:
    """What the encoders that run a network share: batches, and a check of the weights.

    A subclass takes parameters and stores them, as scikit-learn's estimators do, but without
    scikit-learn, which takes longer to import than a query takes; `NetworkEncoder` makes it an
    estimator.
    """

    batch_size: int
    # What stored state calls it: the name of the estimator.
    estimator_name: ClassVar[str]
    # A stored encoder may be anybody's: it makes nobody fetch anything.
    _may_fetch: bool = True
    _packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        raise NotImplementedError

    def fit(self, raw: Iterable[Any], y: Any = None) -> Self:  # noqa: ARG002
        """Note which weights are used; nothing is learnt.

        Parameters
        ----------
        raw : ignored
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A parameter is out of range, or the weights cannot be read.
        MissingExtraError
            A package is not installed.
        """
        check_positive_int(self.batch_size, "batch_size")
        self.fingerprint_ = self._weights_fingerprint()
        return self

    def transform(self, raw: Iterable[Any]) -> Floats:
        """Return the features, in batches.

        Parameters
        ----------
        raw : iterable of images or texts, (n_items,)

        Returns
        -------
        (n_items, n_features) float32

        Raises
        ------
        ImageError
            An image cannot be read or is too large; the message names it.
        InvalidInputError
            The weights are not those that were fitted with.
        MissingExtraError
            A package is not installed.
        """
        self._load_once()
        found = [
            np.asarray(self._forward(batch, start), dtype=np.float32)
            for start, batch in _batches(raw, self.batch_size)
        ]
        if not found:
            return np.empty((0, self.n_features_out), dtype=np.float32)
        return np.concatenate(found)

    def params(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def get_state(self) -> dict[str, Array]:
        """Return the fingerprint of the weights."""
        return {_FINGERPRINT: np.frombuffer(self._fingerprint(), dtype=np.uint8)}

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Accept what `get_state` gave."""
        found = arrays.get(_FINGERPRINT, np.empty(0))
        if set(arrays) != {_FINGERPRINT} or found.shape != (32,) or found.dtype != np.uint8:
            raise InvalidInputError(
                f"state of {type(self).__name__} must be the fingerprint of its weights"
            )
        self.fingerprint_ = found.tobytes()
        self._may_fetch = False
        return self

    def check_installed(self) -> None:
        """Raise MissingExtraError unless the packages that are needed are installed."""
        for package in self._packages:
            require(package)

    def _fingerprint(self) -> bytes:
        if not hasattr(self, "fingerprint_"):
            self.fit([])
        return bytes(self.fingerprint_)

    def _load_once(self) -> None:
        """Load the network unless it is there; refuse weights that are not those fitted with."""
        if hasattr(self, "_network"):
            return
        if self._fingerprint() != self._weights_fingerprint():
            raise InvalidInputError(
                f"the weights of {self!r} are not those it was fitted with; put those back, or "
                "build the collection again"
            )
        self._network = self._load()

    def _weights_fingerprint(self) -> bytes:
        raise NotImplementedError

    @staticmethod
    def _hash_files(paths: Iterable[Path]) -> bytes:
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while content := file.read(_CHUNK_BYTES):
                    digest.update(content)
        return digest.digest()

    @staticmethod
    def _read_known(path: Path, sha256: str, package: str) -> bytes:
        """Return the content of a file that a package brings; refuse any other content."""
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise InvalidInputError(
                f"{path} is not the file that is known; install {package} again"
            )
        return content

    def _load(self) -> Any:
        raise NotImplementedError

    def _forward(self, batch: list[Any], start: int) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        given = {k: v for k, v in self.params().items() if v != usual[k].default}
        return f"{self.estimator_name}({', '.join(f'{k}={v!r}' for k, v in given.items())})"


def _batches(raw: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    iterator, start = iter(raw), 0
    while batch := list(islice(iterator, size)):
        yield start, batch
        start += len(batch)
