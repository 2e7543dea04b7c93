"""Whether one image is another one that was resized, compressed again, recoloured or cropped.

Both images are aligned, first as small squares, then at full size. The difference that remains is
compared block by block with the detail of the block: another digit in a scan is a small difference
of the image and a large one of its block.
"""

from functools import cache, cached_property
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.imports import require

# Side of the squares on which alignment starts; every level is so many times as fine.
_SIDE, _FINER = 32, 4
# Sides of the blocks that must agree, in brightness and in colours. Compression blurs colours, so
# the means of small cells are compared.
_GREY_BLOCK, _COLOUR_BLOCK, _CELL = 8, 16, 4
# Shares that a crop may cut off before and behind, along either axis, where alignment starts.
CROPS = ((0.0, 0.0), (0.04, 0.04), (0.08, 0.0), (0.0, 0.08), (0.08, 0.08))
# Gauss-Newton steps of a level, and the change of a margin below which they end.
_N_STEPS, _SMALL_STEP = 8, 2e-4
_MAX_STEP, _MAX_CUT = 0.03, 0.14
# Margins that differ by less are the error of the alignment.
_MAX_MARGIN = 0.01
# How far around a pixel the mean reaches that is no detail.
_BLUR = 3
# Grey levels of detail that may be noise.
_NOISE = 4.0
# Correlation of the details of small squares below which images are not aligned.
_MIN_START = 0.4
# Grey levels by which a block may differ whatever its detail is, and shares of its detail: this
# much if the images are clear, so much more than the images differ overall, and at most.
_ROUNDING, _SMALL_RATIO, _MAX_EXCESS, _MAX_RATIO = 3.0, 0.3, 2.4, 0.75
_MAX_COLOUR = 0.75
# Blocks with detail from which on colours may differ as a whole, and by which gains.
_MIN_TEXTURED, _GAINS = 72, (0.6, 1.6)
_N_FITS = 3
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


class Copy(NamedTuple):
    """Difference between an image and a copy of it."""

    difference: float  # mean, of 255
    is_recoloured: bool
    is_contained: bool  # the other image shows all that this one shows


class Picture:
    """An image to compare with others. `image`: a Pillow image, mode RGB."""

    def __init__(self, image: Any) -> None:
        self.image = image

    @classmethod
    def of_thumbnail(cls, thumbnail: bytes) -> "Picture":
        """Return the picture of a stored thumbnail."""
        with require("PIL.Image").open(BytesIO(thumbnail), formats=["WEBP"]) as image:
            return cls(image.convert("RGB"))

    @cached_property
    def crops(self) -> Floats:
        """Details of all crops of the image as small squares, as rows of length one.

        The last entry stands for one grey level of noise: so images without detail are similar.
        """
        square, crops = self.pixels((_SIDE, _SIDE)) @ _LUMA, _square_crops()
        details = _details((crops @ square)[:, np.newaxis] @ crops.transpose(0, 2, 1))
        rows = np.full((len(crops) ** 2, square.size + 1), _SIDE, dtype=np.float32)
        rows[:, :-1] = details.reshape(len(rows), -1)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    def pixels(self, size: tuple[int, int]) -> Floats:
        """Return the pixels at a size (width, height); (height, width, 3)."""
        image = self.image
        if image.size != size:
            image = image.resize(size, require("PIL.Image").Resampling.BICUBIC)
        return np.asarray(image, dtype=np.float32)


def compare(picture: Picture, other: Picture) -> Copy | None:
    """Return how a picture differs from another if it is a copy of it, else None.

    Both must have been reduced in the same way: two thumbnails, or two originals.
    """
    starts = np.array([other.crops @ picture.crops[0], picture.crops @ other.crops[0]])
    if starts.max() < _MIN_START:
        return None
    is_swapped, at = divmod(int(starts.argmax()), starts.shape[1])
    part, full = (other, picture) if is_swapped else (picture, other)
    cut = np.array([share for axis in divmod(at, len(CROPS)) for share in CROPS[axis]])
    sides = zip(part.image.size, full.image.size, strict=True)
    width, height = (max(_SIDE, min(pair)) for pair in sides)
    side = _SIDE
    while True:
        size = (side, side) if side == _SIDE else (min(side, width), min(side, height))
        fixed, moving = part.pixels(size), full.pixels(size)
        cut = _align(fixed @ _LUMA, moving @ _LUMA, cut)
        if side >= max(width, height):
            break
        side *= _FINER
    aligned = _cropped(moving, cut)
    is_contained = not is_swapped or float(cut.max()) <= _MAX_MARGIN
    if _agree(fixed, aligned):
        return Copy(float(np.abs(fixed - aligned).mean()), False, is_contained)
    # Flat colours have nothing else to be known by: a flag in other colours is another flag.
    if (_means(_details(fixed @ _LUMA) ** 2, _GREY_BLOCK) > _NOISE**2).sum() < _MIN_TEXTURED:
        return None
    for one, two in ((aligned, fixed), (fixed, aligned)):
        recoloured = _recoloured(one, two)
        if recoloured is not None and _agree(recoloured, two):
            return Copy(float(np.abs(recoloured - two).mean()), True, is_contained)
    return None


@cache
def _square_crops() -> Floats:
    return np.array([cropping(*crop, _SIDE) for crop in CROPS])


