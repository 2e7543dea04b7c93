"""Codes in a folder, part by part: each part a bundle, and the folder one too.

The folder's own manifest says what the parts were made with and, once coding has finished, how many
there are. A part's manifest says which one it is. So a part that is there is whole and known, and
what a killed writer left is not a part.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from acqh._core.arrays import Array
from acqh._core.errors import CorruptBundleError, InvalidInputError
from acqh.io import read_bundle, write_bundle

_KIND = "code-parts"
_PART_KIND = "code-part"
_MEMBER = "part"


class CodePart(NamedTuple):
    """Codes of consecutive items and their ids.

    Parameters
    ----------
    codes : (n_items, bytes_per_item) uint8
    ids : (n_items,) int64, or object for texts
    """

    codes: Array
    ids: Array


@dataclass(frozen=True)
class Plan:
    """What the parts of a folder are made with, and how many there are once all are made."""

    model: str
    by_labels: bool
    chunk_size: int | None
    bytes_per_item: int
    n_items: int | None = None
    n_parts: int | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a folder's plan.

        Raises
        ------
        FileNotFoundError
            There is none.
        CorruptBundleError
            It is damaged.
        InvalidInputError
            The folder is a bundle of something else.
        """
        match read_bundle(folder, kind=_KIND).info:
            case {
                "model": str(),
                "by_labels": bool(),
                "chunk_size": None | int(),
                "bytes_per_item": int(),
                "n_items": None | int(),
                "n_parts": None | int(),
                **others,
            } as info if not others:
                return cls(**info)
        raise CorruptBundleError(f"{folder} does not describe parts of codes")

    def write(self, folder: Path) -> None:
        """Put the plan in place of the one before."""
        write_bundle(folder, kind=_KIND, info=asdict(self), arrays={})

    def begin(self, folder: Path) -> None:
        """Write the plan, or find that the folder has the same already.

        Raises
        ------
        InvalidInputError
            The folder has another: its parts were made otherwise.
        """
        try:
            there = Plan.read(folder)
        except FileNotFoundError:
            self.write(folder)
            return
        if there.model != self.model:
            raise InvalidInputError(
                f"{folder} holds codes of another model ({there.model[:12]}, this one is "
                f"{self.model[:12]}); go on with that model, or choose another folder"
            )
        for name in ("by_labels", "chunk_size"):
            old, new = getattr(there, name), getattr(self, name)
            if old != new:
                raise InvalidInputError(
                    f"{folder} was begun with {name}={old}, not {new}; go on with {name}={old}, or "
                    "choose another folder"
                )

    def finish(self, folder: Path, n_items: int, n_parts: int) -> None:
        """Note that all parts are there."""
        replace(self, n_items=n_items, n_parts=n_parts).write(folder)


@dataclass(frozen=True)
class Place:
    """Where a part stands among all items."""

    number: int
    first_row: int
    n_rows: int

    def path(self, folder: Path) -> Path:
        """Return the part's own folder."""
        return part_path(folder, self.number)


def part_path(folder: Path, number: int) -> Path:
    """Return the folder of the part of this number."""
    return folder / f"part-{number:08d}"


def write_part(folder: Path, place: Place, model: str, part: CodePart) -> None:
    """Write a part, in one step."""
    arrays, first_id = _pack_ids(part.ids)
    info = {**asdict(place), "model": model, "first_id": first_id}
    arrays["codes"] = part.codes
    write_bundle(place.path(folder), kind=_PART_KIND, info=info, arrays={_MEMBER: arrays})


def read_part(path: Path, model: str) -> tuple[Place, CodePart]:
    """Read a part and every one of its bytes.

    Raises
    ------
    FileNotFoundError
        There is no whole part.
    CorruptBundleError
        It is damaged, or its codes are of another model.
    """
    bundle = read_bundle(path, kind=_PART_KIND, verify=True)
    match bundle.info:
        case {
            "number": int(number),
            "first_row": int(first_row),
            "n_rows": int(n_rows),
            "model": str(made_by),
            "first_id": None | int() as first_id,
        }:
            pass
        case _:
            raise CorruptBundleError(f"{path} does not describe a part of codes")
    arrays = bundle.arrays(_MEMBER)
    codes = arrays.pop("codes", np.empty(0))
    if codes.dtype != np.uint8 or codes.ndim != 2 or len(codes) != n_rows or made_by != model:
        raise CorruptBundleError(f"{path} does not hold {n_rows} codes of the folder's model")
    part = CodePart(codes, _unpack_ids(arrays, first_id, n_rows, path))
    return Place(number, first_row, n_rows), part


