"""How Hugging Face lays data sets out: which files ``save_to_disk`` wrote, splits, class names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acqh._core.files import parse_json
from acqh.data.readers.columns import guarded
from acqh.errors import CorruptBundleError

# What lies beside the files of a split, and above the folders of several.
_STATE, _SPLITS = "state.json", "dataset_dict.json"
# How the Hub names files.
_SPLIT_FILE = re.compile(r"(\w+)-\d{5}-of-\d{5}")


def dataset_files(path: Path) -> list[Path]:
    """Return the files that ``save_to_disk`` wrote, split by split; empty for other folders.

    Others that lie there are Hugging Face's cache. Raises CorruptBundleError: they are not listed.
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
    names = [each.get("filename") if isinstance(each, dict) else None for each in entries]
    return [folder / name for name in _plain_names(names, folder / _STATE)]


def _plain_names(names: Any, where: Path) -> list[str]:
    if not isinstance(names, list) or not names or not all(map(_is_plain_name, names)):
        raise CorruptBundleError(f"{where} does not list the files or folders beside it")
    return list(names)


def _is_plain_name(name: Any) -> bool:
    """Whether this names a file in its folder, and nothing above or beside it."""
    return (
        isinstance(name, str)
        and Path(name).name == name
        and name not in ("", "..")
        and "\0" not in name
    )


def _read_json(path: Path) -> dict[str, Any]:
    with guarded(str(path), OSError, ValueError, what="cannot be read"):
        found = parse_json(path.read_bytes())
    return found if isinstance(found, dict) else {}


def split_of(file: Path) -> str:
    """Return which split a file is of, or nothing."""
    if (file.parent / _STATE).is_file() and (file.parent.parent / _SPLITS).is_file():
        return file.parent.name
    match = _SPLIT_FILE.match(file.name)
    return match[1] if match and not (file.parent / _STATE).is_file() else ""


def class_names(metadata: Mapping[bytes, bytes], column: str) -> tuple[str, ...] | None:
    """Return what the class numbers of a column count, where the features of a schema say it."""
    try:
        feature = parse_json(metadata[b"huggingface"])["info"]["features"][column]
        return tuple(map(str, feature.get("feature", feature)["names"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
