"""Codes in a folder, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError
from acqh.scale.part_folder import Parts, Plan
from acqh.scale.part_ids import pack_ids, unpack_ids


class CodePart(NamedTuple):
    """Codes of consecutive items and their ids.

    Parameters
    ----------
    codes : (n_items, bytes_per_item) uint8
    ids : (n_items,) int64, or object for texts
    """

    codes: Array
    ids: Array


@dataclass(frozen=True, kw_only=True)
class CodePlan(Plan[CodePart]):
    """What codes are made with: a model, and by labels or not."""

    kind = "code-parts"
    part_kind = "code-part"
    content = "codes"

    by_labels: bool
    bytes_per_item: int

    def pack(self, part: CodePart) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, first_id = pack_ids(part.ids)
        return {**arrays, "codes": part.codes}, first_id

    def unpack(
        self, arrays: dict[str, Array], info: Mapping[str, Any], n_rows: int, path: Path
    ) -> CodePart:
        codes = arrays.get("codes", np.empty(0))
        if codes.dtype != np.uint8 or codes.shape != (n_rows, self.bytes_per_item):
            raise CorruptBundleError(
                f"{path} does not hold {n_rows} codes of {self.bytes_per_item} bytes"
            )
        return CodePart(codes, unpack_ids(arrays, info, n_rows, path))


class CodeParts(Parts[CodePart]):
    """Codes in a folder that `encode_parts` made, read a part at a time.

    Iterating gives each `CodePart`, in the order of the items; its bytes are compared with its
    checksum on the way. One part is in memory at a time.

    Parameters
    ----------
    path : path-like
        The folder.
    verify : bool, default False
        Read every part now.

    Attributes
    ----------
    path : Path
    model : str
        `acqh.methods.fingerprint` of the model that made the codes.
    by_labels : bool
        Whether items with labels were coded by these.
    chunk_size : int or None
        Items of a part; None where the source decided.
    bytes_per_item : int
    n_parts : int

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    InvalidInputError
        Coding has not finished, or the folder holds something else.
    CorruptBundleError
        The folder is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = acqh.scale.encode_parts(model, data, folder + "/codes", chunk_size=20)
    ...     parts = CodeParts(folder + "/codes")
    ...     [part.codes.shape for part in parts], parts.to_arrays().codes.shape
    ([(20, 2), (20, 2), (10, 2)], (50, 2))
    """

    def __init__(self, path: str | PathLike[str], *, verify: bool = False) -> None:
        plan = CodePlan.read(Path(path))
        self.by_labels = plan.by_labels
        self.bytes_per_item = plan.bytes_per_item
        super().__init__(path, plan, verify=verify)

    def __repr__(self) -> str:
        return (
            f"<CodeParts: {len(self)} items in {self.n_parts} parts, {self.bytes_per_item} bytes "
            "per item>"
        )
