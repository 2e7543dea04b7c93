"""What one collection and several opened as one have in common: they are read and searched."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from acqh.collection._search import Searcher
from acqh.collection._types import Answer, CollectionStats, StoredItem
from acqh.features import Picture


class Searchable(ABC):
    """Items that can be read and searched: a `Collection`, or several as one."""

    _searcher: Searcher

    @abstractmethod
    def close(self) -> None:
        """Close all files; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[str]: ...

    @abstractmethod
    def __contains__(self, identifier: object) -> bool: ...

    @property
    @abstractmethod
    def bytes_per_item(self) -> float:
        """Of the index, without ids."""

    @property
    @abstractmethod
    def views(self) -> tuple[str, ...]:
        """What queries may be made of: "image", "text", or the views of the data."""

    def search(
        self,
        *,
        text: str | None = None,
        image: Picture = None,
        item: str | None = None,
        features: Mapping[str, Any] | None = None,
        weights: Mapping[str, float] | None = None,
        k: int = 10,
        where: Any = None,
        explain: bool = False,
    ) -> Answer:
        """Find the items that fit a query best, exactly.

        Parameters
        ----------
        text : str, optional
        image : path, bytes or PIL.Image.Image, optional
        item : str, optional
            Id of a stored item: find others like it.
        features : mapping of str to (n_features,), optional
            A query that is described already, by view.
        weights : mapping of str to float, optional
            How much "text", "image", "item" or a view of `features` counts, where several are
            given; 1 each by default.
        k : int
        where : mapping, str or iterable of str, optional
            Only items for which all of this holds: ``{"label": "dog", "year": 2010}`` or
            ``["label=dog", "year=2010"]``. Of several labels an item must have all; of several
            values of a column, one.
        explain : bool
            Say how the scores came about.

        Returns
        -------
        Answer
            Without hits where no word of the text is known and nothing else was asked for.

        Raises
        ------
        CollectionError
            Nothing was asked for, or something that the collection cannot answer.
        MissingItemError
            There is no such item.
        PictureError
            The picture cannot be read.
        """
        query = {"text": text, "image": image, "item": item, **(features or {})}
        given = {name: value for name, value in query.items() if value is not None}
        return self._searcher.search(given, weights or {}, k, where, explain)

    @abstractmethod
    def item(self, identifier: str) -> StoredItem:
        """Return an item; raise MissingItemError where there is none of that id."""

    @abstractmethod
    def thumbnail(self, identifier: str) -> bytes:
        """Return an item's picture as WebP, its longest side 128 pixels.

        Raises
        ------
        MissingItemError
            There is no such item, or it has no picture.
        """

    @abstractmethod
    def labels(self) -> dict[str, int]:
        """Return how many items have each label, in alphabetical order."""

    @abstractmethod
    def stats(self) -> CollectionStats:
        """Return facts about the items and how they are found."""
