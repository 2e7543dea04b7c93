"""A folder of parts: each part a bundle, and the folder one too.

The folder's own manifest says what the parts are made with and, once all are made, how many there
are. A part's manifest says which one it is. So a part that is there is whole and known, and what a
killed writer left is not a part.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import read_bundle, write_bundle

_MEMBER = "part"

# A named tuple of arrays with a row per item.
PartT = TypeVar("PartT", bound=tuple[Array, ...])


@dataclass(frozen=True, kw_only=True)
class Plan(ABC, Generic[PartT]):
    """What the parts of a folder are made with, and how many there are once all are made.

    A kind of parts has a plan of its own, which also says how they are stored.
    """

    kind: ClassVar[str]
    part_kind: ClassVar[str]
    # What the parts hold, for messages.
    content: ClassVar[str]
    # Which array of a part has the ids of what it was made of.
    ids_name: ClassVar[str] = "ids"

    model: str
    chunk_size: int | None
    source: str | None = None
    n_items: int | None = None
    n_parts: int | None = None

    @abstractmethod
    def pack(self, part: PartT) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arrays of a part as a bundle can hold them, and what else has to be kept."""

    @abstractmethod
    def unpack(
        self, arrays: dict[str, Array], info: Mapping[str, Any], n_rows: int, path: Path
    ) -> PartT:
        """Take back what `pack` gave; raise CorruptBundleError where it cannot be."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a folder's plan.

        Raises FileNotFoundError: there is none. Raises CorruptBundleError: it is damaged. Raises
        InvalidInputError: the folder is a bundle of something else.
        """
        info = {"source": None, **read_bundle(folder, kind=cls.kind).info}
        types = get_type_hints(cls)
        known = {field.name: types[field.name] for field in fields(cls)}
        if info.keys() != known.keys() or not all(
            isinstance(info[name], kind) for name, kind in known.items()
        ):
            raise CorruptBundleError(f"{folder} does not describe parts of {cls.content}")
        return cls(**info)

    def write(self, folder: Path) -> None:
        """Put the plan in place of the one before."""
        write_bundle(folder, kind=self.kind, info=asdict(self), arrays={})


@dataclass(frozen=True)
class Place:
    """Where a part stands among all items."""

    number: int
    first_row: int
    n_rows: int


def places(sizes: Iterable[int]) -> Iterator[Place]:
    """Yield the places of parts of these numbers of items."""
    first_row = 0
    for number, size in enumerate(sizes):
        yield Place(number, first_row, size)
        first_row += size


