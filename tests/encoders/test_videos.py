"""One frame of a video is read, upright and dated, and hostile ones do no harm."""

import resource
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acqh.encoders import read_image, videos
from acqh.encoders.images import image_limit, working_image
from acqh.errors import ImageError

pytest.importorskip("av")
RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture(scope="module")
def mp4(make_video: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_video(tmp_path_factory.mktemp("videos") / "a.mp4")


def turned(mp4: Path, folder: Path) -> Path:
    """Return a copy of a video that is to be shown turned clockwise by a quarter."""
    content = bytearray(mp4.read_bytes())
    matrix = content.index(b"tkhd") + 44
    values = (0, 65_536, 0, -65_536, 0, 0, 96 << 16, 0, 1 << 30)
    content[matrix : matrix + 36] = struct.pack(">9i", *values)
    (folder / "turned.mp4").write_bytes(content)
    return folder / "turned.mp4"


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.m4v", "a.mkv", "a.avi", "a.webm", "a.3gp"])
def test_a_frame_of_every_kind_of_video_is_read(make_video: Any, tmp_path: Path, name: str) -> None:
    size = (176, 144) if name == "a.3gp" else (160, 96)
    codec = "libvpx-vp9" if name == "a.webm" else "mpeg4"
    image = read_image(make_video(tmp_path / name, codec, size))
    assert (image.mode, image.size) == ("RGB", size)
    np.testing.assert_allclose(image.getpixel((20, 40)), RED, atol=25)
    np.testing.assert_allclose(image.getpixel((size[0] - 20, 40)), BLUE, atol=25)


def test_a_frame_is_upright_dated_and_no_larger_than_needed(mp4: Path, tmp_path: Path) -> None:
    image = read_image(turned(mp4, tmp_path), side=40)
    assert image.size == (48, 80)
    np.testing.assert_allclose(image.getpixel((24, 10)), RED, atol=25)  # now at the top
    assert image.info["date"][:10] in ("2021-03-14", "2021-03-15")  # of this time zone


def test_frames_of_one_colour_are_passed_over(make_video: Any, tmp_path: Path) -> None:
    image = read_image(make_video(tmp_path / "a.mp4", n_black=6))
    np.testing.assert_allclose(image.getpixel((20, 40)), RED, atol=25)


def test_without_pyav_the_error_says_what_to_install(
    mp4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videos, "find_spec", lambda _: None)
    with pytest.raises(ImageError, match=r"acqh\[video\]"):
        read_image(mp4)


def test_videos_of_too_many_pixels_are_not_decoded(mp4: Path) -> None:
    with image_limit(1_000), pytest.raises(ImageError, match="160 x 96"):
        read_image(mp4)


def test_a_playlist_that_names_other_files_is_not_followed(mp4: Path, tmp_path: Path) -> None:
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{mp4}\n#EXT-X-ENDLIST\n"
    for name, content in (("a.mp4", text), ("b.mkv", f"ffconcat version 1.0\nfile {mp4}\n")):
        (tmp_path / name).write_text(content)
        with pytest.raises(ImageError):
            read_image(tmp_path / name)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_damaged_videos_are_read_or_rejected(make_video: Any, tmp_path: Path, name: str) -> None:
    content = make_video(tmp_path / name).read_bytes()
    rng = np.random.default_rng(0)
    n_read = 0
    for turn in range(8):
        damaged = bytearray(content[: len(content) if turn % 2 else int(rng.integers(20, 4_000))])
        for place in rng.integers(12, len(damaged), 40 * (turn % 2)):
            damaged[place] = rng.integers(256)
        (tmp_path / name).write_bytes(damaged)
        with suppress(ImageError):
            n_read += working_image(tmp_path / name).mode == "RGB"
    assert n_read < 8


def test_a_video_that_takes_too_much_memory_ends_only_its_process(
    mp4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    source = videos._PROGRAM.read_text()
    assert "3 * 2**30" in source
    program.write_text(source.replace("3 * 2**30", "50 * 2**20"))
    monkeypatch.setattr(videos, "_PROGRAM", program)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ImageError, match="cannot be read"):
        read_image(mp4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_video_that_takes_too_long_is_stopped(
    mp4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(videos, "_PROGRAM", program)
    monkeypatch.setattr(videos, "_MAX_SECONDS", 0.5)
    with pytest.raises(ImageError, match="too much time"):
        read_image(mp4)


def test_the_program_does_not_import_this_package(mp4: Path) -> None:
    command: Any = [sys.executable, "-P", "-X", "importtime", str(videos._PROGRAM), "64", "99999"]
    with mp4.open("rb") as file:
        run = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert b" acqh" not in run.stderr
