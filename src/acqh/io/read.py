"""Read and verify bundles."""

import hashlib
import mmap as memory_map
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core import files as _files
from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io.manifest import Manifest, Member, in_words, read_manifest
from acqh.io.members import member_arrays

# Smaller members are verified whenever they are opened, in a fraction of a millisecond.
_ALWAYS_VERIFIED_BYTES = 1 << 18
# Each retry means that another bundle was saved meanwhile.
_MAX_TRIES = 16


@dataclass(frozen=True)
class Bundle:
    """An open bundle: JSON values and named arrays, read-only.

    Arrays of a memory-mapped bundle are read from the files on access. They stay readable when
    another bundle replaces this one.

    Attributes
    ----------
    path : Path
    kind : str
        Type of the stored object.
    name : str
        A title.
    version : int
        Version of the format.
    info : dict
        The stored JSON values.
    members : tuple of str
        Names of the members.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.io import read_bundle, write_bundle
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrays = {"all": {"odd": np.arange(1, 6, 2)}}
    ...     write_bundle(folder + "/numbers.acqh", kind="numbers", arrays=arrays)
    ...     bundle = read_bundle(folder + "/numbers.acqh")
    ...     print(bundle.kind, bundle.members)
    numbers ('all',)
    """

    path: Path
    kind: str
    name: str
    version: int
    info: dict[str, Any]
    _arrays: Mapping[str, Mapping[str, Array]] = field(repr=False)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members."""
        return tuple(self._arrays)

    def arrays(self, member: str) -> dict[str, Array]:
        """Return the arrays of one member by name.

        Raises
        ------
        CorruptBundleError
            There is no such member, so the bundle is damaged.
        """
        if member not in self._arrays:
            raise CorruptBundleError(f"{self.path} lacks the member {member!r} of a {self.kind!r}")
        return dict(self._arrays[member])


@dataclass(frozen=True)
class BundleReport:
    """Result of verifying every byte of a bundle.

    Attributes
    ----------
    path : Path
    kind : str
        Type of the stored object; empty if the manifest is unreadable.
    name : str
    version : int
        Version of the format; 0 if the manifest is unreadable.
    n_members : int
    n_bytes : int
        Size of all members together.
    problems : tuple of str
        One line for each damaged or missing file; empty if there are none.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acqh.HammingIndex(8).add([[7], [9]]).save(folder + "/bits.acqh")
    ...     report = acqh.verify(folder + "/bits.acqh")
    >>> report.ok, report.kind, report.problems
    (True, 'hamming-index', ())
    """

    path: Path
    kind: str
    name: str
    version: int
    n_members: int
    n_bytes: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the bundle is undamaged."""
        return not self.problems


def kind_of(path: str | os.PathLike[str], expected: str | None = None) -> str:
    """Return the kind of a bundle from its manifest.

    Parameters
    ----------
    path : path-like
        The bundle's directory.
    expected : str, optional
        Expected kind, named in the error if there is no bundle.

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.
    CorruptBundleError
        The manifest is damaged, of another format, or of a newer version.
    """
    return read_manifest(Path(path), expected).kind


def read_bundle(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    mmap: bool = True,
    verify: bool = False,
) -> Bundle:
    """Open a bundle.

    Checks the manifest against its own checksum, the size of each member against the manifest, and
    the header of each member against its size. Also checks the SHA-256 of members of up to 256 KiB;
    reads larger ones only with `verify` or without `mmap`.

    Parameters
    ----------
    path : path-like
        The bundle's directory.
    kind : str, optional
        Required kind of the bundle.
    mmap : bool, default True
        Memory-map the members instead of reading them.
    verify : bool, default False
        Read every member and check its SHA-256.

    Returns
    -------
    Bundle

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.
    CorruptBundleError
        The bundle is damaged, of another format, or of a newer version.
    InvalidInputError
        The bundle is of another kind.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.io import write_bundle
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "numbers.acqh")
    >>> write_bundle(path, kind="numbers", arrays={"all": {"odd": np.arange(1, 6, 2)}})
    >>> bundle = read_bundle(path, kind="numbers", verify=True)
    >>> bundle.kind, bundle.members, bundle.arrays("all")["odd"].tolist()
    ('numbers', ('all',), [1, 3, 5])
    >>> folder.cleanup()
    """
    directory = Path(path)
    with ExitStack() as open_files:
        manifest, files = _open_files(directory, open_files, kind)
        if kind is not None and manifest.kind != kind:
            raise InvalidInputError(
                f"{directory} is {in_words(manifest.kind)}, not {in_words(kind)}"
            )
        loaded = {
            member.file: _load(directory / member.file, files[member.file], member, mmap, verify)
            for member in manifest.distinct_members()
        }
    arrays = {name: loaded[member.file] for name, member in manifest.members.items()}
    return Bundle(directory, manifest.kind, manifest.name, manifest.version, manifest.info, arrays)


