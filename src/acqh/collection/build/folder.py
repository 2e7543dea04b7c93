"""Folders of images as a source: which files there are, and what each was when it was read."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.fields import BYTES, DATE, DIGEST, FILE, MODIFIED
from acqh.collection.types import MAX_ID_CHARACTERS, Item
from acqh.data import read_records
from acqh.encoders.images import image_date
from acqh.errors import CollectionError, InvalidInputError

# fmt: off
_SUFFIXES = frozenset((
    ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
    ".pnm", ".ppm", ".tif", ".tiff", ".webp",
))
# fmt: on
# A larger file is not held in memory; it is opened three times.
_MAX_READ_BYTES = 2**28
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class ImageFile:
    """An image file of a folder."""

    folder: Path  # the one that is followed
    name: str  # relative to it, with slashes
    n_bytes: int
    modified: str  # when it was last written, in UTC, to the microsecond

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name

    def digest(self) -> str:
        """Return the SHA-256 of its content, in hexadecimal; raise OSError."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def usual_id(self) -> str:
        """The id of its item, unless another item has it."""
        if len(self.name) <= MAX_ID_CHARACTERS // 2:
            return self.name
        return hashlib.sha256(self.name.encode()).hexdigest()

    def fields(self, digest: str) -> dict[str, Any]:
        """Return the fields of the file, except its date."""
        return {FILE: self.name, BYTES: self.n_bytes, MODIFIED: self.modified, DIGEST: digest}

    def item(self, identifier: str, **others: Any) -> Item:
        """Return the file as an item, read once; `others`: its text, labels and further fields."""
        try:
            is_small = self.n_bytes <= _MAX_READ_BYTES
            image: Any = self.path.read_bytes() if is_small else self.path
            digest = hashlib.sha256(image).hexdigest() if is_small else self.digest()
        except OSError as error:
            return Item(_Unread(str(error)), origin=self.name)
        fields = {**others.pop("fields", {}), **self.fields(digest)}
        fields.pop(DATE, None)
        if (date := image_date(image)) is not None:
            fields[DATE] = date
        folder = str(self.folder)
        return Item(image, id=identifier, fields=fields, origin=self.name, folder=folder, **others)


@dataclass(frozen=True)
class Listing:
    """What a folder holds."""

    root: Path  # the folder that was listed
    folder: Path  # the followed one, which names are relative to: this, or one around it
    files: list[ImageFile] = field(default_factory=list)  # in a fixed order
    # Files and folders that could not be read, and why.
    unread: dict[str, str] = field(default_factory=dict)

    def could_hold(self, name: str) -> bool:
        """Whether a file may be there although it was not seen."""
        parts = name.split("/")
        return any("/".join(parts[:n]) in self.unread for n in range(1, len(parts) + 1))


