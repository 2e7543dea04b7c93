"""The folder of a site: files named by their content, and an HTML page that is replaced last.

An export may be interrupted at any time. It writes new files before it replaces ``index.html``, and
removes unused ones afterwards, so it always has its files. Unused files are recognized by
their names, so the next export removes those of an interrupted one; it also repairs damaged files.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from acqh._core.files import sync_file
from acqh.io.write import replace_file

START = "index.html"
# Marks the folder of a site; written first.
_MARKER = "acqh-site.json"
_MARKER_CONTENT = b'{"written_by": "acqh export site"}\n'
_DATA = "data"
_DIGEST = "[0-9a-f]{16}"
_HOME = re.compile(f"static-{_DIGEST}")
# Files that exports write, in the folder and its subfolders; no others are ever removed.
_LEFT = re.compile(rf"\.({re.escape(START)}|{re.escape(_MARKER)})-{_DIGEST}\.partial")
_DATA_FILE = re.compile(rf"[a-z]+-{_DIGEST}\.(json|bin|txt|webp)")
_HOME_FILE = re.compile(r"[a-z]+\.(js|css|svg)")


@dataclass
class SiteFolder:
    """A folder that is missing, empty or a site's.

    Raises FileExistsError: there is something else, or a link where files are to be written.
    """

    path: Path
    files: dict[str, int] = field(default_factory=dict)  # bytes by name
    parts: dict[str, int] = field(default_factory=dict)
    n_written: int = 0

    def __post_init__(self) -> None:
        if self.path.exists() and not (self.path.is_dir() and self._is_free()):
            raise FileExistsError(f"{self.path} is not empty, and no site; give another folder")
        for part in (self.path / _DATA, *self._homes()):
            if part.is_symlink():
                raise FileExistsError(f"{part} is a link; a site holds its files itself")
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.path / _MARKER, _MARKER_CONTENT)
        self.parts["page"] = len(_MARKER_CONTENT)

    def put(self, part: str, name: str, content: bytes) -> str:
        """Write a file of the data, named by its content; return its name in the folder."""
        stem, _, kind = name.rpartition(".")
        return self._put(part, f"{_DATA}/{stem}-{digest(content)}.{kind}", content)

    def put_json(self, part: str, name: str, value: Any) -> str:
        """Write a value as JSON."""
        return self.put(part, f"{name}.json", to_json(value))

    def put_sources(self, part: str, sources: dict[str, bytes]) -> str:
        """Write files that refer to each other by name; return their folder."""
        home = f"static-{digest(b''.join(k.encode() + v for k, v in sorted(sources.items())))}"
        for name, content in sources.items():
            self._put(part, f"{home}/{name}", content)
        return home

    def finish(self, start: str) -> int:
        """Write ``index.html`` after all its files, and remove unused ones; return their number."""
        content = start.encode()
        self.parts["page"] += len(content)
        if hasattr(os, "sync"):
            os.sync()  # 500 files: 0.4 s, and 2.7 s one by one
        else:
            for name in self.files:
                sync_file(self.path / name)
        replace_file(self.path / START, content)
        unneeded = [path for path in self._exported() if self._name(path) not in self.files]
        for path in unneeded:
            path.unlink()
        for home in self._homes():
            if not any(home.iterdir()):
                home.rmdir()
        return len(unneeded)

    def _put(self, part: str, name: str, content: bytes) -> str:
        folder, _, file = name.partition("/")
        pattern = _DATA_FILE if folder == _DATA else _HOME_FILE
        if not pattern.fullmatch(file):
            raise ValueError(f"a later export could not remove {name}")
        self.files[name] = len(content)
        self.parts[part] = self.parts.get(part, 0) + len(content)
        (self.path / folder).mkdir(exist_ok=True)
        target = self.path / name
        if target.is_symlink():
            target.unlink()
        if not (target.is_file() and target.read_bytes() == content):
            target.write_bytes(content)  # it is new or damaged
            self.n_written += 1
        return name

    def _is_free(self) -> bool:
        """Whether the folder is a site's, or holds at most what an export's first step left."""
        names = (path.name for path in self.path.iterdir())
        return (self.path / _MARKER).is_file() or all(map(_LEFT.fullmatch, names))

    def _exported(self) -> Iterator[Path]:
        """Yield the files that exports wrote, except ``index.html`` and the marker."""
        homes = ((home, _HOME_FILE) for home in self._homes())
        for folder, pattern in ((self.path, _LEFT), (self.path / _DATA, _DATA_FILE), *homes):
            for path in sorted(folder.iterdir()):
                if pattern.fullmatch(path.name) and (path.is_symlink() or path.is_file()):
                    yield path

    def _homes(self) -> list[Path]:
        folders = [path for path in sorted(self.path.glob("static-*")) if path.is_dir()]
        return [path for path in folders if _HOME.fullmatch(path.name)]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()


def digest(content: bytes) -> str:
    """Return the digest of a file for its name."""
    return sha256(content).hexdigest()[:16]


def to_json(value: Any) -> bytes:
    """Return a value as JSON, the same bytes each time."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
