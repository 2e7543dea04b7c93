"""What changes a collection that is there: items added, replaced and removed."""

from collections.abc import Iterable
from typing import Any

from acqh._core.runtime import Progress, say_nothing
from acqh.collection._sync import FollowsFolder
from acqh.collection._types import AddReport
from acqh.encoders import image_limit


class Changeable(FollowsFolder):
    """Items that can be added to, replaced and removed, each change in transactions."""

    def add(
        self,
        items: Any,
        *,
        strict: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items; they are coded by their labels and by what they show and say.

        Parameters
        ----------
        items : Item, iterable of Item, path of a manifest, or MultiViewData
            Data that brings its features must have views of those the collection was built with.
        strict : bool
            Add all or nothing, and raise if an item cannot be used. Otherwise such items are
            left out, and the others added in batches, each in one transaction.
        max_pixels : int, optional
            Larger images cannot be used; 64,000,000 by default.
        progress : callable, optional
            Called with how much is done, of how much (or None), and what, when a batch is stored.

        Returns
        -------
        AddReport

        Raises
        ------
        CollectionError
            The collection cannot be changed; with `strict`, an item cannot be used.
        ReplacedError
            It was rebuilt, moved or removed since it was opened; open it again, and add all
            items again, since earlier batches went with the old one.
        OSError
            Writing failed, for example because the disk is full; the batch was not added.
        """
        return self._add(items, strict, max_pixels, progress, replace=False)

    def upsert(
        self,
        items: Any,
        *,
        strict: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items, in place of those that have the same ids.

        Takes and raises what `add` does.
        """
        return self._add(items, strict, max_pixels, progress, replace=True)

    def _add(
        self,
        items: Any,
        strict: bool,
        max_pixels: int | None,
        progress: Progress | None,
        *,
        replace: bool,
    ) -> AddReport:
        say = progress or say_nothing
        with image_limit(max_pixels):
            return self._adder.add(
                items, strict=strict, at_once=strict, replace=replace, progress=say
            )

    def remove(self, ids: str | Iterable[str]) -> int:
        """Remove items, in one transaction.

        Returns
        -------
        int
            How many.

        Raises
        ------
        MissingItemError
            An id is unknown; nothing was removed.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.
        """
        return self._store.remove([ids] if isinstance(ids, str) else ids)
