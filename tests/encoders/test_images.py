"""Large images are read in little memory, and smaller where that is enough."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from acqh.encoders import read_image
from acqh.encoders.images import image_date, image_limit
from acqh.errors import ImageError

Image = pytest.importorskip("PIL.Image")


def smooth(width: int, height: int, mode: str = "RGB") -> Any:
    """Return a picture whose colours change slowly, so that reducing it loses nothing."""
    across = np.linspace(0, 255, width)[np.newaxis, :, np.newaxis]
    down = np.linspace(0, 255, height)[:, np.newaxis, np.newaxis]
    pixels = np.broadcast_to((across + down) / 2, (height, width, 3))
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode)


def as_bytes(image: Any, kind: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_a_large_image_comes_out_small_and_looks_the_same(kind: str) -> None:
    image = smooth(1500, 1001)
    small = read_image(as_bytes(image, kind), side=100)
    assert 200 <= max(small.size) < 400
    expected = np.asarray(image.resize((100, 67)), dtype=float)
    np.testing.assert_allclose(np.asarray(small.resize((100, 67)), dtype=float), expected, atol=12)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK"])
def test_bands_do_not_show(mode: str) -> None:
    image = smooth(2100, 1100, mode)
    full = read_image(image)
    assert full.size == (2100, 1100)  # more than one band
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    np.testing.assert_array_equal(np.asarray(full), np.asarray(white.convert("RGB")))


def test_an_image_that_is_small_enough_keeps_every_pixel() -> None:
    image = smooth(300, 180)
    content = as_bytes(image, "PNG")
    np.testing.assert_array_equal(np.asarray(read_image(content, side=150)), np.asarray(image))


def test_transparency_and_orientation_outlive_reduction() -> None:
    clear = Image.new("RGBA", (1200, 400), (255, 0, 0, 0))
    assert read_image(as_bytes(clear, "PNG"), side=50).getpixel((3, 3)) == (255, 255, 255)
    exif = Image.Exif()
    exif[0x0112] = 6
    width, height = read_image(as_bytes(smooth(1200, 400), "JPEG", exif=exif), side=50).size
    assert height > 2 * width


def peak_of_reading(save: str) -> int:
    """Return by how many MiB a process grows that reads a file which another one has saved."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "image")
        saving = f"from PIL import Image\npath = {str(path)!r}\n{save}"
        subprocess.run([sys.executable, "-c", saving], check=True)
        reading = f"""
import resource
from acqh.encoders.images import open_image, working_image
open_image({str(path)!r}).close()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert max(working_image({str(path)!r}).size) == 512
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
        run = [sys.executable, "-c", reading]
        return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


def test_a_bomb_of_one_bit_takes_little_more_memory_than_its_pixels() -> None:
    # Fifty megapixels in 6 KB.
    assert peak_of_reading('Image.new("1", (10_000, 5_000)).save(path, "PNG")') < 150


KINDS = ['"JPEG"', '"PNG", compress_level=1', '"TIFF"', '"TIFF", compression="tiff_lzw"']


@pytest.mark.parametrize("kind", KINDS)
def test_a_photo_of_108_megapixels_takes_little_memory(kind: str) -> None:
    # Whole, it takes 432 MB.
    assert peak_of_reading(f'Image.new("RGB", (12_000, 9_000), "red").save(path, {kind})') < 120


STRIPPED = [
    *(("PNG", mode, {}) for mode in ("RGB", "RGBA", "LA")),
    *(("TIFF", mode, {}) for mode in ("RGB", "RGBA", "CMYK")),
    *(("TIFF", "RGB", {"compression": name}) for name in ("tiff_lzw", "tiff_deflate", "jpeg")),
]


@pytest.mark.parametrize(("kind", "mode", "options"), STRIPPED)
def test_strips_show_what_the_whole_image_shows(
    kind: str, mode: str, options: dict[str, Any]
) -> None:
    image = smooth(1_900, 1_303, mode)
    if "A" in mode:
        image.putalpha(image.getchannel(0))
    content = as_bytes(image, kind, **options)
    full = read_image(content, side=100)
    with image_limit(1_000_000):
        strips = read_image(content, side=100)
        for end in (len(content) // 2, len(content) - 40):
            with suppress(ImageError):
                read_image(content[:end], side=100)
    np.testing.assert_array_equal(np.asarray(strips), np.asarray(full))


@pytest.mark.parametrize(
    "options", [{"tile": (64, 128)}, {"byteorder": ">"}, {"rowsperstrip": 7}], ids=str
)
@pytest.mark.parametrize("depth", [np.uint8, np.uint16])
def test_tiles_and_strips_of_other_programs_are_read(options: dict[str, Any], depth: Any) -> None:
    tifffile = pytest.importorskip("tifffile")
    pixels = np.asarray(smooth(1_900, 1_303)).astype(depth) * (257 if depth is np.uint16 else 1)
    file = BytesIO()
    tifffile.imwrite(file, pixels, photometric="rgb", **options)
    full = read_image(file.getvalue(), side=100)
    with image_limit(1_000_000):
        strips = read_image(file.getvalue(), side=100)
    np.testing.assert_array_equal(np.asarray(strips), np.asarray(full))


def test_panoramas_are_read_reduced_whatever_their_shape() -> None:
    content = as_bytes(smooth(12_000, 300), "JPEG")
    with image_limit(1_000_000):
        assert max(read_image(content, side=512).size) in range(1024, 2048)
        with pytest.raises(ImageError, match="pixels"):
            read_image(content)


@pytest.mark.parametrize(
    ("mode", "kind", "options"),
    [("RGB", "JPEG", {"progressive": True}), ("L", "JPEG", {"progressive": 1}), ("RGB", "BMP", {})],
)
def test_images_that_are_decoded_whole_keep_to_the_limit(
    mode: str, kind: str, options: dict[str, Any]
) -> None:
    content = as_bytes(smooth(2_100, 1_000, mode), kind, **options)
    with image_limit(2_000_000), pytest.raises(ImageError, match="2000000"):
        read_image(content, side=64)


def test_no_image_has_more_than_four_times_the_limit() -> None:
    for kind in ("JPEG", "PNG"):
        content = as_bytes(Image.new("L", (2_100, 2_000)), kind)
        with image_limit(1_000_000), pytest.raises(ImageError, match="1000000"):
            read_image(content, side=64)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_grey_of_16_bits_is_scaled_not_clipped(kind: str) -> None:
    row = np.linspace(0, 65_535, 256).astype(np.uint16)
    deep = Image.fromarray(np.tile(row, (4_000, 1)))  # more than one band
    grey = np.asarray(read_image(as_bytes(deep, kind)))
    assert (grey == np.arange(256)[:, np.newaxis]).all()


@pytest.mark.parametrize("white", [1.0, 255.0, 65_535.0, 1e9])
def test_grey_of_fractions_is_scaled_by_its_range(white: float) -> None:
    values = np.linspace(0, white, 256, dtype=np.float32).reshape(16, 16)
    values[0, 0] = np.nan
    grey = np.asarray(read_image(as_bytes(Image.fromarray(values), "TIFF")))[..., 0]
    np.testing.assert_allclose(grey.ravel(), np.arange(256), atol=1)


def test_heic_is_read_with_pillow_heif() -> None:
    heif = pytest.importorskip("pillow_heif")
    file = BytesIO()
    heif.from_pillow(Image.new("RGB", (64, 48), (200, 30, 30))).save(file)
    image = read_image(file.getvalue())
    assert image.size == (64, 48)
    np.testing.assert_allclose(image.getpixel((20, 20)), (200, 30, 30), atol=12)


def test_heic_without_pillow_heif_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from acqh.encoders import images

    monkeypatch.setattr(images, "image_formats", lambda: images._FORMATS)
    with pytest.raises(ImageError, match=r"pip install 'acqh\[images\]'"):
        read_image(b"\0\0\0\x18ftypheic" + bytes(100))


def test_the_date_of_a_photograph_comes_from_its_exif_data(tmp_path: Any) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2014:07:01 12:30:00"
    exif[0x0132] = "2020:01:01 00:00:00"
    image = smooth(8, 8)
    for name in ("a.jpg", "a.png", "a.webp"):
        image.save(tmp_path / name, exif=exif)
        assert image_date(tmp_path / name) == "2014-07-01T12:30:00", name
    exif = Image.Exif()
    exif[0x0132] = "0000:00:00 00:00:00"
    image.save(tmp_path / "b.jpg", exif=exif)
    image.save(tmp_path / "b.png")
    (tmp_path / "c.jpg").write_bytes(b"no image")
    for name in ("b.jpg", "b.png", "c.jpg", "none.jpg"):
        assert image_date(tmp_path / name) is None, name


def test_a_raised_limit_does_not_change_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    content = as_bytes(Image.new("L", (3_000, 1_000)), "PNG")
    with image_limit(4_000_000):
        assert Image.MAX_IMAGE_PIXELS == 1_000_000
        assert read_image(content).size == (3_000, 1_000)


def test_limits_of_threads_that_overlap_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    content = as_bytes(Image.new("L", (3_000, 1_000)), "PNG")
    first_inside, second_inside, first_left = (threading.Event() for _ in range(3))

    def first() -> None:
        with image_limit(500_000):
            first_inside.set()
            second_inside.wait(60)
            with pytest.raises(ImageError, match="500000"):
                read_image(content)
        first_left.set()

    def second() -> Any:
        first_inside.wait(60)
        with image_limit(4_000_000):
            second_inside.set()
            first_left.wait(60)
            return read_image(content).size

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(first), pool.submit(second)]
        assert [run.result(60) for run in runs] == [None, (3_000, 1_000)]
    assert Image.MAX_IMAGE_PIXELS == 1_000_000