@dataclass(frozen=True)
class PartFolder(Generic[PartT]):
    """Where parts are, and what they are made with."""

    path: Path
    plan: Plan[PartT]

    def begin(self) -> None:
        """Write the plan, or find that the folder has the same already.

        Raises InvalidInputError: the folder has another: its parts were made otherwise.
        """
        try:
            there = type(self.plan).read(self.path)
        except FileNotFoundError:
            self.plan.write(self.path)
            return
        for field in fields(self.plan):
            old, new = getattr(there, field.name), getattr(self.plan, field.name)
            if old != new and field.name not in ("n_items", "n_parts"):
                self._refuse(field.name, old, new)

    def _refuse(self, name: str, old: Any, new: Any) -> None:
        if name == "source":
            # Of chunks that were given one after the other nothing is known beforehand.
            if old is None or new is None:
                return
            raise InvalidInputError(
                f"{self.path} was begun with another source: names, sizes, numbers of rows or "
                "times of modification of its files differ; choose another folder"
            )
        if name in ("model", "index"):
            raise InvalidInputError(
                f"{self.path} holds {self.plan.content} of another {name} ({old[:12]}, this one is "
                f"{new[:12]}); go on with that {name}, or choose another folder"
            )
        raise InvalidInputError(
            f"{self.path} was begun with {name}={old}, not {new}; go on with {name}={old}, or "
            "choose another folder"
        )

    def finish(self, n_items: int, n_parts: int) -> None:
        """Note that all parts are there.

        Raises InvalidInputError: there are no items, or parts of others.
        """
        if n_items == 0:
            raise InvalidInputError("there are no items: the source is empty")
        if self.part_path(n_parts).exists():
            raise InvalidInputError(
                f"{self.path} has parts after the {n_items} items of the source; they are of "
                "another source: choose another folder"
            )
        replace(self.plan, n_items=n_items, n_parts=n_parts).write(self.path)

    def part_path(self, number: int) -> Path:
        """Return the folder of the part of this number."""
        return self.path / f"part-{number:08d}"

    def write(self, place: Place, part: PartT) -> None:
        """Write a part, in one step."""
        arrays, kept = self.plan.pack(part)
        info = {**asdict(place), "model": self.plan.model, **kept}
        path, kind = self.part_path(place.number), self.plan.part_kind
        write_bundle(path, kind=kind, info=info, arrays={_MEMBER: arrays})

    def read(self, number: int) -> tuple[Place, PartT]:
        """Read a part and every one of its bytes.

        Raises FileNotFoundError: there is no whole part. Raises CorruptBundleError: it is damaged,
        or of another model.
        """
        plan, path = self.plan, self.part_path(number)
        bundle = read_bundle(path, kind=plan.part_kind, verify=True)
        match bundle.info:
            case {
                "number": int(said),
                "first_row": int(first_row),
                "n_rows": int(n_rows),
                "model": plan.model,
            }:
                part = plan.unpack(bundle.arrays(_MEMBER), bundle.info, n_rows, path)
                return Place(said, first_row, n_rows), part
        raise CorruptBundleError(f"{path} does not hold {plan.content} of the folder's model")

    def is_there(self, place: Place, ids: Array | None = None) -> bool:
        """Whether a part is there already; raises where it is another or damaged.

        `ids` are those that it must have been made of, where the source was read anyway.
        """
        path = self.part_path(place.number)
        try:
            there, part = self.read(place.number)
        except FileNotFoundError:
            return False
        except CorruptBundleError as error:
            raise CorruptBundleError(f"{error}; remove {path} to have it made again") from error
        made_of = getattr(part, self.plan.ids_name)
        if there != place or not (ids is None or np.array_equal(made_of, ids)):
            raise InvalidInputError(
                f"{path} holds other items than the source has there: {there.n_rows} from row "
                f"{there.first_row}, not {place.n_rows} from row {place.first_row}, or other ids; "
                "give the same source, cut alike, or choose another folder"
            )
        return True


class Parts(Generic[PartT]):
    """Parts of a folder, read one at a time.

    Parameters
    ----------
    path : path-like
        The folder.
    plan : Plan
        That of the folder.
    verify : bool, default False
        Read every part now.
    """

    def __init__(
        self, path: str | PathLike[str], plan: Plan[PartT], *, verify: bool = False
    ) -> None:
        self.path = Path(path)
        if plan.n_items is None or plan.n_parts is None:
            raise InvalidInputError(
                f"{self.path} has not finished; run it again to go on where it stopped"
            )
        self._folder = PartFolder(self.path, plan)
        self.model = plan.model
        self.chunk_size = plan.chunk_size
        self.n_parts = plan.n_parts
        self._n_items = plan.n_items
        if verify:
            self.verify()

    def __len__(self) -> int:
        return self._n_items

    def __iter__(self) -> Iterator[PartT]:
        return self.rows(0, len(self))

    def rows(self, start: int, stop: int) -> Iterator[PartT]:
        """Yield some of the items, by their row in all parts; read no part that has none of them.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Yields
        ------
        part
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
            if not (place.first_row == row or (row == start and place.first_row < row < end)):
                raise CorruptBundleError(f"{self._folder.part_path(number)} is not that part")
            if end > len(self) or (end == len(self)) != (number == self.n_parts - 1):
                raise CorruptBundleError(f"the parts of {self.path} do not have {len(self)} items")
            wanted = slice(row - place.first_row, min(stop, end) - place.first_row)
            yield type(part)(*(array[wanted] for array in part))
            row, number = min(stop, end), number + 1

    def to_arrays(self) -> PartT:
        """Return all parts put together as one, in memory.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        parts = list(self)
        return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def verify(self) -> None:
        """Read every byte of every part.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names the first.
        """
        for _ in self:
            pass

    def _read(self, number: int) -> tuple[Place, PartT]:
        path = self._folder.part_path(number)
        try:
            place, part = self._folder.read(number)
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{path} is missing") from error
        if place.number != number:
            raise CorruptBundleError(f"{path} is not the part of that number")
        return place, part

    def _first_row(self, number: int) -> int:
        path, plan = self._folder.part_path(number), self._folder.plan
        try:
            first_row = read_bundle(path, kind=plan.part_kind).info.get("first_row")
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{path} is missing") from error
        if not isinstance(first_row, int):
            raise CorruptBundleError(f"{path} does not describe a part of {plan.content}")
        return first_row
