"""Several indexes searched as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int, take_in
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError
from acqh.index import CodeIndex, SearchResult
from acqh.index.items.checks import as_queries
from acqh.index.items.filters import read_mask
from acqh.index.search.rerank import candidate_count, rank_again
from acqh.io import read_bundle, write_bundle

_KIND = "code-shards"


class ShardedIndex:
    """Several indexes of the same codebooks, searched as one.

    A search finds what one `CodeIndex` of all items would find, had they been added shard after
    shard: the same ids, the same scores to the bit, equal scores in the order of the shards and
    within a shard of insertion. An item's score depends on its own code alone, so the best of all
    are among the best of each shard.

    Parameters
    ----------
    shards : sequence of CodeIndex or path-like
        At least one. Paths are opened mapped: they are read as they are searched. Indexes must not
        be changed from here on.
    check_ids : bool, default True
        Refuse an id that two shards have. Reads every id, 8 bytes per item for numbers of one
        shard at a time; where the ranges of ids overlap, all ids are sorted in memory. Without the
        check an id may be found twice.

    Raises
    ------
    InvalidInputError
        No shard, other codebooks than the first shard's, or numbers in one and texts in another.
    DuplicateIdError
        Two shards have the same id.
    FileNotFoundError, CorruptBundleError
        A path without an index, or with a damaged one.

    Examples
    --------
    >>> codebooks = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> north = CodeIndex(codebooks).add([[0], [1]], ids=["a", "b"])
    >>> south = CodeIndex(codebooks).add([[0]], ids=["c"])
    >>> ShardedIndex([north, south]).search([[1.0, 0.5]], k=3).ids
    array([['a', 'c', 'b']], dtype=object)
    """

    def __init__(
        self, shards: Sequence[CodeIndex | str | PathLike[str]], *, check_ids: bool = True
    ) -> None:
        if isinstance(shards, str | PathLike | CodeIndex) or len(shards) == 0:
            raise InvalidInputError(f"shards must be a list of indexes or paths, got {shards!r}")
        self._shards = tuple(
            shard if isinstance(shard, CodeIndex) else CodeIndex.load(shard) for shard in shards
        )
        self._check_alike()
        if check_ids:
            _check_ids(self._shards)

    @classmethod
    def load(cls, path: str | PathLike[str], *, verify: bool = False) -> Self:
        """Open the shards of a folder that `build_shards` made, mapped.

        Parameters
        ----------
        path : path-like
        verify : bool, default False
            Read every byte, and compare all ids again.

        Returns
        -------
        ShardedIndex

        Raises
        ------
        FileNotFoundError
            There is no such folder.
        InvalidInputError
            Its shards were not finished, or it holds something else.
        CorruptBundleError
            A shard is damaged, missing, or not of the folder.
        """
        folder = ShardFolder.read(Path(path))
        try:
            shards = [CodeIndex.load(shard, verify=verify) for shard in folder.paths]
        except FileNotFoundError as error:
            raise CorruptBundleError(f"a shard of {folder.path} is missing: {error}") from error
        opened = cls(shards, check_ids=verify)
        if len(opened) != folder.n_items:
            raise CorruptBundleError(
                f"the shards of {folder.path} have {len(opened)} items, not {folder.n_items}"
            )
        return opened

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def __contains__(self, identifier: object) -> bool:
        return any(identifier in shard for shard in self._shards)

    def __repr__(self) -> str:
        return f"<ShardedIndex: {len(self)} items in {len(self._shards)} shards>"

    @property
    def shards(self) -> tuple[CodeIndex, ...]:
        """The indexes, in order."""
        return self._shards

    @property
    def codebooks(self) -> Floats:
        """The codebooks, (n_codebooks, codebook_size, n_components) float32, read-only."""
        return self._shards[0].codebooks

    @property
    def bytes_per_item(self) -> float:
        """Bytes that an item takes in its shard, without its id, on average."""
        total = sum(shard.bytes_per_item * len(shard) for shard in self._shards)
        return total / max(1, len(self))

    @property
    def ids(self) -> Array:
        """The ids, shard after shard: (n_items,) int64, or object for texts."""
        return np.concatenate([shard.ids for shard in self._filled()])

    def search(
        self,
        queries: Any,
        k: int,
        filter: Any = None,  # noqa: A002
        n_threads: int | None = None,
        *,
        budget: int | None = None,
        epsilon: float | None = None,
        recall: float | None = None,
        rerank: Any = None,
        rerank_k: int | None = None,
    ) -> SearchResult:
        """Find the items of highest score in all shards.

        Parameters
        ----------
        queries : (n_queries, n_components) floats
            Used as float32.
        k : int
            How many items to find for each query, at least 1.
        filter : callable, (n_items,) bool, or iterable of ids, optional
            As in `CodeIndex.search`; masks, and the ids a callable gets, are in the order of `ids`.
        n_threads : int, optional
            Threads to share the queries among, one shard after the other; as many as there are
            cores, if not given.
        budget, epsilon, recall
            When to stop early, as in `CodeIndex.search`; shards share the budget by their sizes.
        rerank, rerank_k
            Full vectors to rank the best of all shards by again, as in `CodeIndex.search`; an array
            has items in the order of `ids`.

        Returns
        -------
        SearchResult
            Its ``scored`` and ``seen`` are the sums over all shards.

        Raises
        ------
        InvalidInputError
            As `CodeIndex.search` does.
        """
        queries, give_back = take_in(queries)
        k = check_positive_int(k, "k")
        n_found = candidate_count(k, rerank, rerank_k)
        shards = self._filled()
        filters = self._split_filter(filter, shards)
        budgets = _share(budget, [len(shard) for shard in shards])
        found = [
            shard.search(
                queries, n_found, each, n_threads, budget=part, epsilon=epsilon, recall=recall
            )
            for shard, each, part in zip(shards, filters, budgets, strict=True)
        ]
        merged = SearchResult.merge(found, n_found)
        if rerank is not None:
            places = np.full(merged.ids.shape, -1, dtype=np.int64)
            listed = np.arange(n_found) < merged.counts[:, np.newaxis]
            places[listed] = self.places(merged.ids[listed])
            rows = as_queries(queries, self.codebooks.shape[2])
            merged = rank_again(merged, places, len(self), rows, k, rerank)
        return merged.as_kind(give_back)

    def places(self, ids: Any) -> Ints:
        """Return where items stand in the order of `ids`, -1 for those that are not there.

        Parameters
        ----------
        ids : iterable of n whole numbers or of n str

        Returns
        -------
        (n,) int64
        """
        wanted = list(ids)
        places, before = np.full(len(wanted), -1, dtype=np.int64), 0
        for shard in self._filled():
            found = shard.places(wanted)
            places = np.where(found >= 0, found + before, places)
            before += len(shard)
        return places

    def _filled(self) -> tuple[CodeIndex, ...]:
        """Return the shards with items, or one without: an empty one knows no kind of ids."""
        return tuple(shard for shard in self._shards if len(shard)) or self._shards[:1]

    def _check_alike(self) -> None:
        for number, shard in enumerate(self._shards):
            if not np.array_equal(shard.codebooks, self.codebooks):
                raise InvalidInputError(
                    f"shard {number} has other codebooks than shard 0, so their scores cannot be "
                    "compared; all shards must be made with one model"
                )
        if len({shard.id_kind for shard in self._filled()}) > 1:
            raise InvalidInputError("ids are numbers in one shard and texts in another")

    def _split_filter(self, filter_: Any, shards: Sequence[CodeIndex]) -> list[Any]:
        """Return what each shard's search needs of a filter."""
        if filter_ is None:
            return [None] * len(shards)
        mask = read_mask(filter_, lambda: self.ids, len(self))
        if mask is None:
            # An iterator can be read only once, and every shard needs it.
            wanted = list(filter_) if isinstance(filter_, Iterator) else filter_
            return [wanted] * len(shards)
        ends = accumulate((len(shard) for shard in shards), initial=0)
        return [mask[start:stop] for start, stop in pairwise(ends)]


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards; a bundle itself, which says how many there are once all are."""

    path: Path
    n_shards: int
    n_items: int

    @property
    def paths(self) -> list[Path]:
        """Where each shard is."""
        return [self.path / f"shard-{number:05d}" for number in range(self.n_shards)]

    def write(self, *, is_finished: bool) -> None:
        """Say of the folder, which is made if it is not there, whether all shards are."""
        info = {"n_shards": self.n_shards, "n_items": self.n_items, "is_finished": is_finished}
        write_bundle(self.path, kind=_KIND, info=info, arrays={})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what a folder of finished shards says of itself; raises as `ShardedIndex.load`."""
        match read_bundle(path, kind=_KIND).info:
            case {
                "n_shards": int(n_shards),
                "n_items": int(n_items),
                "is_finished": bool(finished),
            }:
                if finished:
                    return cls(path, n_shards, n_items)
                raise InvalidInputError(f"the shards of {path} were not finished; build them again")
        raise CorruptBundleError(f"{path} does not describe shards")


def _share(budget: int | None, sizes: Sequence[int]) -> list[int | None]:
    """Split a budget by sizes, rounded up."""
    if budget is None:
        return [None] * len(sizes)
    budget, total = check_positive_int(budget, "budget"), max(sum(sizes), 1)
    return [max(-(-budget * size // total), 1) for size in sizes]


def _check_ids(shards: Sequence[CodeIndex]) -> None:
    """Refuse an id that two shards have."""
    spans = []
    for shard in shards:
        if len(shard):
            ids = shard.ids
            spans.append((ids.min(), ids.max()))
    if all(before[1] < after[0] for before, after in pairwise(sorted(spans))):
        return
    ids = np.sort(np.concatenate([shard.ids for shard in shards if len(shard)]))
    repeats = np.flatnonzero(ids[1:] == ids[:-1])
    if repeats.size:
        first = ids[repeats[:1]].tolist()[0]
        raise DuplicateIdError(
            f"id {first!r} is in more than one shard ({repeats.size} such); ids must "
            "differ from one another"
        )
