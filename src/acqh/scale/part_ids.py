"""Ids of a part as arrays that a bundle can hold."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, pack_texts
from acqh.errors import CorruptBundleError


def pack_ids(ids: Array, prefix: str = "") -> tuple[dict[str, Array], dict[str, int | None]]:
    """Return ids as arrays that a bundle can hold; or only the first, where they count up."""
    first = f"{prefix}first_id"
    if ids.dtype.kind in "iu":
        # The ends are compared too, because the difference of two int64 may overflow.
        if int(ids[-1]) - int(ids[0]) == len(ids) - 1 and np.all(np.diff(ids) == 1):
            return {}, {first: int(ids[0])}
        return {f"{prefix}ids": ids.astype(np.int64, copy=False)}, {first: None}
    return pack_text_ids(ids, prefix), {first: None}


def pack_text_ids(ids: Array, prefix: str = "") -> dict[str, Array]:
    """Return ids that are texts as arrays that a bundle can hold."""
    content, starts = pack_texts(map(str, ids))
    return {f"{prefix}text": content, f"{prefix}starts": starts}


def unpack_ids(
    arrays: Mapping[str, Array], info: Mapping[str, Any], n: int, path: Path, prefix: str = ""
) -> Array:
    """Take back what `pack_ids` gave."""
    first = info.get(f"{prefix}first_id")
    if isinstance(first, int) and -(2**63) <= first <= 2**63 - n:
        return np.arange(first, first + n, dtype=np.int64)
    numbers = arrays.get(f"{prefix}ids", np.empty(0))
    if numbers.dtype == np.int64 and numbers.shape == (n,):
        return numbers
    return unpack_text_ids(arrays, n, path, prefix)


def unpack_text_ids(arrays: Mapping[str, Array], n: int, path: Path, prefix: str = "") -> Array:
    """Take back what `pack_text_ids` gave."""
    starts = arrays.get(f"{prefix}starts", np.empty(0))
    if f"{prefix}text" not in arrays or starts.shape != (n + 1,):
        raise CorruptBundleError(f"{path} does not hold {n} ids")
    content = arrays[f"{prefix}text"].tobytes()
    texts = np.empty(n, dtype=object)
    try:
        texts[:] = [content[a:b].decode() for a, b in pairwise(starts.tolist())]
    except (UnicodeDecodeError, TypeError) as error:
        raise CorruptBundleError(f"{path} holds an id that is not text") from error
    return texts
