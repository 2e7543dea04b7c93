"""Layout of Hugging Face data sets: files of ``save_to_disk``, splits, class names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acqh._core.files import parse_json
from acqh.data.readers.columns import guarded
from acqh.errors import CorruptBundleError

# Metadata in the folder of a split, and in the folder above several splits.
_STATE, _SPLITS = "state.json", "dataset_dict.json"
# File names on the Hub.
_SPLIT_FILE = re.compile(r"(\w+)-\d{5}-of-\d{5}")


def dataset_files(path: Path) -> list[Path]:
    """Return the files that ``save_to_disk`` wrote, split by split; empty for other folders.

    Other files in the folder are Hugging Face's cache. Raises CorruptBundleError if the metadata
    does not list the files.
    """
    if (path / _STATE).is_file():
        return _files_of_split(path)
    if not (path / _SPLITS).is_file():
        return []
    names = _read_json(path / _SPLITS).get("splits")
    return [
        file
        for folder in _plain_names(names, path / _SPLITS)
        for file in _files_of_split(path / folder)
    ]


def _files_of_split(folder: Path) -> list[Path]:
    listed = _read_json(folder / _STATE).get("_data_files")
    entries = listed if isinstance(listed, list) else []
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    return [folder / name for name in _plain_names(names, folder / _STATE)]


def _plain_names(names: Any, where: Path) -> list[str]:
    if not isinstance(names, list) or not names or not all(map(_is_plain_name, names)):
        raise CorruptBundleError(f"{where} does not list the files or folders next to it")
    return list(names)


def _is_plain_name(name: Any) -> bool:
    """Whether this is the name of a file in its folder, without a path."""
    return (
        isinstance(name, str)
        and Path(name).name == name
        and name not in ("", "..")
        and "\0" not in name
    )


def _read_json(path: Path) -> dict[str, Any]:
    with guarded(str(path), OSError, ValueError, problem="cannot be read"):
        content = parse_json(path.read_bytes())
    return content if isinstance(content, dict) else {}


def split_of(file: Path) -> str:
    """Return the split of a file, or an empty string."""
    if (file.parent / _STATE).is_file() and (file.parent.parent / _SPLITS).is_file():
        return file.parent.name
    match = _SPLIT_FILE.match(file.name)
    return match[1] if match and not (file.parent / _STATE).is_file() else ""


def class_names(metadata: Mapping[bytes, bytes], column: str) -> tuple[str, ...] | None:
    """Return the class names of a column from the features in a schema, or None."""
    try:
        feature = parse_json(metadata[b"huggingface"])["info"]["features"][column]
        return tuple(map(str, feature.get("feature", feature)["names"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
