"""WebDataset: samples in tar files, also those of img2dataset.

Consecutive members that share the name up to the first dot are one sample.
"""

import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools
from acqh._core.files import parse_json
from acqh.data.readers.arrays import map_rows, read_header, reject_objects
from acqh.data.readers.columns import Entry, Table, chain_files, data_files, guarded, parts_of
from acqh.data.readers.tables import arrow_records
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError

_IMAGES = ("jpg", "jpeg", "png", "webp")
_TEXT, _CLASS, _JSON, _VECTOR = "txt", "cls", "json", "npy"
# Maximum size of an image, text or vector.
_MAX_MEMBER_BYTES = 2**28
_BLOCK_BYTES = tarfile.BLOCKSIZE
# Errors of tarfile for damaged headers; chained headers raise RecursionError.
_BROKEN = (tarfile.TarError, EOFError, ValueError, ArithmeticError, LookupError, RecursionError)

# The key of a sample, and its members by the name after the first dot.
_Sample = tuple[str, dict[str, tarfile.TarInfo]]


def tar_files(path: Path) -> list[Path]:
    """Return a tar file, or the tar files of a folder."""
    return data_files(path.iterdir(), TarTable.suffixes) if path.is_dir() else [path]


class TarTable(Table):
    """Vectors in ``.npy`` members, one per sample, with their texts, classes and keys.

    Raises CorruptBundleError for a damaged file.
    """

    is_paired = True
    title, suffixes, noun = "WebDataset", (".tar",), "member"
    no_views = "no .npy members, so no view; use acqh build to encode images and texts"

    def _open(self) -> None:
        listed = self.parts.get("", ())
        files = [file.path for file in listed] or tar_files(self.path)
        self._samples = {file: list(_samples(file)) for file in files}
        if not listed:
            listed = chain_files((file, len(samples)) for file, samples in self._samples.items())
            self.parts = {"": listed}
        n_rows = listed[-1].first_row + listed[-1].n_rows if listed else 0
        members = {
            kind: (file, member)
            for file, samples in self._samples.items()
            for _, parts in samples
            for kind, member in parts.items()
        }
        self.entries = {"id": Entry("id", (n_rows,), "U", "id")}
        for kind, form in ((_TEXT, "text"), (_CLASS, "labels")):
            if kind in members:
                self.entries[form] = Entry(form, (n_rows,), "O", kind)
        for kind, (file, member) in members.items():
            if kind.endswith(_VECTOR):
                row = _vector(file, member)
                name = kind.removesuffix(_VECTOR).rstrip(".") or "vectors"
                self.entries[name] = Entry(name, (n_rows, row.size), row.dtype.kind, kind)

    def _rows(self, start: int, stop: int) -> Iterator[tuple[Path, _Sample]]:
        for file in parts_of(self.parts, start, stop)[""]:
            rows = slice(max(start - file.first_row, 0), max(stop - file.first_row, 0))
            for sample in self._samples[file.path][rows]:
                yield file.path, sample

    def take(self, entry: Entry, start: int, stop: int) -> Array:
        """Return keys, texts or classes."""
        if entry.form == "id":
            return np.array([key for _, (key, _) in self._rows(start, stop)])
        texts = [_text(file, members, entry.form) for file, (_, members) in self._rows(start, stop)]
        return np.fromiter(texts, object, len(texts))

    def take_labels(self, entry: Entry, start: int, stop: int) -> list[list[str]]:
        """Return the class of each sample."""
        return [[label.strip()] if label else [] for label in self.take(entry, start, stop)]

    def take_view(self, entry: Entry, start: int, stop: int) -> tuple[Array, Bools]:
        """Return the vectors of samples, and a mask of the samples that have one."""
        matrix = np.zeros((stop - start, entry.shape[1]), np.float32)
        present = np.zeros(stop - start, bool)
        for number, (file, (key, members)) in enumerate(self._rows(start, stop)):
            if entry.form in members:
                row = _vector(file, members[entry.form])
                if row.size != entry.shape[1]:
                    raise ViewError(
                        f"{key}.{entry.form} of {file.name} has {row.size} numbers, expected "
                        f"{entry.shape[1]}; all vectors of a view must have the same length"
                    )
                matrix[number], present[number] = row.reshape(-1), True
        return matrix, present


