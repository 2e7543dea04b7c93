"""The manifest of a bundle: its type and members, with a checksum of the manifest itself."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acqh._core import files
from acqh.errors import CorruptBundleError, InvalidInputError

FORMAT = "acqh-bundle"
VERSION = 1
MANIFEST_NAME = "manifest.json"
# Parsed JSON needs up to 30 times the memory of its text.
MAX_MANIFEST_BYTES = 1 << 22
# Each member keeps a file open; systems often allow a process about a thousand.
MAX_MEMBERS = 256
_CHECKSUM = "manifest_sha256"
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Names of the kinds of bundles in messages.
_IN_WORDS = {
    "code-index": "an index of codes",
    "code-parts": "a folder of codes",
    "collection": "a collection",
    "hamming-index": "an index of binary codes",
    "index": "an index",
    "method": "a model",
}
_FIELDS = {"format", "version", "kind", "name", "info", "members", _CHECKSUM}


@dataclass(frozen=True)
class Member:
    """One file of a bundle, with its size and checksum from the manifest."""

    n_bytes: int
    sha256: str

    @property
    def file(self) -> str:
        """Name of the file, derived from its checksum: it never leads outside the bundle."""
        return f"{self.sha256[:32]}.safetensors"


@dataclass(frozen=True)
class Manifest:
    """A parsed manifest."""

    kind: str
    name: str
    info: dict[str, Any]
    members: Mapping[str, Member] = field(default_factory=dict)
    version: int = VERSION

    def distinct_members(self) -> list[Member]:
        """Return the members without repeats: members with the same content share a file."""
        return list({member.file: member for member in self.members.values()}.values())

    def to_bytes(self) -> bytes:
        """Return the file's content: readable JSON with the checksum of its canonical form.

        Raises InvalidInputError: the info is not JSON, or too long.
        """
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "kind": self.kind,
            "name": self.name,
            "info": self.info,
            "members": {
                name: {"file": member.file, "bytes": member.n_bytes, "sha256": member.sha256}
                for name, member in self.members.items()
            },
        }
        try:
            canonical = _canonical(fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"info must hold JSON values only: {error}") from error
        if json.loads(canonical) != fields:
            raise InvalidInputError(
                "info changes when it is stored as JSON; use only dicts with string keys, lists, "
                "strings, numbers, booleans and None"
            )
        fields[_CHECKSUM] = hashlib.sha256(canonical).hexdigest()
        content = json.dumps(fields, indent=1, allow_nan=False).encode("ascii")
        if len(content) > MAX_MANIFEST_BYTES:
            raise InvalidInputError(
                f"info and name take {len(content)} bytes, more than {MAX_MANIFEST_BYTES}; "
                "store large data as arrays"
            )
        return content

    @classmethod
    def parse(cls, content: bytes, where: str) -> "Manifest":
        """Parse the content of a manifest.

        `where`: name of the bundle in errors. Raises CorruptBundleError: the manifest is damaged,
        of another format, or of a newer version.
        """
        fields = _parse_json(content, where)
        if fields.get("format") != FORMAT:
            raise CorruptBundleError(
                f"{where} is not an acqh bundle: its {MANIFEST_NAME} has the format "
                f"{fields.get('format')!r:.50}, not {FORMAT!r}"
            )
        version = fields.get("version")
        if type(version) is not int or version < 1:
            raise CorruptBundleError(f"{where} has the invalid version {version!r:.50}")
        if version > VERSION:
            raise CorruptBundleError(
                f"{where} has version {version}; this acqh reads bundles up to version {VERSION}: "
                "install a newer acqh"
            )
        _check_checksum(fields, where)
        match fields:
            case {"kind": str(kind), "name": str(name), "info": dict(info)} if kind:
                members = _parse_members(fields.get("members"), where)
                return cls(kind, name, info, members, version)
        raise CorruptBundleError(f"{where} has a manifest without kind, name or info")


def read_manifest(directory: Path, kind: str | None = None) -> Manifest:
    """Read and check the manifest of a bundle; `kind`: the expected kind, for errors.

    Raises FileNotFoundError: there is no bundle at the path. Raises CorruptBundleError: the
    manifest is damaged, of another format, or of a newer version.
    """
    return Manifest.parse(_read_content(directory, kind), str(directory))


def claimed_format(directory: Path) -> Any:
    """Return the format of a manifest, even if the rest is damaged; None if it is unreadable."""
    try:
        return _parse_json(_read_content(directory), str(directory)).get("format")
    except CorruptBundleError:
        return None


def _read_content(directory: Path, kind: str | None = None) -> bytes:
    if not directory.exists():
        files.finish_replacing(directory)
    try:
        file = files.open_regular(directory / MANIFEST_NAME)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(_missing(directory, kind)) from None
    with file:
        content = file.read(MAX_MANIFEST_BYTES + 1)
    if len(content) > MAX_MANIFEST_BYTES:
        raise CorruptBundleError(f"{directory} has a manifest that is too long")
    return content


def in_words(kind: str) -> str:
    """Return the name of a kind of bundle in messages.

    Examples
    --------
    >>> in_words("method"), in_words("numbers")
    ('a model', "a bundle of kind 'numbers'")
    """
    return _IN_WORDS.get(kind, f"a bundle of kind {kind!r}")


def _missing(directory: Path, kind: str | None) -> str:
    """Return the message for a path without a bundle."""
    if not directory.exists():
        noun = "nothing" if kind is None else "no " + in_words(kind).split(" ", 1)[1]
        return f"there is {noun} at {directory}"
    state = "was not written by acqh" if kind is None else f"is not {in_words(kind)}"
    return f"{directory} {state}: it has no {MANIFEST_NAME}"


def _canonical(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _parse_json(content: bytes, where: str) -> dict[str, Any]:
    try:
        fields = files.parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise CorruptBundleError(f"{where} has a manifest that is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptBundleError(f"{where} has a manifest that is not a JSON object")
    return fields


def _check_checksum(fields: dict[str, Any], where: str) -> None:
    if fields.keys() != _FIELDS:
        raise CorruptBundleError(f"{where} has a manifest with missing or unknown fields")
    try:
        canonical = _canonical({key: fields[key] for key in fields if key != _CHECKSUM})
    except (ValueError, RecursionError) as error:
        raise CorruptBundleError(f"{where} has a manifest that is not JSON: {error}") from error
    if fields[_CHECKSUM] != hashlib.sha256(canonical).hexdigest():
        raise CorruptBundleError(f"{where} has a damaged manifest: its checksum does not match")


def _parse_members(entries: Any, where: str) -> dict[str, Member]:
    if not isinstance(entries, dict) or len(entries) > MAX_MEMBERS:
        raise CorruptBundleError(f"{where} has a manifest without members, or with too many")
    members: dict[str, Member] = {}
    for name, entry in entries.items():
        match entry:
            case {"file": str(file), "bytes": int(n_bytes), "sha256": str(sha256), **others} if (
                not others
                and type(n_bytes) is int
                and n_bytes >= 0
                and _SHA256.fullmatch(sha256)
                and file == Member(n_bytes, sha256).file
            ):
                members[name] = Member(n_bytes, sha256)
            case _:
                raise CorruptBundleError(f"{where} has an invalid entry of member {name!r:.50}")
    return members
