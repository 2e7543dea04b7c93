"""Program that decodes one frame of the video on standard input; see `videos`.

It runs in a process of its own, because damaged videos may take any time and memory, or crash. It
imports nothing else of this package: it starts in a tenth of a second.
"""

import json
import sys
from contextlib import suppress
from typing import Any

import av

# Other demultiplexers may open further files, or addresses in a network.
_OPTIONS = {"format_whitelist": "mov,matroska,avi", "protocol_whitelist": ""}
# Where in the video to look. The first frames are often black; so may be those at a tenth.
_SHARES = (0.1, 0.5)
_MIN_CONTRAST = 24
# A frame of 8K with the frames that it depends on takes less.
_MAX_BYTES = 3 * 2**30
_MAX_SECONDS = 20


def main(side: int, max_pixels: int) -> None:
    """Write the facts in a line of JSON, then the pixels: RGB, row by row."""
    _limit_resources()
    av.logging.set_level(None)
    pixels = b""
    try:
        facts, pixels = _read(side, max_pixels)
    except (av.error.FFmpegError, MemoryError, ValueError) as error:
        facts = {"error": getattr(error, "strerror", None) or str(error) or type(error).__name__}
    sys.stdout.buffer.write(json.dumps(facts).encode() + b"\n" + pixels)


def _limit_resources() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))


def _read(side: int, max_pixels: int) -> tuple[dict[str, Any], bytes]:
    with av.open(sys.stdin.buffer, options=_OPTIONS) as container:
        if not container.streams.video:
            raise ValueError("it has no pictures")
        stream = container.streams.video[0]
        if stream.width * stream.height > max_pixels:
            raise ValueError(f"it has {stream.width} x {stream.height} pixels")
        stream.codec_context.thread_count = 1
        frame = _choose(container, stream)
        scale = min(1.0, side / max(frame.width, frame.height))
        width, height = max(1, round(scale * frame.width)), max(1, round(scale * frame.height))
        facts = {"width": width, "height": height, "rotation": frame.rotation}
        metadata = {**stream.metadata, **container.metadata}
        return facts | {"metadata": metadata}, _pixels(frame, width, height, "rgb24")


def _choose(container: Any, stream: Any) -> Any:
    """Return the first frame from the places to look that is not of one colour."""
    frame = None
    for share in _SHARES if container.duration else ():
        with suppress(av.error.FFmpegError, StopIteration):
            container.seek(int(share * container.duration))
            frame = next(container.decode(stream))
            sample = _pixels(frame, 16, 16, "gray")
            if max(sample) - min(sample) >= _MIN_CONTRAST:
                return frame
    if frame is None:
        with suppress(av.error.FFmpegError):
            container.seek(0)
        frame = next(container.decode(stream), None)
    if frame is None:
        raise ValueError("it has no pictures")
    return frame


def _pixels(frame: Any, width: int, height: int, layout: str) -> bytes:
    """Return a frame of another size and layout, without the padding of its rows."""
    plane = frame.reformat(width, height, layout).planes[0]
    content, n_bytes = bytes(plane), width * (3 if layout == "rgb24" else 1)
    return b"".join(
        content[row * plane.line_size : row * plane.line_size + n_bytes] for row in range(height)
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
