"""One frame of a video, decoded in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.imports import require
from acqh.errors import ImageError

VIDEO_SUFFIXES = frozenset((".3gp", ".avi", ".m4v", ".mkv", ".mov", ".mp4", ".webm"))
NEEDS_AV = "it is a video, which needs the package av: pip install 'acqh[video]'"
_PROGRAM = Path(__file__).with_name("video_frame.py")
# The program ends itself after 20 s of processor time.
_MAX_SECONDS = 60
# Brands of images in the same container as MP4, and of raw photos.
_STILL_BRANDS = (b"avif", b"avis", b"crx ", b"hei", b"hev", b"jxl", b"mif", b"msf")
_MATROSKA = b"\x1a\x45\xdf\xa3"
_QUICKTIME = (b"free", b"mdat", b"moov", b"skip", b"wide")


def video_type(prefix: bytes) -> str | None:
    """Return the media type of a video by its first 12 bytes, or None if it is something else.

    QuickTime is called MP4, which is nearly the same and which more browsers play.

    Examples
    --------
    >>> video_type(bytes(4) + b"ftypqt  "), video_type(bytes(4) + b"ftypheic")
    ('video/mp4', None)
    """
    box, brand = prefix[4:8], prefix[8:12]
    if box in _QUICKTIME or (box == b"ftyp" and not brand.startswith(_STILL_BRANDS)):
        return "video/mp4"
    if prefix.startswith(_MATROSKA):
        return "video/webm"
    return "video/x-msvideo" if prefix.startswith(b"RIFF") and brand == b"AVI " else None


def reads_videos() -> bool:
    """Whether the extra ``video`` is installed."""
    return find_spec("av") is not None


def read_frame(path: str | PathLike[str], name: str, side: int, max_pixels: int) -> Any:
    """Return an upright frame of a video as a Pillow image; `info` has ``is_video`` and ``date``.

    `name`: prefix of error messages. `side`: the longest side, in pixels. Raises ImageError: it
    cannot be decoded, in 20 s and 3 GB, or has more than `max_pixels` pixels.
    """
    if not reads_videos():
        raise ImageError(f"{name} cannot be read: {NEEDS_AV}")
    # Without -P, modules of this package would hide others of the same name.
    command = [sys.executable, "-P", str(_PROGRAM), str(side), str(max_pixels)]
    why = "its video takes too much time or memory to decode, or is damaged"
    try:
        with Path(path).open("rb") as file:
            run = subprocess.run(
                command, stdin=file, capture_output=True, timeout=_MAX_SECONDS, check=False
            )
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"{name} cannot be read: {why}") from error
    line, _, pixels = run.stdout.partition(b"\n")
    facts: dict[str, Any] = json.loads(line) if run.returncode == 0 else {"error": why}
    if "error" in facts:
        raise ImageError(f"{name} cannot be read: {facts['error']}")
    size = facts["width"], facts["height"]
    image = require("PIL.Image").frombytes("RGB", size, pixels)
    image = image.rotate(facts["rotation"], expand=True)
    image.info |= {"is_video": True, "date": _date(facts["metadata"])}
    return image


def _date(metadata: Mapping[str, str]) -> str | None:
    """Return the local time at which a video was taken, in ISO format.

    Examples
    --------
    >>> _date({"com.apple.quicktime.creationdate": "2021-03-14T19:03:29+0100"})
    '2021-03-14T19:03:29'
    """
    try:
        if local := metadata.get("com.apple.quicktime.creationdate"):
            moment = datetime.fromisoformat(local)
        else:  # in UTC
            moment = datetime.fromisoformat(metadata["creation_time"]).astimezone()
    except (KeyError, ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")