def verify_bundle(path: str | os.PathLike[str]) -> BundleReport:
    """Check every byte of a bundle and report all damage.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    BundleReport

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.io import write_bundle
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "numbers.acqh")
    >>> write_bundle(path, kind="numbers", arrays={"all": {"odd": np.arange(1, 6, 2)}})
    >>> verify_bundle(path).ok
    True
    >>> folder.cleanup()
    """
    directory = Path(path)
    problems: list[str] = []
    with ExitStack() as open_files:
        try:
            manifest, files = _open_files(directory, open_files)
        except CorruptBundleError as error:
            return BundleReport(directory, "", "", 0, 0, 0, (str(error),))
        for member in manifest.distinct_members():
            path = directory / member.file
            try:
                _load(path, files[member.file], member, mmap=True, verify=True)
            except CorruptBundleError as error:
                problems.append(str(error))
    return BundleReport(
        directory,
        manifest.kind,
        manifest.name,
        manifest.version,
        len(manifest.members),
        sum(member.n_bytes for member in manifest.distinct_members()),
        tuple(problems),
    )


def _open_files(
    directory: Path, open_files: ExitStack, kind: str | None = None
) -> tuple[Manifest, dict[str, FileIO | None]]:
    """Open all members of one manifest before any is read; None for missing ones.

    A concurrent save may remove members of the older manifest; then the newer one is opened. Once
    open, a file stays readable when its name is removed.
    """
    manifest = read_manifest(directory, kind)
    for _ in range(_MAX_TRIES):
        files: dict[str, FileIO | None] = {}
        for member in manifest.distinct_members():
            files[member.file] = None
            with suppress(FileNotFoundError):
                file = _files.open_regular(directory / member.file)
                files[member.file] = open_files.enter_context(file)
        if None not in files.values():
            break
        newer = read_manifest(directory)
        if newer == manifest:
            break
        manifest = newer
    return manifest, files


def _load(
    path: Path, file: FileIO | None, member: Member, mmap: bool, verify: bool
) -> dict[str, Array]:
    if file is None:
        raise CorruptBundleError(f"{path} is missing")
    n_bytes = os.fstat(file.fileno()).st_size
    if n_bytes != member.n_bytes:
        raise CorruptBundleError(f"{path} has {n_bytes} bytes, expected {member.n_bytes}")
    if n_bytes == 0:
        raise CorruptBundleError(f"{path} is empty")
    content = _map(file, n_bytes) if mmap else _read(file, n_bytes, path)
    verify = verify or n_bytes <= _ALWAYS_VERIFIED_BYTES
    if verify and hashlib.sha256(content.data).hexdigest() != member.sha256:
        raise CorruptBundleError(f"{path} is damaged: its SHA-256 does not match")
    return member_arrays(content, str(path))


def _map(file: FileIO, n_bytes: int) -> Array:
    mapped = memory_map.mmap(file.fileno(), n_bytes, access=memory_map.ACCESS_READ)
    return np.frombuffer(mapped, dtype=np.uint8)


def _read(file: FileIO, n_bytes: int, path: Path) -> Array:
    content = np.fromfile(file, dtype=np.uint8, count=n_bytes)
    if content.size < n_bytes:
        raise CorruptBundleError(f"{path} was truncated during reading")
    content.flags.writeable = False
    return content
