"""Sync a collection with a folder: apply new, changed, moved and deleted files."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.fields import FILE
from acqh._core.runtime import Progress
from acqh.collection.build.add import add_items, annotate_items
from acqh.collection.build.folder import ImageFile, Listing, Source, list_images
from acqh.collection.opened import OpenCollection
from acqh.collection.store import tracked
from acqh.collection.store.file import Store
from acqh.collection.store.items import find_number
from acqh.collection.store.tracked import TrackedFile
from acqh.collection.types import Item, SyncReport
from acqh.encoders.images import working_image
from acqh.errors import AcqhError, CollectionError

# Items that are removed without `delete`: this number, or this share of the items of the folder.
_FEW = 3
_SMALL_SHARE = 0.05
# A missing folder counts as moved if at least this share of its content is found.
_SAME_FOLDER = 0.5
_N_NAMED = 5


def sync(
    collection: OpenCollection,
    folder: str | PathLike[str],
    say: Progress,
    *,
    delete: bool,
    dry_run: bool,
    forget: bool,
) -> SyncReport:
    """Apply the changes in a folder of images; see `Collection.sync`."""
    with collection.opened.store.reading() as connection:
        items, removed = tracked.tracked_files(connection), tracked.tombstones(connection)
    listing = list_images(folder, {file.folder for file in (*items, *removed)})
    plan = _compare(items, removed, listing, say)
    if dry_run:
        _check_readable(plan, listing, say)
        return plan.report(collection.opened.store)
    if not delete:
        plan.check(listing)
    report = _carry_out(plan, collection, say)
    if forget:
        collection.apply(lambda opened: tracked.forget_removed(opened.store))
    return report


@dataclass(frozen=True)
class _Plan:
    """Planned changes: items, and their current files with digests."""

    unread: Mapping[str, str]
    n_kept: int
    renamed: list[tuple[TrackedFile, ImageFile]] = field(default_factory=list)
    changed: list[tuple[TrackedFile, ImageFile]] = field(default_factory=list)
    new: list[tuple[ImageFile, str]] = field(default_factory=list)
    # Tombstones with annotations for new files, by file name; files that stay removed.
    restored: dict[str, int] = field(default_factory=dict)
    removed: list[tuple[TrackedFile, ImageFile]] = field(default_factory=list)
    deleted: list[TrackedFile] = field(default_factory=list)

    def check(self, listing: Listing) -> None:
        """Raise CollectionError if many items would be removed, or all images have changed."""
        same = self.n_kept + len(self.renamed)
        total = same + len(self.changed) + len(self.deleted)
        n_gone = len(self.deleted)
        if same and n_gone <= max(_FEW, _SMALL_SHARE * total):
            return
        if not n_gone and len(self.changed) <= _FEW:
            return
        gone = self.deleted or [item for item, _ in self.changed]
        names = ", ".join(repr(item.name) for item in gone[:_N_NAMED])
        summary = f"{n_gone:,} of the {total:,} images that the collection has of {listing.root}"
        raise CollectionError(
            f"{summary} are gone{'' if same else ', and none of the others is as it was'}: "
            f"{names}{', ...' if len(gone) > _N_NAMED else ''}; check the folder and "
            "whether it is mounted, or remove their items with delete=True; nothing was changed"
        )

    @property
    def moved(self) -> tuple[str, ...]:
        """Ids of items whose files were moved."""
        return tuple(item.id for item, file in self.renamed if item.path != file.path)

    @property
    def n_unchanged(self) -> int:
        """Number of files that are neither changed nor moved."""
        return self.n_kept + len(self.renamed) - len(self.moved)

    def report(self, store: Store) -> SyncReport:
        """Return the report of the planned changes."""
        new_ids: dict[str, None] = {}
        with store.reading() as connection:
            for file, _ in self.new:
                identifier = tracked.free_id(
                    file.usual_id,
                    lambda candidate: candidate in new_ids or find_number(connection, candidate),
                )
                new_ids[identifier] = None
        return SyncReport(
            new=tuple(new_ids),
            changed=tuple(item.id for item, _ in self.changed),
            moved=self.moved,
            deleted=tuple(item.id for item in self.deleted),
            n_unchanged=self.n_unchanged,
            unreadable=tuple(self.unread.items()),
        )


def _compare(
    items: list[TrackedFile], tombstones: list[TrackedFile], listing: Listing, say: Progress
) -> _Plan:
    """Match items and files: by name, size and time, then by content, then by name alone."""
    by_name: dict[str, TrackedFile] = {}  # by the file names in the listing
    surplus, others = [], []
    for item in items:
        if not item.path.is_relative_to(listing.root):
            others.append(item)
            continue
        name = item.path.relative_to(listing.folder).as_posix()
        if by_name.setdefault(name, item) is not item:
            surplus.append((name, item))
    looks = {name: (item.n_bytes, item.modified) for name, item in by_name.items()}
    same = [file for file in listing.files if looks.get(file.name) == (file.n_bytes, file.modified)]
    unchanged = {file.name for file in same}
    final = {file.path: (file.n_bytes, file.modified) for file in tombstones if file.is_final}
    unchanged |= {
        file.name
        for file in listing.files
        if file.name not in by_name and final.get(file.path) == (file.n_bytes, file.modified)
    }
    loose = [file for file in listing.files if file.name not in unchanged]
    digests = _digests(loose, listing, say)
    files = {file.name: file for file in loose if file.name in digests}
    listed_names = {file.name for file in listing.files}
    lost = [
        (name, item) for name, item in by_name.items() if name in files or name not in listed_names
    ]
    inner = listing.root.relative_to(listing.folder)
    moved = _moved_here(others, set(digests.values()))
    lost += [*surplus, *(((inner / item.name).as_posix(), item) for item in moved)]
    lost = [(name, item) for name, item in lost if not listing.could_hold(name)]

    # A tracked subfolder becomes a part of this folder.
    taken_over = [
        (item, file)
        for file in same
        if (item := by_name[file.name]) and item.folder != str(file.folder)
    ]
    plan = _Plan(listing.unread, len(same) - len(taken_over), taken_over)
    _match(plan, lost, files, digests)
    _match_tombstones(plan, tombstones)
    return plan


def _match(
    plan: _Plan,
    lost: list[tuple[str, TrackedFile]],
    files: dict[str, ImageFile],
    digests: Mapping[str, str],
) -> None:
    """Find the files of items that were moved or changed; remaining files are new.

    `lost`: items without a matching file, with their expected file names.
    """
    # Among files of equal content, one with the old name is preferred: it was only touched.
    lost.sort(key=lambda pair: digests.get(pair[0]) != pair[1].digest)
    by_digest: dict[str, list[str]] = {}
    for name in reversed(files):
        by_digest.setdefault(digests[name], []).append(name)
    unmatched: list[tuple[str, TrackedFile]] = []
    for own_name, item in lost:
        names = by_digest.get(item.digest)
        if not names:
            unmatched.append((own_name, item))
            continue
        name = own_name if own_name in names else names[-1]
        names.remove(name)
        plan.renamed.append((item, files.pop(name)))
    for own_name, item in unmatched:
        if (same_name := files.pop(own_name, None)) is not None:
            plan.changed.append((item, same_name))
        else:
            plan.deleted.append(item)
    plan.new.extend((file, digests[file.name]) for file in files.values())


def _match_tombstones(plan: _Plan, tombstones: list[TrackedFile]) -> None:
    """Match new files with removed items: by name and content, or else by content."""
    by_digest: dict[str, list[TrackedFile]] = {}
    for tombstone in tombstones:
        by_digest.setdefault(tombstone.digest, []).append(tombstone)
    for is_own in (True, False):
        for file, digest in list(plan.new):
            if file.name in plan.restored:
                continue
            for tombstone in by_digest.get(digest, ()):
                # Another file of equal content is a copy, unless this file is missing.
                if tombstone.path == file.path if is_own else not tombstone.path.exists():
                    by_digest[digest].remove(tombstone)
                    if tombstone.is_final:
                        plan.new.remove((file, digest))
                        plan.removed.append((tombstone, file))
                    else:
                        plan.restored[file.name] = tombstone.number
                    break


def _moved_here(items: list[TrackedFile], digests: set[str]) -> list[TrackedFile]:
    """Return the items of missing folders whose content is in this folder."""
    by_folder: dict[str, list[TrackedFile]] = {}
    for item in items:
        by_folder.setdefault(item.folder, []).append(item)
    moved = []
    for folder, members in by_folder.items():
        n_here = sum(item.digest in digests for item in members)
        if n_here >= _SAME_FOLDER * len(members) and not Path(folder).is_dir():
            moved += members
    return moved


def _digests(files: list[ImageFile], listing: Listing, say: Progress) -> dict[str, str]:
    """Return the digests of files by name; record those that cannot be read."""
    digests = {}
    for position, file in enumerate(files):
        say(position, len(files), "looking for changes")
        try:
            digests[file.name] = file.digest()
        except OSError as error:
            listing.unread[file.name] = str(error)
    return digests


def _check_readable(plan: _Plan, listing: Listing, say: Progress) -> None:
    """Read the new and changed files of a dry run; those that cannot be read stay as they are."""
    files = [file for file, _ in plan.new] + [file for _, file in plan.changed]
    for position, file in enumerate(files):
        say(position, len(files), "reading new images")
        try:
            working_image(file.path, file.name)
        except AcqhError as error:
            listing.unread[file.name] = str(error)
    plan.new[:] = [pair for pair in plan.new if pair[0].name not in listing.unread]
    plan.changed[:] = [pair for pair in plan.changed if pair[1].name not in listing.unread]


def _carry_out(plan: _Plan, collection: OpenCollection, say: Progress) -> SyncReport:
    # Moves first: after a crash, the next run does not mistake moved items for new ones.
    moves: list[tuple[TrackedFile, str, Mapping[str, Any]]] = [
        (item, str(file.folder), file.fields(item.digest))
        for item, file in (*plan.renamed, *plan.removed)
    ]
    moves += [
        (item, str(file.folder), {FILE: file.name})  # the others once the file was read
        for item, file in plan.changed
        if item.path != file.path
    ]
    if moves:
        collection.apply(lambda opened: tracked.move_items(opened.store, moves))
    deleted: list[str] = []
    if plan.deleted:
        deleted = collection.apply(lambda opened: tracked.remove_gone(opened.store, plan.deleted))
    if deleted:  # for example, if an image was moved to another folder, which was synced first
        with collection.opened.store.reading() as connection:
            metadata = tracked.inherited(connection, plan.deleted)
        annotate_items(collection, metadata.values(), say, keep=True)
        collection.apply(lambda opened: tracked.forget(opened.store, metadata))
    files = [(file, item.id) for item, file in plan.changed]
    files += [(file, file.usual_id) for file, _ in plan.new]
    done: set[str] = set()
    put = partial(tracked.store_files, tombstones=plan.restored, done=done)
    source = Source(_items_to_read(files, plan.restored, collection.opened.store), len(files))
    ids, unreadable = astuple(add_items(collection, source, say, put=put))
    changed = {item.id for item, _ in plan.changed}
    return SyncReport(
        new=tuple(identifier for identifier in ids if identifier not in changed),
        changed=tuple(identifier for identifier in ids if identifier in changed),
        moved=plan.moved,
        deleted=tuple(deleted),
        n_unchanged=plan.n_unchanged + len(done),
        unreadable=(*plan.unread.items(), *unreadable),
    )


def _items_to_read(
    files: list[tuple[ImageFile, str]], restored: Mapping[str, int], store: Store
) -> Iterator[Item]:
    """Yield files as items, with their ids and annotations."""
    for file, identifier in files:
        with store.reading() as connection:
            text, labels, fields = tracked.user_metadata(
                connection, str(file.folder), file.name, restored.get(file.name, 0)
            )
        yield file.item(identifier, text=text, labels=labels, fields=fields)
