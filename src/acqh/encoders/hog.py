"""The default encoder of images: gradients and colours, no weights to download."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Floats, check_positive_int
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.network import PlainEstimator
from acqh.errors import InvalidInputError

_BLOCK_CELLS = 2


@dataclass(eq=False, repr=False)
class HogColor(PlainEstimator):
    """Encode images by their oriented gradients (HOG) and their colours (HSV histogram).

    Each image is read as RGB on white and resized to a square. Its gradients are counted by
    direction in ``cells x cells`` cells, normalised in overlapping blocks of 2 x 2 cells. Its
    colours are counted in a joint HSV histogram, of whose shares the square roots are taken.
    There is nothing to fit. Needs the extra ``hog``.

    Parameters
    ----------
    size : int, default 64
        Side of the square in pixels; a multiple of `cells`.
    cells : int, default 4
        Cells per side; at least 2.
    orientations : int, default 8
        Number of gradient directions.
    hsv_bins : sequence of three ints, default (16, 4, 4)
        Bins of hue, saturation and value.
    max_pixels : int, default 64,000,000
        Larger images are rejected before they are decoded.

    Examples
    --------
    >>> from PIL import Image
    >>> from acqh.encoders import HogColor
    >>> HogColor().fit_transform([Image.new("RGB", (80, 60), "red")]).shape
    (1, 544)
    """

    _state_axes: ClassVar[dict[str, Any]] = {}

    size: int = 64
    _: KW_ONLY
    cells: int = 4
    orientations: int = 8
    hsv_bins: Sequence[int] = (16, 4, 4)
    max_pixels: int = MAX_PIXELS

    def fit(self, images: Iterable[ImageLike], y: Any = None) -> Self:  # noqa: ARG002
        """Check the parameters; the images are not read.

        Parameters
        ----------
        images : ignored
        y : ignored

        Returns
        -------
        self
        """
        self._check_params()
        return self

    def transform(self, images: Iterable[ImageLike]) -> Floats:
        """Return the features of the images.

        Parameters
        ----------
        images : iterable of paths, bytes or Pillow images, (n_items,)

        Returns
        -------
        (n_items, n_features) float32

        Raises
        ------
        ImageError
            An image cannot be read or is too large; the message names it.
        MissingExtraError
            Pillow or scikit-image is not installed.
        """
        self._check_params()
        rows = [
            self._encode(read_image(image, position, self.max_pixels))
            for position, image in enumerate(images)
        ]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.n_features_out)

    @property
    def n_features_out(self) -> int:
        """Number of features an image gets."""
        blocks = self.cells - _BLOCK_CELLS + 1
        gradients = (blocks * _BLOCK_CELLS) ** 2 * self.orientations
        return int(gradients + np.prod(self.hsv_bins))

    def _check_params(self) -> None:
        for name in ("size", "orientations", "max_pixels"):
            check_positive_int(getattr(self, name), name)
        check_positive_int(self.cells, "cells", minimum=_BLOCK_CELLS)
        if self.size % self.cells:
            raise InvalidInputError(
                f"size must be a multiple of cells, got {self.size} and {self.cells}"
            )
        if len(self.hsv_bins) != 3:
            raise InvalidInputError(f"hsv_bins must be three numbers, got {self.hsv_bins!r}")
        for bins in self.hsv_bins:
            check_positive_int(bins, "each of hsv_bins")

    def _encode(self, image: Any) -> Floats:
        square = (self.size, self.size)
        if image.size != square:
            image = image.resize(square, require("PIL.Image").Resampling.BILINEAR)
        cell = self.size // self.cells
        gradients = require("skimage.feature").hog(
            np.asarray(image),
            orientations=self.orientations,
            pixels_per_cell=(cell, cell),
            cells_per_block=(_BLOCK_CELLS, _BLOCK_CELLS),
            block_norm="L2-Hys",
            channel_axis=-1,
        )
        return np.concatenate([gradients, _colour_shares(image, self.hsv_bins)])


def _colour_shares(image: Any, bins: Sequence[int]) -> Floats:
    """Square roots of the shares of pixels in each joint HSV bin; (prod(bins),)."""
    hsv = np.asarray(image.convert("HSV")).reshape(-1, 3).astype(np.int64)
    bin_of = np.ravel_multi_index(tuple((hsv * np.asarray(bins) // 256).T), tuple(bins))
    return np.sqrt(np.bincount(bin_of, minlength=int(np.prod(bins))) / len(hsv))
