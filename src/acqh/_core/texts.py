"""Texts as arrays: all their bytes, one after another, and where each starts."""

from collections.abc import Iterable

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.errors import InvalidInputError


def pack_texts(texts: Iterable[str], what: str = "id") -> tuple[Array, Ints]:
    """Return the bytes of texts, uint8 (n_bytes,), and where each starts and the last ends.

    `what`: what to call a text in an error. Raises InvalidInputError: one is not valid Unicode.

    Examples
    --------
    >>> pack_texts(["ab", "", "c"])
    (array([97, 98, 99], dtype=uint8), array([0, 2, 2, 3]))
    """
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} {error.object!r} is not valid text: {error.reason}"
        ) from error
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), starts
