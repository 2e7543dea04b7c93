"""Networks trained by others, as encoders: batches, threads, and a check of the weights.

Weights are not part of what is saved, only a fingerprint of them: features of other weights
would not fit a model, so other weights are rejected.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from acqh._core.arrays import Floats, check_positive_int
from acqh._core.imports import require
from acqh._core.runtime import default_threads
from acqh.errors import InvalidInputError

_CHUNK_BYTES = 1 << 22
T = TypeVar("T")
R = TypeVar("R")


class PlainEstimator:
    """An estimator without scikit-learn, whose import takes longer than a query."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments."""
        if unknown := sorted(set(params) - set(self.get_params())):
            raise InvalidInputError(f"{type(self).__name__} has no {', '.join(unknown)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, then return the rows of the same."""
        features: Floats = self.fit(X, y).transform(X)  # type: ignore[attr-defined]
        return features

    def __sklearn_tags__(self) -> Any:
        utils = require("sklearn.utils")
        return utils.Tags(
            estimator_type="transformer",
            target_tags=utils.TargetTags(required=False),
            transformer_tags=utils.TransformerTags(),
            input_tags=utils.InputTags(two_d_array=False),
            requires_fit=False,
        )

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        changed = {k: v for k, v in self.get_params().items() if v != usual[k].default}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


class Network(PlainEstimator):
    """Base class of encoders that run a network: batches, and a check of the weights."""

    _state_axes: ClassVar = {"fingerprint_": str}
    batch_size: int
    # A stored encoder may be anybody's: it makes nobody fetch anything.
    _may_fetch: bool = True
    _packages: ClassVar[tuple[str, ...]]

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        raise NotImplementedError

    @cached_property
    def fingerprint_(self) -> str:
        """Fingerprint of the weights; after `fit`, the one stored then."""
        return self._weights_fingerprint()

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
        rows = [
            np.asarray(self._forward(batch, part * self.batch_size), dtype=np.float32)
            for part, batch in enumerate(batches(raw, self.batch_size))
        ]
        if not rows:
            return np.empty((0, self.n_features_out), dtype=np.float32)
        return np.concatenate(rows)

    def _restored(self) -> None:
        self._may_fetch = False

    def check_installed(self) -> None:
        """Raise MissingExtraError unless the packages that are needed are installed."""
        for package in self._packages:
            require(package)

    def _load_once(self) -> None:
        """Load the network once; raise an error if its weights differ from those of the fit."""
        if hasattr(self, "_network"):
            return
        if self.fingerprint_ != self._weights_fingerprint():
            raise InvalidInputError(
                f"the weights of {self!r} are not those it was fitted with; put those back, or "
                "build the collection again"
            )
        self._network = self._load()

    def _weights_fingerprint(self) -> str:
        raise NotImplementedError

    @staticmethod
    def _hash_files(paths: Iterable[Path]) -> str:
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while content := file.read(_CHUNK_BYTES):
                    digest.update(content)
        return digest.hexdigest()

    @staticmethod
    def _read_known(path: Path, sha256: str, package: str) -> bytes:
        """Return the content of a file of a package; raise an error if its SHA-256 differs."""
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_network"}


def session(model: bytes | str, weights: Mapping[str, Floats] | None = None) -> Any:
    """Return an ONNX Runtime session on the processor that uses one thread for each call.

    `weights`: those that the model names but does not contain.
    """
    runtime = require("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    values = {
        name: runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
        for name, array in (weights or {}).items()
    }
    if values:
        options.add_external_initializers(list(values), list(values.values()))
    # Its fallback is the same provider once more, and announced on stdout.
    network = runtime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disable_fallback=1
    )
    network.values = values  # which it may not have copied
    return network


def on_all_cores(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results in order, as many at a time as there are cores to use.

    Examples
    --------
    >>> on_all_cores(len, ["a", "bc"])
    [1, 2]
    """
    items = list(items)
    n_threads = min(default_threads(), len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
