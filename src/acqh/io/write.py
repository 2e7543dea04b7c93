"""Write bundles atomically: an interruption leaves the old or the new one complete."""

import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from acqh._core import files
from acqh._core.arrays import Array
from acqh.errors import InvalidInputError
from acqh.io.manifest import FORMAT, MANIFEST_NAME, MAX_MEMBERS, Manifest, Member, claimed_format
from acqh.io.members import member_header, write_member

_log = logging.getLogger(__name__)

# Only this module creates files with these names, so it may remove them.
_BUNDLE_FILE = re.compile(r"[0-9a-f]{32}\.safetensors|tmp-[0-9a-f]{16}\.partial")


def write_bundle(
    path: str | os.PathLike[str],
    *,
    kind: str,
    arrays: Mapping[str, Mapping[str, Array]],
    name: str = "",
    info: Mapping[str, Any] | None = None,
) -> None:
    """Write named arrays and JSON values to a directory; replace an existing bundle atomically.

    The rename of the manifest is the commit point. An error, a full disk, a killed process or a
    power cut leaves the old or the new bundle complete. Open bundles stay readable. Writers of one
    path wait for each other.

    Parameters
    ----------
    path : path-like
        The directory; created if it does not exist. Its parent must exist.
    kind : str
        Type of the stored object, such as ``"code-index"``.
    arrays : mapping of str to mapping of str to ndarray
        Member name to named arrays: integers or floats, at most 8 dimensions. Each member is
        written in bounded memory, without a copy of its arrays.
    name : str, default ""
        A title.
    info : mapping, optional
        JSON values to store in the manifest, at most 4 MiB.

    Raises
    ------
    InvalidInputError
        A value cannot be stored in a bundle; nothing was written.
    FileExistsError
        The path is a file, or a directory with something other than a bundle in it.
    OSError
        Writing failed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "numbers.acqh")
    >>> write_bundle(path, kind="numbers", arrays={"all": {"even": np.arange(0, 6, 2)}})
    >>> from acqh.io import read_bundle
    >>> read_bundle(path).arrays("all")["even"]
    array([0, 2, 4])
    >>> folder.cleanup()
    """
    directory = Path(path)
    info = dict(info or {})
    _check(kind, name, info, arrays)
    files.make_directory(directory)
    with files.locked(directory):
        _check_target(directory)
        with _removed_on_failure(directory) as written:
            members = {
                member: _write_one(directory, content, written)
                for member, content in arrays.items()
            }
            manifest = directory / _temporary_name()
            written.append(manifest)
            with files.create(manifest) as file:
                files.write(file, memoryview(Manifest(kind, name, info, members).to_bytes()))
                files.sync(file)
            files.sync_directory(directory)
        # The commit point. Even if this raises, the rename may have happened (network file
        # systems), so no file of the new manifest is removed from here on.
        files.rename(manifest, directory / MANIFEST_NAME)
        # Until this rename is on disk, a power cut may restore the old manifest.
        files.sync_directory(directory)
        _remove_strays(directory, {member.file for member in members.values()})


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write one small file atomically: an interruption leaves the old or the new one complete.

    For small files such as tables and settings; store arrays in bundles.

    Parameters
    ----------
    path : path-like
        The file; its directory must exist.
    content : bytes

    Raises
    ------
    OSError
        Writing failed; the old file is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "notes.txt")
    >>> replace_file(path, b"first")
    >>> replace_file(path, b"second")
    >>> path.read_bytes()
    b'second'
    >>> folder.cleanup()
    """
    with files.atomic_write(Path(path)) as temporary, files.create(temporary) as file:
        files.write(file, memoryview(content))


def _check(
    kind: str, name: str, info: dict[str, Any], arrays: Mapping[str, Mapping[str, Array]]
) -> None:
    if not isinstance(kind, str) or not kind or not isinstance(name, str):
        raise InvalidInputError(f"kind and name must be strings, got {kind!r} and {name!r}")
    if len(arrays) > MAX_MEMBERS:
        raise InvalidInputError(f"arrays has {len(arrays)} members; use at most {MAX_MEMBERS}")
    for member, content in arrays.items():
        if not isinstance(member, str):
            raise InvalidInputError(f"member names must be strings, got {member!r}")
        member_header(content)
    Manifest(kind, name, info).to_bytes()


def _check_target(directory: Path) -> None:
    """Raise FileExistsError unless the directory has only a bundle or files of a killed writer."""
    names = files.names(directory)
    if MANIFEST_NAME in names:
        is_bundle = claimed_format(directory) == FORMAT
    else:
        is_bundle = all(_BUNDLE_FILE.fullmatch(name) for name in names)
    if not is_bundle:
        raise FileExistsError(
            f"{directory} contains other files than an acqh bundle; use another path"
        )


def _temporary_name() -> str:
    return f"tmp-{secrets.token_hex(8)}.partial"


@contextmanager
def _removed_on_failure(directory: Path) -> Iterator[list[Path]]:
    """Yield a list for paths of new files; if the block fails, remove them."""
    before = files.names(directory)
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for path in written:
            # A member with the same content may belong to the old bundle.
            if path.name not in before:
                with suppress(OSError):
                    files.unlink(path)
        raise


def _write_one(directory: Path, arrays: Mapping[str, Array], written: list[Path]) -> Member:
    temporary = directory / _temporary_name()
    written.append(temporary)
    member = Member(*write_member(temporary, arrays))
    written.append(directory / member.file)
    files.rename(temporary, directory / member.file)
    return member


def _remove_strays(directory: Path, keep: set[str]) -> None:
    """Remove members of older bundles and temporary files of killed writers; no other files."""
    try:
        for name in files.names(directory) - keep:
            if _BUNDLE_FILE.fullmatch(name):
                files.unlink(directory / name)
    except OSError as error:
        # The bundle is complete; the next save retries.
        _log.warning("cannot remove unused files in %s: %s", directory, error)
