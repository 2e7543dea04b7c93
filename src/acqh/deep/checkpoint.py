"""State of a training run in a bundle: named arrays and numbers, no code."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.io import read_bundle, write_bundle

_KIND = "fine-tuning"


def save_checkpoint(
    path: str | PathLike[str], encoder: Any, optimizer: Any, facts: dict[str, Any]
) -> None:
    """Write an encoder, its optimizer and what else says where a run stands.

    `path` is a directory; what it held before is replaced in one step. Facts are JSON values.
    """
    moments = {
        f"{number}/{name}": _array(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }
    weights = {name: _array(value) for name, value in encoder.state_dict().items()}
    arrays = {"encoder": weights, "optimizer": moments}
    write_bundle(path, kind=_KIND, arrays=arrays, info=facts)


def load_checkpoint(
    path: str | PathLike[str], encoder: Any, optimizer: Any, expected: dict[str, Any]
) -> dict[str, Any] | None:
    """Put an encoder and its optimizer where a run stood; return the facts, None without a file.

    `encoder`, `optimizer`: as they were at the beginning of the run. `expected`: facts that must be
    the same. Raises InvalidInputError: the checkpoint is of another encoder or of other settings.
    Raises CorruptBundleError: it is damaged.
    """
    torch = require("torch")
    if not (Path(path) / "manifest.json").exists():
        return None
    bundle = read_bundle(path, kind=_KIND, mmap=False)
    for name, value in expected.items():
        if bundle.info.get(name) != value:
            raise InvalidInputError(
                f"the checkpoint in {path} was made with {name}={bundle.info.get(name)!r}, now it "
                f"is {value!r}; give the same settings, or another checkpoint folder"
            )
    weights = {name: torch.from_numpy(it.copy()) for name, it in bundle.arrays("encoder").items()}
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise InvalidInputError(f"the checkpoint in {path} is of another encoder") from error
    state: dict[int, dict[str, Any]] = {}
    for key, value in bundle.arrays("optimizer").items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = torch.from_numpy(value.copy())
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return dict(bundle.info)


def _array(value: Any) -> Array:
    """Return a tensor as an array; files know no truth values."""
    array = np.asarray(value.detach().cpu().numpy())
    return array.astype(np.uint8) if array.dtype == bool else array
