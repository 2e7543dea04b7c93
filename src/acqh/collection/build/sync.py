"""Following a folder: what is new, changed, moved or gone there becomes so in the collection."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from acqh._core.runtime import Progress, say_nothing
from acqh.collection.build.following import (
    FileWriter,
    Followed,
    followed_items,
    forget_removed,
    free_id,
    given_to,
    move_items,
    remove_items,
)
from acqh.collection.sources.check import Skipped
from acqh.collection.sources.folder import ImageFile, Listing, list_images
from acqh.collection.store.store import Store
from acqh.collection.types import FILE, Item
from acqh.encoders import image_limit
from acqh.errors import CollectionError

if TYPE_CHECKING:
    from acqh.collection.build.add import Adder

# So many items go without a question, or this share of those that the folder had.
_FEW = 3
_SMALL_SHARE = 0.05
# A folder that is gone is taken to be found elsewhere with this share of its content.
_SAME_FOLDER = 0.5
# How often files are described again because their items were given other words meanwhile.
_ROUNDS = 4
_N_NAMED = 5


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
        delete: bool = False,
        dry_run: bool = False,
        forget: bool = False,
        max_pixels: int | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Take in what has changed in a folder of images since it was last looked at.

        New images are added, those that were deleted are removed, and those whose content is
        another are read again; an image that was only moved or renamed keeps its id. A file whose
        size and time are as they were counts as unchanged, otherwise its SHA-256 decides.

        Every item knows the folder that it follows, and only items of files below `folder` are
        compared: a folder that is seen for the first time is followed besides those that are
        followed already. One that is gone, and half of whose content or more is found here, was
        moved here.

        What people gave to an item that is removed, its text, labels and columns, is kept by the
        SHA-256 of its image, and given back when this content appears again under any name.

        It may be run at any time and as often as one likes. Images are stored some at a time,
        each lot in one transaction: after a crash, run it again and it goes on from there.

        Parameters
        ----------
        folder : path-like
            A folder that the collection follows, one in it, or another one to be followed too.
        delete : bool, default False
            Remove the items of all files that are gone, however many they are. Without it more
            than three of them, if they are more than one in twenty or all there were, stop it.
        dry_run : bool, default False
            Change nothing; say what would be done.
        forget : bool, default False
            Afterwards forget what people gave to all items that were removed, now and before.
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
            The folder is not there or has a manifest; too many of its images are gone, or none is
            as it was; or the collection cannot be changed. Nothing was changed.
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
        items = followed_items(self._store)
        listing = list_images(folder, {item.folder for item in items})
        plan = _compare(items, listing, say)
        if dry_run:
            return plan.report(self._store)
        if not delete:
            plan.check(listing)
        with image_limit(max_pixels):
            report = _carry_out(plan, self._store, self._adder, say)
        if forget:
            forget_removed(self._store)
        return report


@dataclass(frozen=True)
class _Plan:
    """What is to be done: items, and the files that they are now, with their digests."""

    unread: Mapping[str, str]
    n_kept: int
    renamed: list[tuple[Followed, ImageFile]] = field(default_factory=list)
    changed: list[tuple[Followed, ImageFile, str]] = field(default_factory=list)
    new: list[tuple[ImageFile, str]] = field(default_factory=list)
    deleted: list[Followed] = field(default_factory=list)

    def check(self, listing: Listing) -> None:
        """Refuse to lose much, or to take other images for those that are known by their names."""
        same = self.n_kept + len(self.renamed)
        total = same + len(self.changed) + len(self.deleted)
        n_gone = len(self.deleted)
        if same and n_gone <= max(_FEW, _SMALL_SHARE * total):
            return
        if not n_gone and len(self.changed) <= _FEW:
            return
        gone = self.deleted or [item for item, _, _ in self.changed]
        names = ", ".join(repr(item.name) for item in gone[:_N_NAMED])
        what = f"{n_gone:,} of the {total:,} images that the collection has of {listing.root}"
        raise CollectionError(
            f"{what} are gone{'' if same else ', and none of the others is as it was'}: "
            f"{names}{', ...' if len(gone) > _N_NAMED else ''}; see whether it is the right folder "
            "and all of it is mounted, or say that this is meant with delete=True (--delete; what "
            "people gave to the items is kept); nothing was changed"
        )

    @property
    def moved(self) -> tuple[str, ...]:
        """Ids of items whose files are elsewhere now."""
        return tuple(item.id for item, file in self.renamed if _place(item) != file.path)

    @property
    def n_unchanged(self) -> int:
        """How many files are as they were, and where."""
        return self.n_kept + len(self.renamed) - len(self.moved)

    def report(self, store: Store) -> SyncReport:
        """Return what would be done."""
        taken: dict[str, None] = {}
        for file, _ in self.new:
            usual = f"{store.id_prefix}{file.usual_id}"
            taken[free_id(usual, lambda it: it in taken or store.has(it))] = None
        return SyncReport(
            new=tuple(taken),
            changed=tuple(item.id for item, _, _ in self.changed),
            moved=self.moved,
            deleted=tuple(item.id for item in self.deleted),
            n_unchanged=self.n_unchanged,
            unreadable=tuple(self.unread.items()),
        )


def _place(item: Followed) -> Path:
    return Path(item.folder, item.name)


def _compare(items: list[Followed], listing: Listing, say: Progress) -> _Plan:
    """Match items and files: by name, size and time, then by content, then by name alone."""
    known: dict[str, Followed] = {}  # by the names that files have in the listing
    surplus, others = [], []
    for item in items:
        if not _place(item).is_relative_to(listing.root):
            others.append(item)
            continue
        name = _place(item).relative_to(listing.folder).as_posix()
        if known.setdefault(name, item) is not item:
            surplus.append((name, item))
    same = [
        file for file in listing.files if file.name in known and known[file.name].looks_like(file)
    ]
    kept = {file.name for file in same}
    loose = [file for file in listing.files if file.name not in kept]
    digests = _digests(loose, listing, say)
    files = {file.name: file for file in loose if file.name in digests}
    seen = {file.name for file in listing.files}
    lost = [(name, item) for name, item in known.items() if name in files or name not in seen]
    inner = listing.root.relative_to(listing.folder)
    moved = _moved_here(others, set(digests.values()))
    lost += [*surplus, *(((inner / item.name).as_posix(), item) for item in moved)]
    lost = [(name, item) for name, item in lost if not listing.could_hold(name)]

    # A folder in this one that was followed by itself is followed as a part of it from now on.
    taken_over = [
        (item, file)
        for file in same
        if (item := known[file.name]) and item.folder != str(file.folder)
    ]
    plan = _Plan(listing.unread, len(same) - len(taken_over), taken_over)
    _match(plan, lost, files, digests)
    return plan


def _match(
    plan: _Plan,
    lost: list[tuple[str, Followed]],
    files: dict[str, ImageFile],
    digests: Mapping[str, str],
) -> None:
    """Find the files of items that are not what or where they were; the files that stay are new.

    `lost`: with the names that they should have.
    """
    # A file that was only touched is its own first choice among those of equal content.
    lost.sort(key=lambda each: digests.get(each[0]) != each[1].digest)
    by_digest: dict[str, list[str]] = {}
    for name in reversed(files):
        by_digest.setdefault(digests[name], []).append(name)
    unmatched: list[tuple[str, Followed]] = []
    for own_name, item in lost:
        names = by_digest.get(item.digest)
        if not names:
            unmatched.append((own_name, item))
            continue
        name = own_name if own_name in names else names[-1]
        names.remove(name)
        plan.renamed.append((item, files.pop(name)))
    for own_name, item in unmatched:
        if (found := files.pop(own_name, None)) is not None:
            plan.changed.append((item, found, digests[found.name]))
        else:
            plan.deleted.append(item)
    plan.new.extend((file, digests[file.name]) for file in files.values())


def _moved_here(items: list[Followed], digests: set[str]) -> list[Followed]:
    """Return the items of folders that are gone, and whose content is here."""
    by_folder: dict[str, list[Followed]] = {}
    for item in items:
        by_folder.setdefault(item.folder, []).append(item)
    found = []
    for folder, own in by_folder.items():
        n_here = sum(item.digest in digests for item in own)
        if n_here >= _SAME_FOLDER * len(own) and not Path(folder).is_dir():
            found += own
    return found


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
    moves = [(item, file, file.columns(item.digest)) for item, file in plan.renamed]
    moves += [
        (item, file, {FILE: file.name})  # size and time follow when it was read
        for item, file, _ in plan.changed
        if _place(item) != file.path
    ]
    if moves:
        move_items(store, moves)
    deleted = remove_items(store, plan.deleted) if plan.deleted else []
    files = [_ToRead(file, digest, item.id) for item, file, digest in plan.changed]
    files += [_ToRead(*new, f"{store.id_prefix}{new[0].usual_id}") for new in plan.new]
    ids, unreadable, n_done = _read(files, store, adder, say)
    changed = {item.id for item, _, _ in plan.changed}
    return SyncReport(
        new=tuple(each for each in ids if each not in changed),
        changed=tuple(each for each in ids if each in changed),
        moved=plan.moved,
        deleted=tuple(deleted),
        n_unchanged=plan.n_unchanged + n_done,
        unreadable=(*plan.unread.items(), *unreadable),
    )


@dataclass(frozen=True)
class _ToRead:
    """A file to be read, its digest, and the id that its item has or may get."""

    file: ImageFile
    digest: str
    id: str


def _read(
    files: list[_ToRead], store: Store, adder: "Adder", say: Progress
) -> tuple[list[str], Skipped, int]:
    """Describe and store files; return ids, what was unreadable, and how many others stored."""
    ids: list[str] = []
    unreadable: Skipped = []
    total, n_done = len(files), 0
    for n_rounds in range(_ROUNDS):
        writer = FileWriter(store, last=n_rounds + 1 == _ROUNDS)
        added = adder.add(
            _items_to_read(files, store),
            put=writer.put,
            progress=_after(len(ids) + len(unreadable), total, say),
        )
        ids += added.ids
        unreadable += added.skipped
        n_done += len(writer.done)
        files = [each for each in files if each.file.name in writer.again]
        if not files:
            break
    return ids, unreadable, n_done


def _after(n_before: int, total: int, say: Progress) -> Progress:
    return lambda done, _, what: say(n_before + done, total, what)


def _items_to_read(files: list[_ToRead], store: Store) -> Iterator[Item]:
    for each in files:
        file = each.file
        with store.connections.reading() as connection:
            text, labels, columns = given_to(connection, str(file.folder), file.name, each.digest)
        yield file.item(each.digest, each.id, text=text, labels=labels, columns=columns)
