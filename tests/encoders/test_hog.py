"""The picture encoder: exact colour shares, every kind of input, clear refusals."""

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acqh._core.store import pack, unpack
from acqh.encoders import HogColor, read_image
from acqh.errors import ImageError, InvalidInputError, MissingExtraError
from acqh.methods.registry import HOMES

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("skimage")


def picture(seed: int = 0, size: tuple[int, int] = (64, 64), mode: str = "RGB") -> Any:
    channels = {"RGB": 3, "RGBA": 4}[mode]
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], channels))
    return Image.fromarray(values.astype(np.uint8))


def as_bytes(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def huge_png(width: int, height: int) -> bytes:
    """Return a tiny file that claims to be an enormous picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_paths_bytes_and_images_give_the_same_features(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(as_bytes(picture()))
    rows = HogColor().transform([path, str(path), path.read_bytes(), picture()])
    assert rows.shape == (4, 544)
    assert rows.dtype == np.float32
    assert (rows == rows[0]).all()


def test_images_are_encoded_one_by_one() -> None:
    pictures = [picture(seed, (40 + seed, 70)) for seed in range(4)]
    together = HogColor().transform(pictures)
    parts = [HogColor().transform([item]) for item in pictures]
    np.testing.assert_array_equal(together, np.vstack(parts))


def test_no_images_give_no_rows() -> None:
    assert HogColor().transform([]).shape == (0, 544)


@pytest.mark.parametrize(
    "params",
    [{}, {"size": 96, "cells": 3}, {"orientations": 5, "hsv_bins": [4, 2, 3]}, {"cells": 8}],
)
def test_the_announced_width_is_the_width(params: dict[str, Any]) -> None:
    encoder = HogColor(**params)
    assert encoder.transform([picture()]).shape == (1, encoder.n_features_out)


def test_colour_shares_count_the_pixels_of_each_bin() -> None:
    image = picture()
    bins = (5, 3, 2)
    encoder = HogColor(hsv_bins=bins)
    shares = encoder.transform([image])[0, -30:].reshape(bins) ** 2
    expected = np.zeros(bins)
    for hue, saturation, value in np.asarray(image.convert("HSV")).reshape(-1, 3).tolist():
        expected[hue * 5 // 256, saturation * 3 // 256, value * 2 // 256] += 1 / 64**2
    np.testing.assert_allclose(shares, expected, atol=1e-6)


def test_gradients_follow_the_direction_of_edges() -> None:
    upright = np.zeros((64, 64, 3), dtype=np.uint8)
    upright[:, 28:36] = 255
    encoder = HogColor()
    features = encoder.transform(
        [Image.fromarray(upright), Image.fromarray(upright.swapaxes(0, 1))]
    )
    by_direction = features[:, :288].reshape(2, -1, 8).sum(axis=1)
    assert by_direction[0].argmax() != by_direction[1].argmax()


def test_transparent_parts_are_white() -> None:
    clear = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    np.testing.assert_array_equal(
        HogColor().transform([clear]), HogColor().transform([Image.new("RGB", (64, 64), "white")])
    )


def test_exif_orientation_is_obeyed() -> None:
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by 180 degrees
    turned = as_bytes(picture().transpose(Image.Transpose.ROTATE_180), exif=exif)
    np.testing.assert_array_equal(HogColor().transform([turned]), HogColor().transform([picture()]))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_every_mode_is_read(mode: str) -> None:
    image = picture().convert("L").convert("I;16") if mode == "I;16" else picture().convert(mode)
    assert np.isfinite(HogColor().transform([image])).all()


@pytest.mark.parametrize("kind", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_usual_formats_are_read(kind: str) -> None:
    assert HogColor().transform([as_bytes(picture(), kind)]).shape == (1, 544)


@pytest.mark.parametrize("kind", ["GIF", "JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_truncated_images_are_rejected_by_name(kind: str, share: float) -> None:
    content = as_bytes(picture(), kind)
    with pytest.raises(ImageError, match="image 1"):
        HogColor().transform([content, content[: int(share * len(content))]])


def test_damaged_images_are_read_or_rejected_but_nothing_else() -> None:
    rng = np.random.default_rng(0)
    for kind in ("GIF", "JPEG", "PNG", "TIFF", "WEBP"):
        content = as_bytes(picture(size=(24, 24)), kind)
        for _ in range(20):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), 5):
                damaged[place] = rng.integers(256)
            try:
                row = HogColor(max_pixels=10_000).transform([bytes(damaged)])
            except ImageError:
                continue
            assert np.isfinite(row).all()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ImageError, match=r"such.png"):
        HogColor().transform(["no/such.png"])


def test_what_is_no_image_is_rejected() -> None:
    with pytest.raises(ImageError, match="image 0"):
        HogColor().transform([3])


@pytest.mark.parametrize("side", [9_000, 12_000, 60_000])
def test_enormous_images_are_rejected_before_decoding(side: int) -> None:
    with pytest.raises(ImageError, match="image 0"):
        HogColor().transform([huge_png(side, side)])


def test_the_pixel_limit_can_be_set() -> None:
    with pytest.raises(ImageError, match="4095"):
        HogColor(max_pixels=64 * 64 - 1).transform([picture()])
    assert HogColor(max_pixels=64 * 64).transform([picture()]).shape == (1, 544)


def test_formats_that_start_other_programs_are_rejected() -> None:
    with pytest.raises(ImageError):
        HogColor().transform([b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 30}, "multiple of cells"),
        ({"cells": 1}, "cells must be a whole number of at least 2"),
        ({"orientations": 0}, "orientations"),
        ({"hsv_bins": (4, 4)}, "three numbers"),
        ({"hsv_bins": (4, 4, 0)}, "each of hsv_bins"),
    ],
)
def test_parameters_out_of_range_are_rejected(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        HogColor(**params).fit([])


def test_the_encoder_survives_storing() -> None:
    encoder = HogColor(size=32, hsv_bins=(4, 4, 4))
    restored = unpack(*pack(encoder, HOMES), HOMES)
    np.testing.assert_array_equal(restored.transform([picture()]), encoder.transform([picture()]))
    with pytest.raises(InvalidInputError, match="unexpected"):
        unpack(pack(encoder, HOMES)[0], {"weights": np.ones(2)}, HOMES)


def test_a_missing_extra_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[images\]"):
        HogColor().transform([b""])


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "it is empty"), (b"no image", "it is not an image of a known kind")],
)
def test_what_is_no_image_is_said_plainly(tmp_path, content, reason):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(ImageError, match=f"^a.jpg cannot be read: {reason}$"):
            read_image(source, name="a.jpg")


def test_a_path_that_cannot_be_opened_is_named_in_plain_words(tmp_path):
    with pytest.raises(ImageError, match=r"none.png"):
        read_image(tmp_path / "none.png", name="none.png")
    with pytest.raises(ImageError, match="folder"):
        read_image(tmp_path, name="a")
