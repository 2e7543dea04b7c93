"""What one collection and several opened as one have in common: they are read and searched."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from acqh.collection.search.answer import Searcher
from acqh.collection.search.meaning import home_of
from acqh.collection.search.query import FeatureRow
from acqh.collection.search.rank import Mode
from acqh.collection.store.filters import Where
from acqh.collection.types import Answer, CollectionStats, Item
from acqh.encoders import ImageLike, image_limit
from acqh.errors import CollectionError


class Searchable(ABC):
    """Items that can be read and searched: a `Collection`, or several as one."""

    _searcher: Searcher

    @abstractmethod
    def close(self) -> None:
        """Close all files; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return sum(map(len, self._searcher.shards))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(shard.store.ids() for shard in self._searcher.shards)

    def __contains__(self, identifier: object) -> bool:
        shards = self._searcher.shards
        return isinstance(identifier, str) and any(shard.store.has(identifier) for shard in shards)

    @property
    @abstractmethod
    def bytes_per_item(self) -> float:
        """Of the index, without ids."""

    @property
    def views(self) -> tuple[str, ...]:
        """What queries may be made of: "image", "text", or the views of the data."""
        return tuple(self._searcher.shards[0].coder.maps.widths)

    def search(
        self,
        *,
        text: str | None = None,
        image: ImageLike = None,
        item: str | Sequence[str] | None = None,
        unlike: str | Sequence[str] | None = None,
        features: Mapping[str, Any] | None = None,
        weights: Mapping[str, float] | None = None,
        k: int = 10,
        where: Where = None,
        explain: bool = False,
        mode: Mode = "auto",
        max_pixels: int | None = None,
    ) -> Answer:
        """Find the items that fit a query best: that contain its words, and whose meaning is near.

        Parameters
        ----------
        text : str, optional
        image : path, bytes or PIL.Image.Image, or a list of them, optional
        item : str or list of str, optional
            Id of a stored item, or several: find others like them.
        unlike : str or list of str, optional
            Ids of stored items that are not wanted, beside something that is: their mean is
            subtracted from the query, by default with weight 0.5.
        features : mapping of str to (n_features,), optional
            A query that is described already, by view.
        weights : mapping of str to float, optional
            How much "text", "image", "item", "unlike" or a view of `features` counts, where
            several are given; 1 each by default. Of several images or items, the mean counts.
        k : int
        where : mapping, str or iterable of str, optional
            Only items for which all of this holds: ``{"label": "dog", "year": 2010}`` or
            ``["label=dog", "year=2010"]``. Of several labels an item must have all; of several
            values of a column, one. A column that no item has is refused.
        explain : bool
            Say how the scores came about.
        mode : {"auto", "words", "meaning"}
            What a text asks for. ``"words"`` finds items whose caption, name or labels have its
            words; ``"meaning"`` those whose codes score best, exactly; ``"auto"`` both, by the sum
            of their reciprocal ranks, and of a text alone first those that have all its words.
            Except by meaning, ``"a phrase"`` in quotes must occur, and ``-word`` must not; a
            word that occurs nowhere is taken for the beginning of one, or for a typo.
        max_pixels : int, optional
            A larger image is refused; 64,000,000 by default.

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
        ImageError
            The image cannot be read.
        """
        query = {"text": text, "image": image, "item": item, "unlike": unlike}
        given = {name: value for name, value in query.items() if not _is_nothing(value)}
        for name, described in (features or {}).items():
            if name in given:
                raise CollectionError(f"{name!r} is given twice; give it or its features, not both")
            if described is not None:
                given[name] = FeatureRow(described)
        with image_limit(max_pixels):
            return self._searcher.search(given, weights or {}, k, where, explain, mode)

    def warm_up(self) -> None:
        """Load what the first search by meaning would load, so that no one has to wait for it."""
        for shard in self._searcher.shards:
            shard.warm_up()

    def browse(
        self,
        *,
        where: Where = None,
        k: int = 10,
        offset: int = 0,
        order: str | None = None,
        descending: bool = False,
    ) -> Answer:
        """Return items without searching: all, or those that meet a filter.

        Parameters
        ----------
        where : mapping, str or iterable of str, optional
            As for `search`.
        k : int
        offset : int
            How many to pass over.
        order : str, optional
            A column to sort by: items without it last, then by insertion. Numbers come before
            texts.
        descending : bool
            Sort from the largest value to the smallest.

        Returns
        -------
        Answer
            Its hits have the score 0.

        Raises
        ------
        CollectionError
            No item has the column of `where` or `order`.
        """
        return self._searcher.browse(where, k, offset, order, descending)

    def item(self, identifier: str) -> Item:
        """Return an item; raise MissingItemError where there is none of that id."""
        return home_of(identifier, self._searcher.shards).store.find(identifier)[1]

    def thumbnail(self, identifier: str) -> bytes:
        """Return an item's image as WebP, its longest side 128 pixels.

        Raises
        ------
        MissingItemError
            There is no such item, or it has no image.
        """
        return home_of(identifier, self._searcher.shards).store.thumbnail(identifier)

    def labels(self) -> dict[str, int]:
        """Return how many items have each label, in alphabetical order."""
        counts: Counter[str] = Counter()
        for shard in self._searcher.shards:
            counts.update(shard.store.counts().labels)
        return dict(sorted(counts.items()))

    @abstractmethod
    def stats(self) -> CollectionStats:
        """Return facts about the items and how they are found."""


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and not value)
