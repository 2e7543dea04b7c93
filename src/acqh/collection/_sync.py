"""Following a folder: what is new, changed, moved or gone there becomes so in the collection."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING

from acqh._core.runtime import Progress, say_nothing
from acqh.collection._folder_source import (
    BYTES,
    DIGEST,
    FILE,
    MODIFIED,
    ImageFile,
    Listing,
    is_followed,
    list_images,
)
from acqh.collection._store import Store
from acqh.collection._types import Item
from acqh.encoders import image_limit
from acqh.errors import CollectionError

if TYPE_CHECKING:
    from acqh.collection._adding import Adder

_PAGE_ROWS = 4_096


@dataclass(frozen=True)
class SyncReport:
    """What became of the items of a folder.

    Attributes
    ----------
    new, changed, moved, deleted : tuple of str
        Their ids.
    n_unchanged : int
    unreadable : tuple of (str, str)
        Files and folders that could not be read, and why. Items of them stay as they were.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    n_unchanged: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()


class FollowsFolder:
    """What a collection can do about the folder that its images come from."""

    _store: Store

    @property
    def _adder(self) -> "Adder":
        raise NotImplementedError

    def sync(
        self,
        folder: str | PathLike[str],
        *,
        allow_empty: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Take in what has changed in a folder of images since it was last looked at.

        New images are added, those that were deleted are removed, and those whose content is
        another are read again; an image that was only moved or renamed keeps its id. A file whose
        size and time are as they were counts as unchanged, otherwise its SHA-256 decides. Items
        that came from elsewhere stay as they are.

        It may be run at any time and as often as one likes. Images are stored some at a time,
        each lot in one transaction: after a crash, run it again and it goes on from there.

        Parameters
        ----------
        folder : path-like
            The folder that the collection was built from, or, for a collection of other items,
            one whose images are to be added.
        allow_empty : bool, default False
            Remove the items of the folder even if not one of its images is left there.
        max_pixels : int, optional
            Larger images are not read; 64,000,000 by default.
        progress : callable, optional
            Called with how much is done, of how much (or None), and what.

        Returns
        -------
        SyncReport

        Raises
        ------
        CollectionError
            The folder is not there, has a manifest, or has none of the images that the collection
            knows of; or the collection cannot be changed. Nothing was changed.
        ReplacedError
            The collection was rebuilt, moved or removed since it was opened.
        OSError
            Writing failed; what was stored before stays.

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
        >>> collection.sync(photos).moved, collection.item("sea.png").columns["file"]
        (('sea.png',), 'lake.png')
        >>> collection.close()
        >>> home.cleanup()
        """
        say = progress or say_nothing
        plan = _compare(_known(self._store), list_images(folder), say)
        if plan.deleted and not (plan.n_kept or plan.renamed or plan.changed or allow_empty):
            raise CollectionError(
                f"none of the {len(plan.deleted):,} images that the collection has of a folder is "
                f"in {fspath(folder)}, and all of them would be removed; see whether it is the "
                "right folder and mounted, or say that this is meant with allow_empty=True"
            )
        with image_limit(max_pixels):
            return _carry_out(plan, self._store, self._adder, say)


@dataclass(frozen=True)
class _Known:
    """An item, and the file that it was."""

    id: str
    name: str
    n_bytes: int
    modified: str
    digest: str

    def looks_like(self, file: ImageFile) -> bool:
        return (self.n_bytes, self.modified) == (file.n_bytes, file.modified)


@dataclass(frozen=True)
class _Plan:
    """What is to be done: items, and the files that they are now, with their digests."""

    unread: Mapping[str, str]
    n_kept: int
    renamed: list[tuple[_Known, ImageFile]] = field(default_factory=list)
    changed: list[tuple[_Known, ImageFile, str]] = field(default_factory=list)
    new: list[tuple[ImageFile, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def _known(store: Store) -> Iterator[_Known]:
    for page in store.pages(_PAGE_ROWS):
        for item in page:
            columns = item.columns
            if is_followed(columns):
                facts = (columns[name] for name in (FILE, BYTES, MODIFIED, DIGEST))
                yield _Known(item.id, *facts)


def _compare(known: Iterator[_Known], listing: Listing, say: Progress) -> _Plan:
    """Match items and files: by name, size and time, then by content, then by name alone."""
    items: dict[str, _Known] = {}
    surplus = [item for item in known if items.setdefault(item.name, item) is not item]
    loose = [
        file
        for file in listing.files
        if file.name not in items or not items[file.name].looks_like(file)
    ]
    n_kept = len(listing.files) - len(loose)
    digests = _digests(loose, listing, say)
    files = {file.name: file for file in loose if file.name in digests}
    seen = {file.name for file in listing.files}
    lost = [item for name, item in items.items() if name in files or name not in seen]
    lost = [item for item in [*lost, *surplus] if not listing.could_hold(item.name)]

    plan = _Plan(listing.unread, n_kept)
    # A file that was only touched is its own first choice among those of equal content.
    lost.sort(key=lambda item: digests.get(item.name) != item.digest)
    by_digest: dict[str, list[str]] = {}
    for name in reversed(files):
        by_digest.setdefault(digests[name], []).append(name)
    unmatched: list[_Known] = []
    for item in lost:
        names = by_digest.get(item.digest)
        if not names:
            unmatched.append(item)
            continue
        name = item.name if item.name in names else names[-1]
        names.remove(name)
        plan.renamed.append((item, files.pop(name)))
    for item in unmatched:
        if (found := files.pop(item.name, None)) is not None:
            plan.changed.append((item, found, digests[found.name]))
        else:
            plan.deleted.append(item.id)
    plan.new.extend((file, digests[file.name]) for file in files.values())
    return plan


def _digests(files: list[ImageFile], listing: Listing, say: Progress) -> dict[str, str]:
    """Return the digests of files by name; note those that cannot be read."""
    found = {}
    for position, file in enumerate(files):
        say(position, len(files), "looking for changes")
        try:
            found[file.name] = file.digest()
        except OSError as error:
            listing.unread[file.name] = str(error)
    return found


def _carry_out(plan: _Plan, store: Store, adder: "Adder", say: Progress) -> SyncReport:
    # Moves first: an item that has its new name in time is not taken for a new one by a next run.
    if plan.renamed:
        store.set_columns({item.id: file.columns(item.digest) for item, file in plan.renamed})
    if plan.deleted:
        store.remove(plan.deleted)
    ids = {item.id for item, _, _ in plan.changed}
    total = len(plan.changed) + len(plan.new)
    added = adder.add(
        _items_to_read(plan, store),
        strict=False,
        at_once=False,
        replace=True,
        progress=lambda done, _, what: say(done, total, what),
    )
    return SyncReport(
        new=tuple(each for each in added.ids if each not in ids),
        changed=tuple(each for each in added.ids if each in ids),
        moved=tuple(item.id for item, file in plan.renamed if item.name != file.name),
        deleted=tuple(plan.deleted),
        n_unchanged=plan.n_kept + sum(item.name == file.name for item, file in plan.renamed),
        unreadable=(*plan.unread.items(), *added.skipped),
    )


def _items_to_read(plan: _Plan, store: Store) -> Iterator[Item]:
    for item, file, digest in plan.changed:
        stored = store.find(item.id)[1]
        yield file.item(
            digest, item.id, text=stored.text, labels=stored.labels, columns=stored.columns
        )
    taken: set[str] = set()
    for file, digest in plan.new:
        usual, again = f"{store.id_prefix}{file.usual_id}", 1
        identifier = usual
        while identifier in taken or store.has(identifier):
            again += 1
            identifier = f"{usual}#{again}"
        taken.add(identifier)
        yield file.item(digest, identifier)
