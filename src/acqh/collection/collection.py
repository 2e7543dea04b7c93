"""Collection: items, their model and their index in one folder."""

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from acqh._core.arrays import Floats, check_positive_int
from acqh._core.runtime import Progress, RandomState, say_nothing
from acqh.collection.build.changes import Changeable
from acqh.collection.disk.index import IndexCache
from acqh.collection.disk.layout import (
    INDEX,
    ITEMS,
    MODEL,
    Facts,
    check_parts,
    read_facts,
    size_on_disk,
    undisturbed,
)
from acqh.collection.disk.model import Coder
from acqh.collection.disk.replace import replacing
from acqh.collection.disk.settings import BuildSettings, Learnt
from acqh.collection.search.answer import Searcher
from acqh.collection.search.meaning import Shard
from acqh.collection.search.searchable import Searchable
from acqh.collection.store.connections import WRITE_TIMEOUT_SECONDS
from acqh.collection.store.store import Store
from acqh.collection.types import CollectionReport, CollectionStats, Item
from acqh.errors import CorruptBundleError

if TYPE_CHECKING:
    from acqh.collection.build.add import Adder
    from acqh.methods.acqh import Target


class Collection(Searchable, Changeable):
    """Items to be found by text, by image, by both, or by another item.

    A collection is a folder: the items in SQLite, the encoders and the model that describe and
    code them, and an index of the codes. Adding and removing items are transactions: what a call
    has returned from outlives a crash. Several threads and processes may use one collection at
    once; one changes it at a time, and the others see the change on their next call.

    Made by `build` and `open`, not by calling the class.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> items = [
    ...     Item(text="a red rose in the garden", labels=["flower"], id="rose"),
    ...     Item(text="a white tulip in a vase", labels=["flower"], id="tulip"),
    ...     Item(text="a fast red car", labels=["vehicle"], id="car"),
    ...     Item(text="an old car in the street", labels=["vehicle"], id="oldtimer"),
    ... ]
    >>> folder = tempfile.TemporaryDirectory()
    >>> collection = Collection.build(items, folder.name + "/things.acqh")
    >>> [hit.id for hit in collection.search(text="a tulip", k=2).hits]
    ['tulip', 'rose']
    >>> collection.labels()
    {'flower': 2, 'vehicle': 2}
    >>> collection.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, facts: Facts, store: Store) -> None:
        self._path = path
        self._facts = facts
        self._store = store
        if store.generation != self._facts.generation:
            raise CorruptBundleError(f"{store.path} belongs to another collection than {path}")
        self._coder = Coder.open(path / MODEL)
        codebooks = self._coder.maps.codebooks
        self._cache = IndexCache(store, codebooks, path / INDEX, self._facts.generation)
        self._cache.few()  # which says so at once where codes or changes are damaged
        shard = Shard(store, self._coder, self._cache)
        self._searcher = Searcher(self._facts.encoders, [shard])

    @classmethod
    def build(
        cls,
        source: Any,
        path: str | PathLike[str],
        *,
        image_encoder: Any = "auto",
        text_encoder: Any = "auto",
        n_components: int = 128,
        n_codebooks: int = 8,
        targets: "Mapping[str, float | Target] | None" = None,
        auto_labels: int | None = None,
        strict: bool = False,
        overwrite: bool = False,
        image_root: str | PathLike[str] | None = None,
        label_separator: str | None = None,
        max_pixels: int | None = None,
        random_state: RandomState = 0,
        like: "str | PathLike[str] | Collection | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Make a collection of items, and learn from their labels and content how to find them.

        Parameters
        ----------
        source : path, iterable of Item, or MultiViewData
            A manifest (CSV, TSV, JSON lines or Parquet with the columns ``image``, ``text``,
            ``labels`` separated by ``|``, ``id``; others are kept), a folder with a file
            ``manifest.csv`` or with nothing but images (see `sync`), items, or data that brings
            its features.
        path : path-like
            Folder to make. It appears when all is done, and not before.
        image_encoder : {"auto", "efficientnet", "hog", "clip:PATH"} or Encoder
        text_encoder : {"auto", "minilm", "tfidf", "clip:PATH"} or Encoder
            ``"auto"`` is the first after it that is installed; if the second, it warns.
        n_components : int
            Length of query vectors.
        n_codebooks : int
            Bytes of a code.
        targets : mapping of str to float or Target, optional
            What counts: weights of ``"labels"`` and views. By default 0.42 for labels, if any item
            has some, and the rest for the content of all views, more of images than of texts.
        auto_labels : optional
            Deprecated, and without effect: content is learnt where there are no labels.
        strict : bool
            Refuse to build if an item cannot be used, instead of leaving it out.
        overwrite : bool
            Replace the collection at the path.
        image_root : path, optional
            Folder that a manifest's images are relative to and lie in; its own by default.
        label_separator : str, optional
            What stands between a manifest's labels; see `read_items`.
        max_pixels : int, optional
            Larger images are left out; 64,000,000 by default.
        random_state : int, Generator or None
        like : Collection or path, optional
            Learn nothing: describe and code the items as this collection does its own, so that
            both can be searched as one with `ShardedCollection`. Labels are not needed then,
            and items without ids get the name of the new collection before their number, as do
            images of a folder before the name of their file.
        progress : callable, optional
            Called with how much is done, of how much (or None), and what.

        Returns
        -------
        Collection
            Open; `skipped` says what was left out, and why.

        Raises
        ------
        CollectionError
            No item can be used; with `strict`, an item cannot be used; with
            `like`, something was said about encoders or the model.
        FileExistsError
            There is something at the path.
        OSError
            Reading or writing failed; the path is as it was.
        """
        from acqh.collection.build.build import build_into

        if auto_labels is not None:
            warnings.warn(
                "auto_labels has no effect and will go: without labels the content of items is "
                "learnt; choose what counts with targets={'image': 0.5, 'text': 0.5}",
                FutureWarning,
                stacklevel=2,
            )
        settings = BuildSettings(
            image_encoder=image_encoder,
            text_encoder=text_encoder,
            n_components=n_components,
            n_codebooks=n_codebooks,
            targets=targets,
            strict=strict,
            random_state=random_state,
            image_root=image_root,
            label_separator=label_separator,
            max_pixels=max_pixels,
            like=None if like is None else _learnt_by(like),
        )
        target = Path(path)
        with replacing(target, overwrite=overwrite) as folder:
            say = progress or say_nothing
            skipped = build_into(folder, target.stem, source, settings, say)
        collection = cls.open(target)
        collection.skipped = tuple(skipped)
        return collection

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        verify: bool = False,
        timeout: float = WRITE_TIMEOUT_SECONDS,
    ) -> Self:
        """Open a collection.

        An index that is behind the items catches up; one that is damaged is made again.

        Parameters
        ----------
        path : path-like
        verify : bool, default False
            Check everything first, which reads all of it.
        timeout : float
            Seconds that a change waits while another process makes one.

        Raises
        ------
        FileNotFoundError
            There is no collection at the path.
        CorruptBundleError
            The collection is damaged.
        """
        folder = Path(path)
        if verify and (problems := _report_on(folder).problems):
            raise CorruptBundleError("; ".join(problems))
        return undisturbed(folder, lambda: cls._opened(folder, timeout), cls.close)

    @classmethod
    def _opened(cls, folder: Path, timeout: float) -> Self:
        check_parts(folder)
        facts = read_facts(folder)
        store = Store(folder / ITEMS, timeout=timeout)
        try:
            return cls(folder, facts, store)
        except BaseException:
            store.close()
            raise

    # What the build left out and why, as (what, why); empty in a collection that was opened.
    skipped: tuple[tuple[str, str], ...] = ()

    def close(self) -> None:
        """Save the index and close all files; safe to call twice."""
        if not self._store.connections.closed:
            try:
                self._cache.save()
            finally:
                self._store.close()

    def __repr__(self) -> str:
        state = "closed" if self._store.connections.closed else f"{len(self):,} items"
        return f"<Collection {self._path.name!r}: {state}>"

    @cached_property
    def _adder(self) -> "Adder":
        from acqh.collection.build.add import Adder

        return Adder(self._store, self._facts.encoders, self._coder)

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def generation(self) -> str:
        """Which build this is; `acqh.collection.generation_of` says what the path holds now."""
        return self._facts.generation

    @property
    def settings(self) -> BuildSettings | None:
        """How it was built; None for collections made before this was stored."""
        return self._facts.settings

    @property
    def bytes_per_item(self) -> float:
        """Of the index, without ids."""
        return self._cache.bytes_per_item

    @property
    def change(self) -> int:
        """Counts up with every item that is added or removed."""
        return self._store.change

    def batches(self, size: int = 4_096) -> Iterator[list[tuple[Item, bytes]]]:
        """Yield all items with their codes in order of insertion, some at a time.

        What is yielded is one state: changes that others make meanwhile do not show.

        Parameters
        ----------
        size : int, default 4,096
            Items of a batch.
        """
        pages = self._store.pages(check_positive_int(size, "size"))
        return ([(item, item.code) for item in page] for page in pages)

    def columns(self) -> dict[str, set[str]]:
        """Return what the columns of items hold.

        Returns
        -------
        dict of str to set of {"integer", "real", "text", "boolean", "null"}
            For every column that some item has. A whole number that does not fit 64 bits counts as
            "real".
        """
        return self._store.column_kinds()

    @property
    def codebooks(self) -> Floats:
        """The codebooks of the index, (n_codebooks, codebook_size, n_components) float32."""
        return self._cache.codebooks

    def stats(self) -> CollectionStats:
        """Return facts about the collection."""
        facts, store, model = self._facts, self._store, self._coder.model
        counts = store.counts()
        return CollectionStats(
            n_items=len(self._cache),
            n_labelled=counts.n_labelled,
            n_labels=len(counts.labels),
            n_thumbnails=counts.n_thumbnails,
            bytes_per_item=self.bytes_per_item,
            code_bytes=self._coder.code_bytes,
            size_on_disk=size_on_disk(self._path) if store.connections.in_place() else 0,
            encoders={view: repr(each) for view, each in facts.encoders.by_view.items()},
            method=model.info.title,
            n_components=model.n_components,
            n_codebooks=model.n_codebooks,
            n_trained=facts.n_trained,
            trained_on=facts.trained_on,
            coded_by=counts.coded_by,
            n_skipped=facts.n_skipped,
            generation=facts.generation,
            change=counts.change,
            version=facts.version,
            settings=None if facts.settings is None else facts.settings.stored(),
        )

    def verify(self) -> CollectionReport:
        """Check every byte of the collection, and that its parts agree.

        Raises
        ------
        ReplacedError
            Another collection has its path by now.
        """
        self._store.connections.check_in_place()
        return _report_on(self._path)


def _learnt_by(like: str | PathLike[str] | Collection) -> Learnt:
    if not isinstance(like, Collection):
        with Collection.open(like) as opened:
            return _learnt_by(opened)
    facts = like._facts
    learnt = facts.encoders, like._coder.model, facts.trained_on, facts.n_trained
    return Learnt(*learnt, facts.name, facts.settings)


def _report_on(folder: Path) -> CollectionReport:
    from acqh.collection.disk.verify import verify_collection

    return verify_collection(folder)
