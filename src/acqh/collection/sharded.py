"""Several collections as one."""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from acqh._core.store import pack
from acqh.collection.collection import Collection
from acqh.collection.disk.model import Encoders
from acqh.collection.search.answer import Searcher
from acqh.collection.search.searchable import Searchable
from acqh.collection.types import CollectionStats
from acqh.errors import CollectionError, DuplicateIdError
from acqh.methods.state import HOMES


class ShardedCollection(Searchable):
    """Several collections with the same encoders and model, read and searched as one.

    A search finds what it would find in one collection to which all items were added, shard after
    shard: by meaning the same items, the same scores to the bit, equal scores in the order of the
    shards and within a shard of insertion. An item's score depends on its own code alone, so the
    best of all are among the best of each shard. The words of a text are found in every shard, but
    ranked by how frequent they are in each, so that a word that is rare in one weighs more there.

    Shards are changed one by one, each as a `Collection`; the next search sees it. A new shard is
    made with ``Collection.build(..., like=shard)``.

    Parameters
    ----------
    shards : sequence of Collection
        Open; closed with this.

    Raises
    ------
    CollectionError
        No shard, or one with other encoders or another model than the first.
    DuplicateIdError
        Two shards have an item of the same id. Ids that are added later are not compared: of two
        items with one id, `item` and `thumbnail` then give that of the earlier shard.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item, ShardedCollection
    >>> kinds = {"rose": "flower", "tulip": "flower", "car": "vehicle", "bus": "vehicle"}
    >>> items = [Item(text=f"a {word}", labels=[kinds[word]], id=word) for word in kinds]
    >>> folder = tempfile.TemporaryDirectory()
    >>> north = Collection.build(items, folder.name + "/north.acqh", n_components=2)
    >>> south = Collection.build([Item(text="a red bus", id="9")], folder.name + "/south.acqh",
    ...                          like=north)
    >>> with ShardedCollection([north, south]) as both:
    ...     print(len(both), sorted(hit.id for hit in both.search(text="bus", k=3).hits))
    5 ['9', 'bus', 'car']
    >>> folder.cleanup()
    """

    def __init__(self, shards: Sequence[Collection]) -> None:
        if not shards:
            raise CollectionError("there is no collection to open; give at least one")
        self._shards = tuple(shards)
        _check_alike(self._shards)
        _check_ids(self._shards)
        first = self._shards[0]
        inside = [one for shard in self._shards for one in shard._searcher.shards]
        self._searcher = Searcher(first._facts.encoders, inside)

    @classmethod
    def open(cls, paths: Sequence[str | PathLike[str]], *, verify: bool = False) -> Self:
        """Open collections as one.

        Parameters
        ----------
        paths : sequence of path-like
        verify : bool, default False
            Check everything first, which reads all of it.

        Raises
        ------
        FileNotFoundError
            There is no collection at a path.
        CorruptBundleError
            One is damaged.
        CollectionError, DuplicateIdError
            They cannot be searched as one; see the class.
        """
        with ExitStack() as opened:
            shards = [opened.enter_context(Collection.open(path, verify=verify)) for path in paths]
            whole = cls(shards)
            opened.pop_all()
        return whole

    def close(self) -> None:
        """Close all shards; safe to call twice."""
        for shard in self._shards:
            shard.close()

    def __repr__(self) -> str:
        return f"<ShardedCollection: {', '.join(shard.path.name for shard in self._shards)}>"

    @property
    def shards(self) -> tuple[Collection, ...]:
        """The collections, in order."""
        return self._shards

    @property
    def bytes_per_item(self) -> float:
        """Of the indexes, without ids."""
        n_bytes = sum(shard.bytes_per_item * len(shard) for shard in self._shards)
        return n_bytes / max(len(self), 1)

    def stats(self) -> CollectionStats:
        """Return facts about all shards together; what is counted is added up."""
        stats = [shard.stats() for shard in self._shards]
        return replace(
            stats[0],
            n_items=sum(each.n_items for each in stats),
            n_labelled=sum(each.n_labelled for each in stats),
            n_labels=len(self.labels()),
            n_thumbnails=sum(each.n_thumbnails for each in stats),
            bytes_per_item=self.bytes_per_item,
            size_on_disk=sum(each.size_on_disk for each in stats),
            coded_by=dict(sum((Counter(each.coded_by) for each in stats), Counter())),
            n_skipped=sum(each.n_skipped for each in stats),
            generation="+".join(each.generation for each in stats),
            change=sum(each.change for each in stats),
        )


def open_collections(paths: Sequence[str | PathLike[str]]) -> Searchable:
    """Open a collection, or several as one.

    Parameters
    ----------
    paths : sequence of path-like
        At least one.

    Returns
    -------
    Collection or ShardedCollection

    Raises
    ------
    FileNotFoundError, CorruptBundleError, CollectionError, DuplicateIdError
        As `Collection.open` and `ShardedCollection.open` do.
    """
    return Collection.open(paths[0]) if len(paths) == 1 else ShardedCollection.open(paths)


def _check_alike(shards: Sequence[Collection]) -> None:
    from acqh.methods import fingerprint

    first, *others = shards
    model = fingerprint(first._coder.model)
    for shard in others:
        if fingerprint(shard._coder.model) != model:
            raise CollectionError(
                f"{shard.path} has another model than {first.path}, so their scores cannot be "
                f"compared; build it again with like={str(first.path)!r}"
            )
        if not _same_encoders(shard._facts.encoders, first._facts.encoders):
            raise CollectionError(
                f"{shard.path} has other encoders than {first.path}; build it again with "
                f"like={str(first.path)!r}"
            )


def _same_encoders(one: Encoders, other: Encoders) -> bool:
    if one.by_view.keys() != other.by_view.keys():
        return False
    for view, encoder in one.by_view.items():
        description, arrays = pack(encoder, HOMES)
        other_description, other_arrays = pack(other.by_view[view], HOMES)
        if description != other_description or arrays.keys() != other_arrays.keys():
            return False
        if not all(np.array_equal(arrays[name], other_arrays[name]) for name in arrays):
            return False
    return True


def _check_ids(shards: Sequence[Collection]) -> None:
    """Refuse an id that two shards have; a few ids are in memory at a time."""

    def named(shard: Collection) -> Iterator[tuple[str, Path]]:
        return ((identifier, shard.path) for identifier in shard._store.sorted_ids())

    for (one, path), (other, other_path) in pairwise(heapq.merge(*map(named, shards))):
        if one == other:
            raise DuplicateIdError(
                f"{path} and {other_path} both have an item {one!r}; ids must differ: remove it "
                "from one of them, or build one again with other ids"
            )