def tar_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield samples (image, text, labels and metadata) with their places, for messages."""
    files = tar_files(path)
    for file in files:
        sidecar = file.with_suffix(".parquet")
        facts: dict[str, Any] = {}
        if sidecar.is_file():  # of img2dataset; also lists rows that failed
            facts = {str(row.get("key")): row for _, row in arrow_records(sidecar)}
        for key, members in _samples(file):
            place = f"{file.name}, {key}"
            record = {**facts.get(key, {}), **_metadata(file, members, place)}
            fields = {name: value for name, value in record.items() if _is_plain(value)}
            caption = fields.pop("caption", None)
            image = next((members[kind] for kind in _IMAGES if kind in members), None)
            text, label = _text(file, members, _TEXT), _text(file, members, _CLASS)
            yield (
                place,
                {
                    **fields,
                    "id": key if len(files) == 1 else f"{file.stem}/{key}",
                    "image": None if image is None else _read(file, image),
                    "text": caption if text is None else text,
                    "labels": None if label is None else label.strip(),
                },
            )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _metadata(file: Path, members: dict[str, tarfile.TarInfo], place: str) -> dict[str, Any]:
    if _JSON not in members:
        return {}
    try:
        metadata = parse_json(_read(file, members[_JSON]))
    except ValueError as error:
        raise InvalidInputError(f"{place}: its .json is not JSON ({error})") from error
    return metadata if isinstance(metadata, dict) else {}


def _samples(file: Path) -> Iterator[_Sample]:
    """Yield the samples of a tar file; reads only the headers of its members."""
    members = []
    with guarded(file.name, *_BROKEN), tarfile.open(file, "r:") as tar:
        for member in tar:
            # Checked before the next header is sought: a negative size leads back to this one.
            if not 0 <= member.size <= _MAX_MEMBER_BYTES:
                raise CorruptBundleError(
                    f"{file.name} is damaged: {member.name!r} has {member.size:,} bytes; "
                    f"members have 0 to {_MAX_MEMBER_BYTES:,}"
                )
            if member.isreg() and not member.issparse():
                members.append(member)
        end = tar.offset
    # tarfile stops without an error at a damaged header or the end of a truncated file.
    with file.open("rb") as handle:
        handle.seek(end)
        if handle.read(_BLOCK_BYTES) != bytes(_BLOCK_BYTES):
            raise CorruptBundleError(
                f"{file.name} is damaged or cut off after {len(members)} members"
            )
    named = [(*_key(member.name), member) for member in members]
    for key, group in groupby(named, key=lambda member: member[0]):
        yield key, {kind: member for _, kind, member in group}


def _key(name: str) -> tuple[str, str]:
    folder, slash, last = name.removeprefix("./").rpartition("/")
    stem, _, kind = last.partition(".")
    return folder + slash + stem, kind.lower()


def _text(file: Path, members: dict[str, tarfile.TarInfo], kind: str) -> str | None:
    return _read(file, members[kind]).decode(errors="replace") if kind in members else None


def _read(file: Path, member: tarfile.TarInfo) -> bytes:
    with file.open("rb") as handle:
        handle.seek(member.offset_data)
        return handle.read(member.size)


def _vector(file: Path, member: tarfile.TarInfo) -> Array:
    """Return the array of a member, memory-mapped."""
    where = f"{member.name} of {file.name}"
    with file.open("rb") as handle:
        handle.seek(member.offset_data)
        header = read_header(handle, where, member.offset_data + member.size)
    reject_objects(header, where)
    if header.dtype.kind not in "buif":
        raise ViewError(f"{where} must contain numbers, got dtype {header.dtype}")
    rows = header.shape[0] if header.shape else 1
    return map_rows(file, header, header.offset, 0, rows, where)
