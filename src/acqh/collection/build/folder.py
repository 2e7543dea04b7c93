"""Folders of images as a source: their files, with sizes, times and checksums."""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.fields import BYTES, DATE, DIGEST, FILE, MODIFIED
from acqh.collection.types import MAX_ID_CHARACTERS, Item
from acqh.data import read_records
from acqh.encoders.images import image_date, working_image
from acqh.encoders.videos import NEEDS_AV, VIDEO_SUFFIXES, reads_videos
from acqh.errors import CollectionError, ImageError, InvalidInputError

# fmt: off
_SUFFIXES = frozenset((
    ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
    ".pnm", ".ppm", ".tif", ".tiff", ".webp",
))
# fmt: on
# The short video of a live photo has the name of the photo.
_LIVE_PHOTOS = frozenset((".heic", ".heif", ".jpeg", ".jpg"))
# Larger files are not held in memory; they are opened three times.
_MAX_READ_BYTES = 2**28
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class ImageFile:
    """An image file of a folder."""

    folder: Path  # the tracked folder
    name: str  # relative to the tracked folder, with slashes
    n_bytes: int
    modified: str  # time of the last write, in UTC, in microseconds

    @property
    def path(self) -> Path:
        """Full path of the file."""
        return self.folder / self.name

    @property
    def is_video(self) -> bool:
        """Whether the file is a video, by its name."""
        return Path(self.name).suffix.lower() in VIDEO_SUFFIXES

    def digest(self) -> str:
        """Return the SHA-256 of the content, in hexadecimal; raise OSError."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def usual_id(self) -> str:
        """Default id of the item, used if no other item has it."""
        if len(self.name) <= MAX_ID_CHARACTERS // 2:
            return self.name
        return hashlib.sha256(self.name.encode()).hexdigest()

    def fields(self, digest: str) -> dict[str, Any]:
        """Return the fields of the file, except its date."""
        return {FILE: self.name, BYTES: self.n_bytes, MODIFIED: self.modified, DIGEST: digest}

    def item(self, identifier: str, **others: Any) -> Item:
        """Read the file once and return an item; `others`: its text, labels and further fields."""
        image: Any
        try:
            if self.is_video:
                image, digest = working_image(self.path, self.name), self.digest()
                date = image.info["date"]
            else:
                is_small = self.n_bytes <= _MAX_READ_BYTES
                image = self.path.read_bytes() if is_small else self.path
                digest = hashlib.sha256(image).hexdigest() if is_small else self.digest()
                date = image_date(image)
        except (OSError, ImageError) as error:
            return Item(_Unread(str(error)), origin=self.name)
        fields = {**others.pop("fields", {}), **self.fields(digest)}
        fields.pop(DATE, None)
        if date is not None:
            fields[DATE] = date
        folder = str(self.folder)
        return Item(image, id=identifier, fields=fields, origin=self.name, folder=folder, **others)


@dataclass(frozen=True)
class Listing:
    """Image files of a folder."""

    root: Path  # the folder that was listed
    folder: Path  # the tracked folder that names are relative to: `folder` or a parent
    files: list[ImageFile] = field(default_factory=list)  # in a fixed order
    # Files and folders that could not be read, with the reasons.
    unread: dict[str, str] = field(default_factory=dict)

    def could_hold(self, name: str) -> bool:
        """Whether a file may exist in a folder that could not be read."""
        parts = name.split("/")
        return any("/".join(parts[:n]) in self.unread for n in range(1, len(parts) + 1))


class _Unread:
    """A file that could not be read; `__fspath__` raises the error."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __fspath__(self) -> str:
        raise CollectionError(self.why)


def find_manifest(folder: Path) -> Path | None:
    """Return the table of items of a folder, or None.

    It is called ``manifest``, or ``metadata`` with a column ``file_name``, as in Hugging Face's
    ImageFolder.
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
    """An iterable of items, with their number and views if these are known."""

    items: Iterator[Item]
    n_items: int | None = None  # number of items, if known
    # Those of "image", "text" and "labels" that any item has, if known.
    has: frozenset[str] | None = None


def folder_items(folder: str | PathLike[str]) -> Source:
    """Return the images of a folder without a manifest as items with their paths as ids.

    Their fields are ``file``, ``bytes``, ``modified``, ``sha256``, and ``date`` if the EXIF data
    have one. Names that begin with a dot are skipped, and links are not followed.

    Parameters
    ----------
    folder : path-like
        Searched with its subfolders.

    Raises
    ------
    CollectionError
        The folder does not exist, cannot be read, has a manifest, or has no images.

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
    """Return the image and video files of a folder and its subfolders.

    The videos of live photos, which are ``.mov`` files with the name of a photo, are skipped.
    Without the extra ``video``, other videos are among the files that could not be read. Names
    that begin with a dot are skipped. Links are not followed. Names are relative to the innermost
    of the `followed` folders that contains this one, or to the folder itself.

    Raises CollectionError: the folder does not exist, cannot be read, or has a manifest.
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
    """Whether a folder or a subfolder contains an image; stops at the first."""
    return any(images for _, _, images in _walk(folder))


def _walk(
    root: Path, note: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield folders with the names of subfolders and images; `note`: called with errors."""
    for place, folders, names in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = sorted(Path(name) for name in names if not name.startswith("."))
        photos = {path.stem for path in shown if path.suffix.lower() in _LIVE_PHOTOS}
        yield place, folders, [path.name for path in shown if _is_shown(path, photos)]


def _is_shown(path: Path, photos: Collection[str]) -> bool:
    """Whether a file is an image or a video; not the moving part of one of the `photos`."""
    suffix = path.suffix.lower()
    is_live = suffix == ".mov" and path.stem in photos
    return suffix in _SUFFIXES or (suffix in VIDEO_SUFFIXES and not is_live)


def _as_tracked(root: Path, tracked: list[Path]) -> Path:
    """Return a folder as tracked parents or subfolders spell it; these may differ in case."""
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
        file = ImageFile(listing.folder, name, facts.st_size, moment)
        if file.is_video and not reads_videos():
            listing.unread[name] = NEEDS_AV
        else:
            listing.files.append(file)


def _name(path: Path, root: Path) -> str:
    """Return the name of a file in a folder; invalid Unicode becomes question marks."""
    return path.relative_to(root).as_posix().encode("utf-8", "replace").decode()


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1_000)
    except (OverflowError, OSError, ValueError):  # the time of a file may be any number
        return str(nanoseconds)
    return moment.isoformat(timespec="microseconds")