class _Unread:
    """A file that could not be read; its path raises the error."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __fspath__(self) -> str:
        raise CollectionError(self.why)


def find_manifest(folder: Path) -> Path | None:
    """Return the file in which a folder says what its items are, or None.

    That is a ``manifest``, or what Hugging Face's ImageFolder has, ``metadata`` with ``file_name``.
    """
    for path in (folder / f"{name}{end}" for name in ("manifest", "metadata") for end in _ENDINGS):
        if path.is_file() and (path.stem == "manifest" or _names_files(path)):
            return path
    return None


def _names_files(path: Path) -> bool:
    try:
        return "file_name" in next(read_records(path), ("", {}))[1]
    except InvalidInputError:
        return False


@dataclass(frozen=True)
class Source:
    """Items to come."""

    items: Iterator[Item]
    n_items: int | None = None  # how many, where that is known
    # Of "image", "text" and "labels", what any item has, where that is known.
    has: frozenset[str] | None = None


def folder_items(folder: str | PathLike[str]) -> Source:
    """Return the images of a folder without a manifest as items, each named by its path.

    Their fields hold ``file``, ``date`` where the EXIF data has one, ``bytes``, ``modified`` and
    ``sha256``. Names that begin with a dot are skipped, and links are not followed.

    Parameters
    ----------
    folder : path-like
        It and the folders in it are searched.

    Raises
    ------
    CollectionError
        The folder is not there, cannot be read, has a manifest, or has no images.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (8, 8)).save(folder + "/night.png")
    ...     [item.fields["file"] for item in folder_items(folder).items]
    ['night.png']
    """
    listing = list_images(folder)
    if not listing.files and not listing.unread:
        raise CollectionError(
            f"the folder {os.fspath(folder)} has neither a manifest nor images; give a folder of "
            "images, or write manifest.csv with the columns image, text and labels"
        )
    return Source(_read_listing(listing), len(listing.files))


def _read_listing(listing: Listing) -> Iterator[Item]:
    for file in listing.files:
        yield file.item(file.usual_id)
    for name, why in listing.unread.items():
        yield Item(_Unread(why), origin=name)


def list_images(folder: str | PathLike[str], followed: Iterable[str] = ()) -> Listing:
    """Return the image files of a folder and the folders in it.

    Names that begin with a dot are skipped. Links are not followed. Names are relative to the
    innermost of the `followed` folders that holds this one, or to itself.

    Raises CollectionError: the folder is not there, cannot be read, or has a manifest.
    """
    root = Path(folder)
    if not root.is_dir():
        raise CollectionError(f"there is no folder {root}; see whether it is mounted")
    if find_manifest(root) is not None:
        raise CollectionError(
            f"the folder {root} has a manifest, which says what its items are; build from it with "
            "acqh build, take in new ones with acqh add, and texts and labels with acqh annotate"
        )
    tracked = sorted(map(Path, followed))
    root = _as_tracked(root.resolve(), tracked)
    around = [parent for parent in tracked if root.is_relative_to(parent)]
    base = max(around, key=lambda parent: len(parent.parts), default=root)
    listing = Listing(root, base)

    def note(error: OSError) -> None:
        place = Path(error.filename)
        if place == root:
            raise CollectionError(f"the folder {root} cannot be read: {error}") from error
        listing.unread[_name(place, base)] = str(error)

    for place, folders, images in _walk(root, note):
        for name in [*images, *folders]:
            _look_at(Path(place, name), listing)
    return listing


def has_images(folder: Path) -> bool:
    """Whether there is an image in a folder or the folders in it; stops at the first."""
    return any(images for _, _, images in _walk(folder))


def _walk(
    root: Path, note: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield folders, the names of those in them, and of images; `note`: called with errors."""
    for place, folders, names in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = sorted(name for name in names if not name.startswith("."))
        yield place, folders, [name for name in shown if Path(name).suffix.lower() in _SUFFIXES]


def _as_tracked(root: Path, tracked: list[Path]) -> Path:
    """Return a folder as tracked ones around or inside it spell it: case need not count."""
    for around in (root, *root.parents):
        for folder in tracked:
            if _is_same(folder, around):
                return folder / root.relative_to(around)
    inside = (around for folder in tracked for around in folder.parents)
    return next((around for around in inside if _is_same(around, root)), root)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return os.path.normcase(one) == os.path.normcase(other)


def _look_at(path: Path, listing: Listing) -> None:
    name = _name(path, listing.folder)
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        listing.unread[name] = str(error)
        return
    if stat.S_ISLNK(facts.st_mode):
        listing.unread[name] = "it is a link, and links are not followed"
    elif stat.S_ISREG(facts.st_mode):
        if name != path.relative_to(listing.folder).as_posix():
            listing.unread[name] = "its name is not valid Unicode; rename it"
            return
        moment = _moment(facts.st_mtime_ns)
        listing.files.append(ImageFile(listing.folder, name, facts.st_size, moment))


def _name(path: Path, root: Path) -> str:
    """Return the name of a file in a folder; what is not Unicode in it becomes question marks."""
    return path.relative_to(root).as_posix().encode("utf-8", "replace").decode()


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1_000)
    except (OverflowError, OSError, ValueError):  # a file may claim any time
        return str(nanoseconds)
    return moment.isoformat(timespec="microseconds")