class CodeParts:
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
    ...     [part.codes.shape for part in CodeParts(folder + "/codes")]
    [(20, 2), (20, 2), (10, 2)]
    """

    def __init__(self, path: str | PathLike[str], *, verify: bool = False) -> None:
        self.path = Path(path)
        plan = Plan.read(self.path)
        if plan.n_items is None or plan.n_parts is None:
            raise InvalidInputError(
                f"coding into {self.path} has not finished; run it again to go on where it stopped"
            )
        self.model = plan.model
        self.by_labels = plan.by_labels
        self.chunk_size = plan.chunk_size
        self.bytes_per_item = plan.bytes_per_item
        self.n_parts = plan.n_parts
        self._n_items = plan.n_items
        if verify:
            self.verify()

    def __len__(self) -> int:
        return self._n_items

    def __repr__(self) -> str:
        return (
            f"<CodeParts: {len(self)} items in {self.n_parts} parts, {self.bytes_per_item} bytes "
            "an item>"
        )

    def __iter__(self) -> Iterator[CodePart]:
        return self.rows(0, len(self))

    def rows(self, start: int, stop: int) -> Iterator[CodePart]:
        """Yield some of the items, by their row in all parts; read no part that has none of them.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Yields
        ------
        CodePart
            A part, or what is wanted of it.

        Raises
        ------
        InvalidInputError
            There are no such rows.
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        if not 0 <= start <= stop <= len(self):
            raise InvalidInputError(f"there are {len(self)} items, so no rows {start} to {stop}")
        row, number = start, 0
        if start > 0:
            # The last part that does not begin after the row: parts are in the order of rows.
            number = bisect_right(range(self.n_parts), start, key=self._first_row) - 1
        while row < stop:
            place, part = self._read(number)
            end = place.first_row + place.n_rows
            follows = place.first_row == row or (row == start and place.first_row < row < end)
            if not follows or part.codes.shape[1] != self.bytes_per_item:
                raise CorruptBundleError(f"{part_path(self.path, number)} is not that part")
            if end > len(self) or (end == len(self)) != (number == self.n_parts - 1):
                raise CorruptBundleError(f"the parts of {self.path} do not have {len(self)} items")
            wanted = slice(row - place.first_row, min(stop, end) - place.first_row)
            yield CodePart(part.codes[wanted], part.ids[wanted])
            row, number = min(stop, end), number + 1

    def _read(self, number: int) -> tuple[Place, CodePart]:
        path = part_path(self.path, number)
        try:
            place, part = read_part(path, self.model)
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{path} is missing") from error
        if place.number != number:
            raise CorruptBundleError(f"{path} is not the part of that number")
        return place, part

    def _first_row(self, number: int) -> int:
        path = part_path(self.path, number)
        try:
            first_row = read_bundle(path, kind=_PART_KIND).info.get("first_row")
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{path} is missing") from error
        if not isinstance(first_row, int):
            raise CorruptBundleError(f"{path} does not describe a part of codes")
        return first_row

    def verify(self) -> None:
        """Read every byte of every part.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names the first.
        """
        for _ in self:
            pass


def _pack_ids(ids: Array) -> tuple[dict[str, Array], int | None]:
    """Return ids as arrays that a bundle can hold; or only the first, where they count up."""
    if ids.dtype.kind in "iu":
        # The ends are compared too, because the difference of two int64 may overflow.
        if int(ids[-1]) - int(ids[0]) == len(ids) - 1 and np.all(np.diff(ids) == 1):
            return {}, int(ids[0])
        return {"ids": ids.astype(np.int64, copy=False)}, None
    try:
        encoded = [str(each).encode() for each in ids]
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"id {error.object!r} is not valid text: {error.reason}") from error
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "starts": starts}, None


def _unpack_ids(arrays: dict[str, Array], first_id: int | None, n: int, path: Path) -> Array:
    """Take back what `_pack_ids` gave."""
    if first_id is not None and -(2**63) <= first_id <= 2**63 - n:
        return np.arange(first_id, first_id + n, dtype=np.int64)
    numbers = arrays.get("ids", np.empty(0))
    if numbers.dtype == np.int64 and numbers.shape == (n,):
        return numbers
    starts = arrays.get("starts", np.empty(0))
    if "text" not in arrays or starts.shape != (n + 1,):
        raise CorruptBundleError(f"{path} does not hold the ids of {n} items")
    content = arrays["text"].tobytes()
    ids = np.empty(n, dtype=object)
    bounds = starts.tolist()
    try:
        ids[:] = [content[a:b].decode() for a, b in pairwise(bounds)]
    except (UnicodeDecodeError, TypeError) as error:
        raise CorruptBundleError(f"{path} holds an id that is no text") from error
    return ids
