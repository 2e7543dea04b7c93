"""Sufficient statistics of the built-in image-text model, which a collection extends."""

from dataclasses import replace
from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh.encoders import BuiltinModel, builtin_model
from acqh.encoders.builtin.model import BuiltinMap
from acqh.methods.collect import MappedStatistics
from acqh.stats import Statistics, StatisticsConfig
from acqh.stats.moments import Moments
from acqh.stats.sample import RowSample


def builtin_statistics(
    weight: float | None = None,
    *,
    means: tuple[Floats, Floats] | None = None,
    label_names: Any = (),
    sample_size: int = 16_384,
    n_stand_ins: int = 4_096,
    stand_in_weight: float = 1.0,
) -> MappedStatistics:
    """Return the sufficient statistics of the built-in model's pairs of images and texts.

    ``ACQH(64, n_codebooks=8, targets={"text": 1.0}).fit_stats(builtin_statistics())`` is a model
    for images without captions; ``partial_fit`` adds the items of a collection to it.

    Parameters
    ----------
    weight : float, optional
        Weight of the statistics, as a number of pairs. Default: the number of training pairs.
    means : pair of (n_image,) and (n_text,), optional
        Means that the built-in pairs are shifted to: `BuiltinModel.means` of a refined model. They
        prevent that properties common to all texts of a collection distinguish these from others.
    label_names : sequence of str, optional
        Labels of the items that will be added; the built-in pairs have none.
    sample_size : int
        Maximum number of rows that the statistics keep for the training of codebooks.
    n_stand_ins : int
        Number of background samples for the training of codebooks. If a few thousand items or more
        are added, use 0: their quantization error is lower without background samples.
    stand_in_weight : float
        Weight of a background sample relative to an item. A small weight is enough for codebooks
        that also suit other photographs and texts.

    Returns
    -------
    MappedStatistics
        Statistics of the views ``"image"``, features of `acqh.encoders.EfficientNetLite0`, and
        ``"text"``, features of `acqh.encoders.MiniLM`.

    Examples
    --------
    >>> import acqh
    >>> from acqh.collection.build.builtin import builtin_statistics
    >>> sums = builtin_statistics(weight=1_000)
    >>> sums.statistics.n_items, sums.widths
    (1000, {'image': 1280, 'text': 384})
    """
    model = builtin_model()
    weight = model.sums.n if weight is None else float(weight)
    widths = {"image": len(model.sums.image), "text": len(model.sums.text)}
    config = StatisticsConfig(frozenset({("image", "text")}), sample_size)
    statistics = Statistics(widths, len(label_names), config)
    rows = _stand_ins(model, n_stand_ins, np.random.default_rng(0))
    if n_stand_ins:
        present = {view: np.ones(n_stand_ins, dtype=bool) for view in rows}
        sample = RowSample(sample_size, len(label_names)).with_rows(rows, None, present)
        statistics.sample = replace(sample, counts=stand_in_weight * sample.counts)
    pairs, texts = model.sums, np.diag(model.text_variance)
    if means is not None:
        means = np.asarray(means[0], np.float64), np.asarray(means[1], np.float64)
        texts = texts - np.outer(pairs.text, pairs.text) + np.outer(means[1], means[1])
        pairs = pairs.moved(*means)
    # The statistics are those of the real pairs; only the sample has background samples.
    statistics.patterns = {
        ("image", "text"): Moments(
            weight,
            {"image": weight * pairs.image, "text": weight * pairs.text},
            {"image": weight * pairs.images, "text": weight * texts},
            {("image", "text"): weight * pairs.cross},
        )
    }
    maps = {view: BuiltinMap(view) for view in widths}
    full = {view: matrix.shape[1] for view, matrix in rows.items()}
    return MappedStatistics(
        statistics, maps, full, tuple(map(str, label_names)), np.dtype(np.float32)
    )


def _stand_ins(model: BuiltinModel, n_rows: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw features of images and matching texts with the moments of the real pairs."""
    weights, intercept = model.sums.regression(model.ridge)
    to_roots = model.arrays["image_axes"].T.astype(np.float64)
    # Class evidence follows from the other columns of an image.
    spread = np.sqrt(np.diag(model.sums.images))[: len(to_roots)]
    drawn = rng.normal(size=(n_rows, len(spread))) * spread
    roots = model.arrays["image_mean"] + drawn @ to_roots
    images = np.square(np.maximum(roots, 0)).astype(np.float32)
    texts = model.map_features(images, view="image") @ weights + intercept
    axes = model.arrays["text_axes"].astype(np.float64)
    back = texts @ np.linalg.pinv(axes) + model.arrays["text_mean"]
    return {"image": images, "text": back.astype(np.float32)}
