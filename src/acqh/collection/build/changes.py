"""What changes a collection that is there: items added, replaced and removed."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.runtime import Progress, say_nothing
from acqh.collection.build.sync import FollowsFolder
from acqh.collection.types import AddReport, Item
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

        An item that follows a file of a folder goes on doing so; given anew without an image, it
        keeps the one it has. Takes and raises what `add` does.
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

    def label(
        self,
        items: Any,
        *,
        label_separator: str | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Give items that are there texts, labels and columns; their images are not read.

        What is not given, such as an empty text, stays as it is. Texts and labels that the model
        knows become part of how items are found by meaning: those without an image are coded anew,
        and the code of one with an image moves most of the way to that of its text and labels.

        Parameters
        ----------
        items : Item, iterable of Item, or path
            Or a table (CSV, TSV, JSON lines or Parquet) with a column ``id``, ``file`` or
            ``image``, and any of ``text``, ``labels`` and others, which become columns.
        label_separator : str, optional
            What stands between the labels of a table; see `read_items`.
        progress : callable, optional
            Called with how much is done, of how much (or None), and what.

        Returns
        -------
        AddReport
            The ids of the items, and what was left out since there is no such item.

        Raises
        ------
        CollectionError
            The table does not say which items are meant; or the collection cannot be changed.
        ReplacedError
            It was rebuilt, moved or removed since it was opened.

        Examples
        --------
        >>> import tempfile
        >>> from acqh.collection import Collection, Item
        >>> folder = tempfile.TemporaryDirectory()
        >>> items = [Item(text="a red rose", id="a"), Item(text="a fast car", id="b")]
        >>> collection = Collection.build(items, folder.name + "/c.acqh", text_encoder="tfidf")
        >>> collection.label(Item(id="a", labels=["flower"])).ids
        ('a',)
        >>> collection.item("a").text, collection.item("a").labels
        ('a red rose', ('flower',))
        >>> collection.close()
        >>> folder.cleanup()
        """
        from acqh.collection.sources.manifest import read_labels

        if isinstance(items, str | PathLike):
            items = read_labels(Path(items), label_separator)
        given = [items] if isinstance(items, Item) else items
        return self._adder.label(given, keep=True, progress=progress or say_nothing)

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
