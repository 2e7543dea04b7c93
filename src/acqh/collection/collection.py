"""Collection: items, their model and their index in one folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from acqh._core.arrays import Floats, check_positive_int
from acqh._core.runtime import Progress, RandomState, no_progress, suggest_keywords
from acqh.collection.generations import new_generation, size_on_disk
from acqh.collection.model import site_key_of
from acqh.collection.opened import OpenCollection, Opened
from acqh.collection.search.query import FeatureRow, Where, browse, search
from acqh.collection.store import items as stored
from acqh.collection.store.file import WRITE_TIMEOUT_SECONDS, Store, read_revision, read_text
from acqh.collection.store.tracked import remove_items, tracked_folders
from acqh.collection.types import (
    AddReport,
    Answer,
    BuildSettings,
    CollectionInfo,
    CollectionReport,
    DuplicateGroup,
    Item,
    Mode,
    OcrMode,
    SyncReport,
)
from acqh.encoders.images import ImageLike, image_limit
from acqh.encoders.network import batches
from acqh.errors import CollectionError, CorruptBundleError, InvalidInputError
from acqh.quantize import Drift

if TYPE_CHECKING:
    from acqh.methods.acqh import Target


class Collection(OpenCollection):
    """Items that can be searched by text, by image, by both, or by a similar item.

    A collection is a folder with the items in an SQLite database, the encoders, the model, and an
    index of the codes. Changes are transactions: after a call returns, its changes survive a
    crash. Several threads and processes can use one collection at the same time. One of them
    changes it at a time; the others see the change in their next call.

    Use `build` or `open` to get a collection.

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

    @classmethod
    @suggest_keywords
    def build(
        cls,
        source: Any,
        path: str | PathLike[str],
        *,
        image_encoder: Any = "auto",
        text_encoder: Any = "auto",
        language: str = "auto",
        n_components: int | None = None,
        n_codebooks: int = 8,
        targets: "Mapping[str, float | Target] | None" = None,
        strict: bool = False,
        overwrite: bool = False,
        image_root: str | PathLike[str] | None = None,
        label_separator: str | None = None,
        max_pixels: int | None = None,
        ocr: OcrMode | None = None,
        random_state: RandomState = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Build a collection: encode items, train a model on labels and content, and index them.

        Parameters
        ----------
        source : path, iterable of Item, or MultiViewData
            A table, a folder with ``manifest.csv``, a folder of images (see `sync`), a file of
            vectors, items, or data with features. A table is CSV, TSV, JSON lines or Parquet. Its
            columns are ``image``, ``text``, ``labels`` separated by ``|``, and ``id``. Other
            columns become fields.
        path : path-like
            Folder to create. It appears when the build is complete.
        image_encoder : str or Encoder
        text_encoder : str or Encoder
            Names as of `acqh.encoders.make_encoder`: ``"auto"``, ``"efficientnet"``, ``"hog"``,
            ``"minilm"``, ``"tfidf"``, or for both a CLIP model such as ``"siglip"`` or a folder.
        language : str, default "auto"
            Language of the texts as an ISO 639-1 code, such as ``"de"``; ``"auto"`` detects it for
            each text. All languages but English need the extra ``languages``.
        n_components : int, optional
            Length of query vectors. Default: 256 with the built-in image-text model, otherwise 128.
        n_codebooks : int
            Bytes of a code.
        targets : mapping of str to float or Target, optional
            Weights of ``"labels"`` and views. Default: 0.42 for labels if any item has labels, and
            the rest for the content of all views, with more weight on images than on texts.
        strict : bool
            Raise an error if an item cannot be used, instead of skipping it.
        overwrite : bool
            Replace the collection at the path.
        image_root : path, optional
            Folder that contains the images of a table. Paths in the table are relative to it.
            Default: the folder of the table.
        label_separator : str, optional
            Separator of the labels in a table. Default: a vertical bar.
        max_pixels : int, optional
            Larger images are skipped. Default: 64,000,000.
        ocr : {"documents", "all"}, optional
            Read the text in images, here and when items are added: in images that look like
            documents or screenshots, or in all. It is searched like keywords. Needs the extra
            ``ocr``.
        random_state : int, Generator or None
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Returns
        -------
        Collection
            The open collection. `skipped` lists skipped items and the reasons.

        Raises
        ------
        CollectionError
            No item can be used; with `strict`, an item cannot be used.
        FileExistsError
            The path exists.
        OSError
            Reading or writing failed. The path is unchanged.
        """
        from acqh.collection.build.build import build_into

        if ocr not in (None, *get_args(OcrMode)):
            raise InvalidInputError(f"ocr must be 'documents', 'all' or None, got {ocr!r}")
        settings = BuildSettings(
            image_encoder=image_encoder,
            text_encoder=text_encoder,
            language=language,
            n_components=n_components,
            n_codebooks=n_codebooks,
            targets=targets,
            strict=strict,
            random_state=random_state,
            image_root=image_root,
            label_separator=label_separator,
            max_pixels=max_pixels,
            ocr=ocr,
        )
        target = Path(path)
        with new_generation(target, overwrite=overwrite) as folder:
            report = progress or no_progress
            key = site_key_of(target)
            skipped = build_into(folder, target.stem, source, settings, report, site_key=key)
        collection = cls.open(target)
        collection.skipped = tuple(skipped)
        return collection

    def retrain(self, *, progress: Progress | None = None) -> Self:
        """Retrain the model on all current items, and encode them again.

        The new generation replaces the old one in one step at the end. Until then searches use the
        old one, and changes wait. Images are encoded again from the files in tracked folders, or
        from the thumbnails if there is no such file. Ids, texts, labels, fields and thumbnails are
        kept.

        Parameters
        ----------
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Returns
        -------
        Collection
            The new collection, open. This object uses the old generation until its next change.

        Raises
        ------
        CollectionError
            The collection was built from features, which it does not store. Build it again.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.
        """
        from acqh.collection.build.build import build_into, kept_items

        report = progress or no_progress

        def retrain(old: Opened) -> list[tuple[str, str]]:
            facts, build = old.facts, old.lease.pointer.build
            if not facts.encoders:
                raise CollectionError(
                    f"{self.path} was built from features, which it does not store; build it again "
                    "from all features with overwrite=True (--overwrite)"
                )
            with (
                old.store.holding(),
                new_generation(self.path, overwrite=True, build=build) as folder,
            ):
                key, items = facts.site_key, kept_items(old.store)
                return build_into(
                    folder, facts.name, items, facts.settings, report, site_key=key, old=old
                )

        skipped = self.apply(retrain)
        collection = self.open(self.path)
        collection.skipped = tuple(skipped)
        return collection

    @classmethod
    @suggest_keywords
    def open(
        cls,
        path: str | PathLike[str],
        *,
        verify: bool = False,
        timeout: float = WRITE_TIMEOUT_SECONDS,
        query_encoder: Literal["default", "fast"] = "default",
    ) -> Self:
        """Open a collection.

        An index that is older than the items is updated; a damaged one is rebuilt.

        Parameters
        ----------
        path : path-like
        verify : bool, default False
            Verify the whole collection first. This reads all files.
        timeout : float
            Number of seconds that a change waits for changes of other processes.
        query_encoder : {"default", "fast"}, default "default"
            Encoder of query texts. "default": the one that the collection was built with. "fast":
            static token embeddings instead of MiniLM. They take microseconds, with a slightly
            lower recall.

        Raises
        ------
        FileNotFoundError
            There is no collection at the path.
        CorruptBundleError
            The collection is damaged.
        CollectionError
            `query_encoder` is "fast", but the collection was not built with MiniLM.
        """
        if query_encoder not in ("default", "fast"):
            raise CollectionError(
                f"query_encoder must be 'default' or 'fast', got {query_encoder!r}"
            )
        folder = Path(path)
        if verify and (problems := _report_on(folder).problems):
            raise CorruptBundleError("; ".join(problems))
        return cls(folder, timeout, query_encoder == "fast")

    # Items that the build skipped, as (item, reason); empty in a collection that was opened.
    skipped: tuple[tuple[str, str], ...] = ()

    def close(self) -> None:
        """Save the index and close all files; safe to call twice."""
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._store.closed else f"{len(self):,} items"
        return f"<Collection {self.path.name!r}: {state}>"

    def __len__(self) -> int:
        opened = self.opened
        with opened.store.reading() as connection:
            return len(opened.index.at(connection))

    def __iter__(self) -> Iterator[str]:
        last = 0
        while True:
            with self._store.reading() as connection:
                page = stored.ids_after(connection, last)
            if not page:
                return
            last = page[-1][0]
            yield from (identifier for _, identifier in page)

    def __contains__(self, identifier: object) -> bool:
        with self._store.reading() as connection:
            return isinstance(identifier, str) and bool(stored.find_number(connection, identifier))

    @property
    def _store(self) -> Store:
        return self.opened.store

    @property
    def path(self) -> Path:
        """Path of the collection's folder."""
        return self.opened.lease.path

    @property
    def generation(self) -> str:
        """Identifier of the build; it changes when the collection is rebuilt."""
        return self.opened.facts.generation

    @property
    def settings(self) -> BuildSettings:
        """Settings of the build."""
        return self.opened.facts.settings

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views that queries can have: "image", "text", or the views of the data."""
        return tuple(self.opened.coder.maps.widths)

    @property
    def bytes_per_item(self) -> float:
        """Bytes of the index per item without ids; of a small index, the bytes of a code."""
        return self.opened.index.bytes_per_item

    @property
    def revision(self) -> int:
        """Number of changes; it grows with every item that is added or removed."""
        with self._store.reading() as connection:
            return read_revision(connection)

    @property
    def drift(self) -> Drift:
        """Quantization error of the items added since the build, relative to the expected error."""
        opened = self.opened
        with opened.store.reading() as connection:
            return stored.read_drift(connection, opened.facts.expected_error)

    @property
    def codebooks(self) -> Floats:
        """The codebooks of the index, (n_codebooks, codebook_size, n_components) float32."""
        return self.opened.index.codebooks

    @suggest_keywords
    def search(
        self,
        text: str | None = None,
        *,
        image: ImageLike = None,
        item: str | Sequence[str] | None = None,
        unlike: str | Sequence[str] | None = None,
        vector: Mapping[str, Any] | None = None,
        weights: Mapping[str, float] | None = None,
        where: Where = None,
        k: int = 10,
        mode: Mode = "hybrid",
        dates: bool = True,
        language: str = "auto",
        explain: bool = False,
        max_pixels: int | None = None,
    ) -> Answer:
        """Return the items that match a query best, by keywords and by semantic similarity.

        Parameters
        ----------
        text : str, optional
        image : path, bytes or PIL.Image.Image, or a list of them, optional
        item : str or list of str, optional
            Id of a stored item, or several: find others like them.
        unlike : str or list of str, optional
            Ids of items to move away from: their mean is subtracted from the query, by default
            with weight 0.5. Needs another part of the query.
        vector : mapping of str to (n_features,), optional
            Precomputed features of the query, by view.
        weights : mapping of str to float, optional
            Weights of "text", "image", "item", "unlike" or a view of `vector`, if the query has
            several. Default: 1 each. Only ratios count; of several images or items, the mean.
        where : mapping, str or iterable of str, optional
            Restrict the search to items that meet all conditions, such as
            ``{"label": "dog", "year": 2010}`` or ``["label=dog", "year=2010"]``. An item must have
            all of several labels, and one of several values of a field. Fields and labels that no
            item has are rejected. A text also matches the number or boolean that it spells, as in
            ``"favourite=true"``. Operators are ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` and
            ``~`` (contains), also as ``{"date>=": "2023-01-31"}``. Detected metadata have the
            names ``date``, ``kind`` and ``tag``; ``date=2021-07`` is the whole month.
        k : int, default 10
            Number of hits.
        mode : {"hybrid", "keyword", "semantic"}, default "hybrid"
            How a text is searched. ``"keyword"`` finds items whose caption, name or labels contain
            its words. ``"semantic"`` finds items whose codes have the highest scores, exactly.
            ``"hybrid"`` adds both: the confidence by semantic similarity, plus 1 for items with
            every word (less for some). Except in ``"semantic"``, ``"a phrase"`` in quotes must
            occur, unless no item has it, and ``-word`` must not. A word that no item has counts as
            a prefix or a typo. ``"hybrid"`` also corrects typos of words that MiniLM knows, and
            moves away from ``-word`` and from what follows "not" or "without".
        dates : bool, default True
            Understand a date in the text as a filter, such as "march 2022", "summer 2021",
            "2021" or "last week", also in German and French; see `Answer.filters`. Words in quotes
            and mode ``"semantic"`` are not changed.
        language : str, default "auto"
            Language of the text as an ISO 639-1 code, such as ``"de"``; ``"auto"`` detects texts
            that are not English. All languages but English need the extra ``languages``; without
            it, such a text is searched by keywords only, and the answer says so.
        explain : bool, default False
            Also return the parts of the scores.
        max_pixels : int, optional
            Larger images are rejected. Default: 64,000,000.

        Returns
        -------
        Answer
            Without hits if the query is a text without any known word.

        Raises
        ------
        CollectionError
            The query is empty, or the collection cannot answer it.
        MissingItemError
            An id is unknown.
        ImageError
            The image cannot be read.
        """
        query = {"text": text, "image": image, "item": item, "unlike": unlike}
        parts = {
            name: value
            for name, value in query.items()
            if value is not None and not (isinstance(value, list | tuple) and not value)
        }
        for name, row in (vector or {}).items():
            if name in parts:
                raise CollectionError(f"{name!r} is given twice; pass {name}= or vector=, not both")
            if row is not None:
                parts[name] = FeatureRow(row)
        with image_limit(max_pixels) if image is not None else nullcontext():
            return search(
                self.opened, parts, weights or {}, k, where, explain, mode, dates, language
            )

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
            Number of items to skip.
        order : str, optional
            A field to sort by, or ``"date"``, which may be detected: items without it last, then
            by insertion. Numbers come before texts.
        descending : bool
            Sort from the largest value to the smallest.

        Returns
        -------
        Answer
            The score of all hits is 0.

        Raises
        ------
        CollectionError
            No item has the field or label of `where`, or the field of `order`.
        """
        return browse(self.opened, where, k, offset, order, descending)

    def add(
        self,
        items: Any,
        *,
        strict: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items, encoded from their labels, images and texts.

        Parameters
        ----------
        items : Item, iterable of Item, path of a table, or MultiViewData
            The views of data with features must be views of the collection.
        strict : bool
            Add all items or none, and raise an error if an item cannot be used. Otherwise such
            items are skipped, and the others are added in batches, one transaction each.
        max_pixels : int, optional
            Larger images are skipped. Default: 64,000,000.
        progress : callable, optional
            Called after each batch with the items done, their total (or None), and the name of
            the stage.

        Returns
        -------
        AddReport

        Raises
        ------
        CollectionError
            The collection cannot be changed; with `strict`, an item cannot be used.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened. Open it again and add
            all items again: earlier batches are lost with the old collection.
        OSError
            Writing failed, for example because the disk is full. The batch was not added.
        """
        return self._add(items, strict, max_pixels, progress, replacing=False)

    def upsert(
        self,
        items: Any,
        *,
        strict: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items, and replace items that have the same ids.

        An item that tracks a file continues to track it. If its replacement has no image, it keeps
        its image. Parameters, return value and errors are those of `add`.
        """
        return self._add(items, strict, max_pixels, progress, replacing=True)

    def _add(
        self,
        items: Any,
        strict: bool,
        max_pixels: int | None,
        progress: Progress | None,
        *,
        replacing: bool,
    ) -> AddReport:
        from acqh.collection.build.add import add_items

        report = progress or no_progress
        with image_limit(max_pixels):
            return add_items(self, items, report, strict=strict, replacing=replacing)

    def annotate(
        self,
        items: Any,
        *,
        label_separator: str | None = None,
        clear: bool = False,
        progress: Progress | None = None,
    ) -> AddReport:
        """Set or remove texts, labels and fields of existing items.

        Missing values do not change an item. An empty text, empty labels, and a field that is empty
        or None remove the old value: ``Item(id="a", text="")`` removes the text and keeps the
        labels.

        Texts and labels that are known to the model change the codes. Items without an image are
        encoded again. The code of an item with an image moves most of the way to that of its text
        and labels. If both are removed, its image is encoded again.

        Parameters
        ----------
        items : Item, iterable of Item, or path
            Or a table (CSV, TSV, JSON lines or Parquet) with a column ``id``, ``file`` or
            ``image``, and any of ``text``, ``labels`` and others, which become fields.
        label_separator : str, optional
            Separator of the labels in a table. Default: a vertical bar.
        clear : bool, default False
            Empty cells of a table remove values. Otherwise they are ignored.
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Returns
        -------
        AddReport
            Ids of the annotated items, and skipped rows: unknown ids, and items that would have
            neither image nor text.

        Raises
        ------
        CollectionError
            The table has no column that identifies items, or the collection cannot be changed.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.

        Examples
        --------
        >>> import tempfile
        >>> from acqh.collection import Collection, Item
        >>> folder = tempfile.TemporaryDirectory()
        >>> items = [Item(text="a red rose", id="a"), Item(text="a fast car", id="b")]
        >>> collection = Collection.build(items, folder.name + "/c.acqh", text_encoder="tfidf")
        >>> collection.annotate(Item(id="a", labels=["flower"])).ids
        ('a',)
        >>> collection.item("a").text, collection.item("a").labels
        ('a red rose', ('flower',))
        >>> collection.close()
        >>> folder.cleanup()
        """
        from acqh.collection.build.add import annotate_items
        from acqh.collection.build.sources import read_annotations

        if isinstance(items, str | PathLike):
            items = read_annotations(Path(items), label_separator, clear=clear)
        annotations = [items] if isinstance(items, Item) else items
        return annotate_items(self, annotations, progress or no_progress, keep=True)

    def remove(self, ids: str | Iterable[str]) -> int:
        """Remove items, in one transaction.

        An item that tracks a file of a folder stays removed: `sync` adds the file again only if its
        content changes.

        Returns
        -------
        int
            Number of removed items.

        Raises
        ------
        MissingItemError
            An id is unknown. Nothing was removed.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.
        """
        removed = [ids] if isinstance(ids, str) else list(ids)
        return self.apply(lambda opened: remove_items(opened.store, removed))

    def sync(
        self,
        folder: str | PathLike[str],
        *,
        delete: bool = False,
        dry_run: bool = False,
        forget: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Update the collection from a folder of images.

        New images are added, items of deleted images are removed, and changed images are encoded
        again. An image that was moved or renamed keeps its id. A file with the same size and
        modification time is unchanged; otherwise its SHA-256 is compared.

        Only items of files below `folder` are compared. A new folder is tracked in addition to the
        folders that are tracked already. If a tracked folder is missing and at least half of its
        content is in `folder`, it was moved there.

        Annotations (texts, labels and fields) of items with missing files are remembered by file
        name and SHA-256. They are restored once when the same content appears again, first for the
        same file name, then for any other. Items that were removed by `remove` stay removed until
        their files change.

        If an item is annotated while its changed file is read, the file is reported as unreadable
        and updated by the next sync.

        Images are stored in batches, one transaction each. After a crash, call `sync` again to
        continue.

        Parameters
        ----------
        folder : path-like
            A tracked folder, a subfolder of one, or another folder to track.
        delete : bool, default False
            Remove the items of all missing files. Without it, `sync` stops if more than three
            files are missing and these are more than 5 % or all of the files.
        dry_run : bool, default False
            Change nothing; only report the changes.
        forget : bool, default False
            Also discard the remembered annotations of all items with missing files.
        max_pixels : int, optional
            Larger images are skipped. Default: 64,000,000.
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Returns
        -------
        SyncReport

        Raises
        ------
        CollectionError
            The folder does not exist or has a manifest, too many of its images are missing, none
            of them is unchanged, or the collection cannot be changed. Nothing was changed.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.
        OSError
            Writing failed. Batches that were stored before are kept.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from acqh.collection import Collection, Item
        >>> home = tempfile.TemporaryDirectory()
        >>> photos = Path(home.name, "photos")
        >>> photos.mkdir()
        >>> items = [Item(Image.new("RGB", (8, 8), c), c, [c]) for c in ("red", "blue")]
        >>> collection = Collection.build(items, home.name + "/c.acqh", image_encoder="hog")
        >>> Image.new("RGB", (8, 8), "navy").save(photos / "sea.png")
        >>> collection.sync(photos).new
        ('sea.png',)
        >>> _ = (photos / "sea.png").rename(photos / "lake.png")
        >>> collection.sync(photos).moved, collection.item("sea.png").fields["file"]
        (('sea.png',), 'lake.png')
        >>> collection.close()
        >>> home.cleanup()
        """
        from acqh.collection.build.sync import sync

        report = progress or no_progress
        with image_limit(max_pixels):
            return sync(self, folder, report, delete=delete, dry_run=dry_run, forget=forget)

    def duplicates(self, *, progress: Progress | None = None) -> list[DuplicateGroup]:
        """Return groups of possible duplicates, in three tiers; change nothing.

        Groups of a later tier contain those of earlier ones: a group "same image" may hold several
        items of one "same file". Every item of a group agrees with its first item. Thumbnails and
        codes are compared, in time near linear in the number of items. A thumbnail hides small
        differences, such as a digit of a scanned page: `removable` compares the originals.

        Parameters
        ----------
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Examples
        --------
        >>> import tempfile
        >>> from PIL import Image
        >>> from acqh.collection import Collection, Item
        >>> ramp = Image.linear_gradient("L").resize((64, 48))
        >>> spot = Image.radial_gradient("L").resize((64, 48))
        >>> images = {"ramp": ramp, "small": ramp.resize((48, 36)), "spot": spot}
        >>> items = [Item(image, id=name) for name, image in images.items()]
        >>> home = tempfile.TemporaryDirectory()
        >>> collection = Collection.build(items, home.name + "/c.acqh", image_encoder="hog")
        >>> collection.duplicates()[0]
        DuplicateGroup(tier='same image', ids=('ramp', 'small'))
        >>> collection.close()
        >>> home.cleanup()
        """
        from acqh.collection.search.duplicates import find_duplicates

        return find_duplicates(self.opened, progress or no_progress)

    def removable(
        self, groups: Iterable[DuplicateGroup], *, progress: Progress | None = None
    ) -> dict[str, Path]:
        """Return the files that could be removed if the first file of each group is kept.

        The originals are compared. A file is removable if the kept file has the same bytes, or
        shows the same image in the same colours, with at least as many pixels and without cropping.
        Items without a tracked file, unreadable files, links to the kept file, files with several
        frames or pages, and items of the tier "similar" are never removable.

        Parameters
        ----------
        groups : iterable of DuplicateGroup
            Groups from `duplicates`.
        progress : callable, optional
            Called with the steps done, their total (or None), and the name of the stage.

        Returns
        -------
        dict of str to Path
            Files by the ids of their items.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from acqh.collection import Collection
        >>> home = tempfile.TemporaryDirectory()
        >>> photos = Path(home.name, "photos")
        >>> photos.mkdir()
        >>> for name in ("a.png", "b.png"):
        ...     Image.linear_gradient("L").save(photos / name)
        >>> collection = Collection.build(photos, home.name + "/c.acqh", image_encoder="hog")
        >>> [*collection.removable(collection.duplicates())]
        ['b.png']
        >>> collection.close()
        >>> home.cleanup()
        """
        from acqh.collection.search.duplicates import find_removable

        return find_removable(self.opened, groups, progress or no_progress)

    def item(self, identifier: str) -> Item:
        """Return an item; raise MissingItemError if the id is unknown."""
        with self._store.reading() as connection:
            return stored.find_item(connection, identifier)[1]

    def thumbnail(self, identifier: str) -> bytes:
        """Return an item's image as WebP, its longest side 128 pixels.

        Raises
        ------
        MissingItemError
            The id is unknown, or the item has no image.
        """
        with self._store.reading() as connection:
            return stored.read_thumbnail(connection, identifier)

    def batches(self, size: int = 4_096) -> Iterator[list[tuple[Item, bytes]]]:
        """Yield all items with their codes in batches, in order of insertion.

        All batches are of one state of the collection; concurrent changes are not visible.

        Parameters
        ----------
        size : int, default 4,096
            Number of items in a batch.
        """
        size = check_positive_int(size, "size")

        def pages() -> Iterator[list[tuple[Item, bytes]]]:
            with self._store.reading() as connection:
                pairs = ((item, item.code) for _, item in stored.read_all(connection))
                yield from batches(pairs, size)

        return pages()

    def labels(self) -> dict[str, int]:
        """Return the number of items of each label, in alphabetical order."""
        return dict(self._counted().labels)

    def facets(self) -> dict[str, dict[str, int]]:
        """Return the number of items of each suggested tag, kind and month.

        Returns
        -------
        dict of {"tag", "kind", "date"} to dict of str to int
            Months are such as "2021-03". All in alphabetical order.
        """
        return {name: dict(counts) for name, counts in self._counted().facets.items()}

    def fields(self) -> dict[str, set[str]]:
        """Return the names of all fields, and the types of their values.

        Returns
        -------
        dict of str to set of {"integer", "real", "text", "boolean", "null"}
            The types of each field. An integer that does not fit 64 bits counts as "real".
        """
        with self._store.reading() as connection:
            return stored.field_kinds(connection)

    def _counted(self) -> stored.Counts:
        """Return the counts of items, labels and thumbnails; computed once after each change."""
        opened = self.opened
        with opened.store.reading() as connection:
            return opened.counts(connection)

    def info(self) -> CollectionInfo:
        """Return the size, origin, training and state of the collection."""
        facts, model, counts = self.opened.facts, self.opened.coder.model, self._counted()
        with self._store.reading() as connection:
            built, changed = (read_text(connection, name) for name in ("built", "changed"))
            folders = tracked_folders(connection)
        return CollectionInfo(
            n_items=len(self),
            n_labelled=counts.n_labelled,
            n_labels=len(counts.labels),
            n_thumbnails=counts.n_thumbnails,
            bytes_per_item=self.bytes_per_item,
            code_bytes=self.opened.coder.code_bytes,
            size_on_disk=size_on_disk(self.path),
            encoders={view: repr(encoder) for view, encoder in facts.encoders.items()},
            method=model.info.title,
            n_components=model.n_components,
            n_codebooks=model.n_codebooks,
            n_trained=facts.n_trained,
            trained_on=facts.trained_on,
            encoded_from=dict(counts.encoded_from),
            n_skipped=facts.n_skipped,
            folders=folders,
            built=built,
            changed=changed,
            generation=facts.generation,
            revision=counts.revision,
            version=facts.version,
            settings=facts.settings.stored(),
            drift=self.drift.to_dict(),
            model_outdated=any(
                getattr(mapped, "is_outdated", False)
                for mapped in self.opened.coder.maps.feature_maps.values()
            ),
        )

    def verify(self) -> CollectionReport:
        """Verify all checksums of the collection and the consistency of its parts.

        Raises
        ------
        ReplacedError
            Another collection has replaced it at its path.
        """
        self.apply(lambda opened: opened.store.check_current())
        return _report_on(self.path)


def _report_on(folder: Path) -> CollectionReport:
    from acqh.collection.verify import verify_collection

    return verify_collection(folder)