def cropping(before: float, behind: float, n: int) -> Floats:
    """Return what maps a line of pixels to a part of it of the same length, by cubics; (n, n)."""
    at = (np.arange(n) + 0.5) / n * (1 - before - behind) + before
    distances = np.abs((at * n - 0.5).clip(0, n - 1)[:, np.newaxis] - np.arange(n))
    near = (1.5 * distances - 2.5) * distances**2 + 1
    far = ((-0.5 * distances + 2.5) * distances - 4) * distances + 2
    weights = np.where(distances < 1, near, np.where(distances < 2, far, 0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def _cropped(image: Floats, cut: Floats) -> Floats:
    """Return a part of an image at the size of the whole; (height, width, ...)."""
    for before, behind in (cut[:2], cut[2:]):
        image = np.tensordot(image, cropping(before, behind, len(image)), (0, 1))
    return image.transpose(1, 2, 0) if image.ndim == 3 else image


def _align(fixed: Floats, moving: Floats, cut: Floats) -> Floats:
    """Return the crop of `moving` that fits `fixed` best, near `cut`, whatever the contrast is.

    Gauss-Newton on the four margins, gain and offset (Lucas and Kanade). Both: (height, width).
    """
    height, width = fixed.shape
    down = ((np.arange(height, dtype=np.float32) + 0.5) / height)[:, np.newaxis]
    right = (np.arange(width, dtype=np.float32) + 0.5) / width
    for _ in range(_N_STEPS):
        moved = _cropped(moving, cut)
        by_row, by_column = np.gradient(moved)
        by_row, by_column = by_row * height, by_column * width
        changes = (by_row * (1 - down), -by_row * down, by_column * (1 - right), -by_column * right)
        jacobian = np.stack((*changes, moved, np.ones_like(moved)), axis=-1).reshape(-1, 6)
        normal = (jacobian.T @ jacobian).astype(np.float64) + 1e-3 * np.eye(6)
        solved = np.linalg.solve(normal, jacobian.T @ fixed.ravel())
        step = (solved[:4] / max(solved[4], 0.2)).clip(-_MAX_STEP, _MAX_STEP)
        before, cut = cut, (cut + step).clip(-_MAX_MARGIN, _MAX_CUT)
        if np.abs(cut - before).max() < _SMALL_STEP:
            break
    return cut


def _details(grey: Floats) -> Floats:
    """Return images without the mean around each pixel; (..., height, width)."""
    down, right = (_blurring(n) for n in grey.shape[-2:])
    return np.asarray(grey - down @ grey @ right.T)


@cache
def _blurring(n: int) -> Floats:
    around = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= _BLUR
    return np.asarray(around / around.sum(axis=1, keepdims=True), dtype=np.float32)


def _means(values: Floats, side: int) -> Floats:
    """Return the means of square blocks, the last ones larger; `values`: (height, width, ...)."""
    for axis in (0, 1):
        starts = np.arange(0, values.shape[axis] - side + 1, side)
        counts = np.diff(starts, append=values.shape[axis])
        values = np.add.reduceat(values, starts, axis=axis).swapaxes(axis, -1) / counts
        values = values.swapaxes(axis, -1)
    return values


def _agree(image: Floats, other: Floats) -> bool:
    """Whether no block of two aligned images differs by more than copies do.

    A copy differs evenly, relative to the detail: a block with a larger difference was changed.
    """
    differences = image - other
    grey = np.sqrt(_means((differences @ _LUMA) ** 2, _GREY_BLOCK))
    cells = (_means(differences, _CELL) ** 2).mean(axis=2)
    colours = np.sqrt(_means(cells, _COLOUR_BLOCK // _CELL))
    squares = [_details(array @ _LUMA) ** 2 for array in (image, other)]
    fine, coarse = (
        np.sqrt(np.maximum(*(_means(array, side) for array in squares)))
        for side in (_GREY_BLOCK, _COLOUR_BLOCK)
    )
    overall = np.sqrt((grey**2).mean() / ((fine + _NOISE) ** 2).mean())
    limit = min(_MAX_RATIO, max(_SMALL_RATIO, _MAX_EXCESS * float(overall)))
    is_near = (grey <= _ROUNDING + limit * (fine + 1)).all()
    return bool(is_near and (colours <= _MAX_COLOUR * (coarse + _NOISE)).all())


def _recoloured(image: Floats, target: Floats) -> Floats | None:
    """Return an image in the colours of another one; None if no usual edit leads to these.

    Each channel is mapped to a sum of itself, the brightness and a constant: that is what changes
    of brightness, contrast, saturation and white balance do, and not a change of hue.
    """
    # Some pixels are enough. Not means of them: these would mix what was cut off with other pixels.
    some, targets = (array[::_CELL, ::_CELL].reshape(-1, 3) for array in (image, target))
    mapped = np.empty_like(image)
    for channel, values in enumerate(targets.T):
        rows = np.column_stack((some[:, channel], some @ _LUMA, np.ones_like(values)))
        # Black and white may have been cut off; outliers are skipped in the next step.
        fits = (values > 4) & (values < 251)
        for _ in range(_N_FITS):
            if not fits.any():
                return None
            normal = rows[fits].T @ rows[fits] + np.eye(3)
            weights = np.linalg.solve(normal, rows[fits].T @ values[fits])
            errors = np.abs(rows @ weights - values)
            fits &= errors <= 2 * np.median(errors[fits])
        gain, grey, constant = weights.tolist()
        if not _GAINS[0] <= gain + grey <= _GAINS[1]:
            return None
        mapped[..., channel] = gain * image[..., channel] + grey * (image @ _LUMA) + constant
    return mapped.clip(0, 255)
