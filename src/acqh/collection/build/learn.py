"""Train the model of a collection on its items and the built-in image-text model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools, Floats
from acqh._core.runtime import Progress, no_progress
from acqh.collection.model import (
    BARE,
    CAPTION,
    CHUNK_ROWS,
    Encoders,
    encode_things,
    fit_builtin_model,
    share_space,
)
from acqh.collection.types import BuildSettings
from acqh.data import MultiViewData
from acqh.encoders import BuiltinModel, EfficientNetLite0, builtin_model
from acqh.encoders.builtin import BuiltinMap
from acqh.errors import AcqhError
from acqh.methods.acqh import ACQH, Target
from acqh.methods.acqh.solve import Solution
from acqh.methods.acqh.space import Block, Space
from acqh.methods.collect import MappedStatistics, collect
from acqh.quantize import Drift
from acqh.quantize.drift import MIN_LEARNT
from acqh.stats import Regression, Statistics, StatisticsConfig
from acqh.stats.moments import Moments
from acqh.stats.sample import RowSample

# The features of a photograph sum up to about this; class probabilities depend on it.
_USUAL_SUM = 200.0


def builtin_statistics(
    weight: float | None = None,
    *,
    means: tuple[Floats, Floats] | None = None,
    label_names: Any = (),
    sample_size: int = 16_384,
    n_stand_ins: int = 4_096,
    stand_in_weight: float = 1.0,
    n_image_features: int | None = None,
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
    n_image_features : int, optional
        1,280 if the images have no class probabilities.

    Returns
    -------
    MappedStatistics
        Statistics of the views ``"image"``, features of `acqh.encoders.EfficientNetLite0`, and
        ``"text"``, features of `acqh.encoders.MiniLM`.

    Examples
    --------
    >>> import acqh
    >>> from acqh.collection.build.learn import builtin_statistics
    >>> sums = builtin_statistics(weight=1_000)
    >>> sums.statistics.n_items, sums.widths
    (1000, {'image': 2280, 'text': 384})
    """
    model = builtin_model()
    weight = model.pair_moments.n if weight is None else float(weight)
    widths = {"image": len(model.pair_moments.image), "text": len(model.pair_moments.text)}
    config = StatisticsConfig(frozenset({("image", "text")}), sample_size)
    statistics = Statistics(widths, len(label_names), config)
    rows = _stand_ins(model, n_stand_ins, np.random.default_rng(0))
    rows["image"] = rows["image"][:, :n_image_features]
    if n_stand_ins:
        present = {view: np.ones(n_stand_ins, dtype=bool) for view in rows}
        sample = RowSample(sample_size, len(label_names)).with_rows(rows, None, present)
        statistics.sample = replace(sample, counts=stand_in_weight * sample.counts)
    pairs, texts = model.pair_moments, np.diag(model.text_variance)
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
    weights, intercept = model.pair_moments.regression(model.ridge)
    to_roots = model.arrays["image_axes"].T.astype(np.float64)
    spread = np.sqrt(np.diag(model.pair_moments.images))[: len(to_roots)]
    drawn = rng.normal(size=(n_rows, len(spread))) * spread
    roots = model.arrays["image_mean"] + drawn @ to_roots
    images = (_USUAL_SUM * np.square(np.maximum(roots, 0))).astype(np.float32)
    # Of features alone, a linear classifier gives the probabilities of classes.
    images = np.hstack([images, model.class_probabilities(images)])
    texts = model.map_features(images, view="image") @ weights + intercept
    axes = model.arrays["text_axes"].astype(np.float64)
    back = texts @ np.linalg.pinv(axes) + model.arrays["text_mean"]
    return {"image": images, "text": back.astype(np.float32)}


# Whether any label is shared, the usual relevance of the literature, favours items with many
# labels. For 20 label names as queries over 4,000 photographs, 6.8 of the best ten had the label
# with it, 9.5 with this.
_SIMILARITY = "jaccard"
# These and `_COMPLETE_SHARE` were chosen on 2,430 photographs with all labels, and 270 others as
# queries.
# Compared with labels alone, the Jaccard index of the best ten falls by 0.02, and 97 % of the
# photographs rather than 13 % are among their own first ten.
_LABEL_WEIGHT = 0.42
# Share of texts in the content if all images have a text. It is low, since texts are also found by
# keywords, but images by codes alone.
_TEXT_SHARE = 0.4
# The share if no image has a text: the predicted text is the whole content. Of 8,000 photographs
# without captions, in 8 bytes, captions find theirs among the first ten in 0.330 of cases instead
# of 0.265 with 0.75, and class names one right photograph among five in 0.375 instead of 0.155;
# images find similar ones equally well. In between, in proportion to the images that have a text.
# The share falls with the number of pairs that the built-in model counts for: it predicts captions
# of another kind, such as tags, less well.
_UNCAPTIONED_TEXT_SHARE, _KINDRED_WEIGHT = 1.0, 40_000.0
# Dimensions, without and with the built-in model, and of the text target with it. On held-out
# photographs without captions, in 8 bytes, 256 and 384 instead of 128 and 256 find one right
# among five for 0.785 instead of 0.700 of the class names (1,000 of Tiny ImageNet), and captions
# with an R@10 of 0.717 instead of 0.709 (COCO). 384 dimensions find 0.825 and 0.718, but a site
# loads 1.3 MB more for every 128.
_N_COMPONENTS, _N_BUILTIN_COMPONENTS, _TEXT_RANK = 128, 256, 384
# Codebooks are trained 90 % on the items of the collection and 10 % on simulated future items that
# have only an image or only a text.
_COMPLETE_SHARE = 0.9
# With fewer images than this, codebooks would be overfitted: texts and images that are added later
# would have a high error. Background samples of photographs fill the gap. With more of
# them, codebooks would not be trained on all images; with more weight, the error of these rises.
_ENOUGH_IMAGES, _STAND_IN_WEIGHT = 2_730, 0.05
# From this number of images on, if none has a text or label, codebooks of the built-in model find
# more than those trained on the images: of 8,000 photographs, in 8 bytes, captions find theirs
# among the first ten in 0.351 of cases instead of 0.330, class names one right photograph among
# five in 0.50 instead of 0.375. Captions that come later have this weight.
_BUILTIN_BYTES, _CAPTION_WEIGHT = (8, 16), 0.2
# Pairs of image and text that are used to estimate the weight of the built-in image-text model.
_MAX_PAIRS = 2_000
# The built-in model was trained on captions: a query of a few words is phrased as one if most
# images have none. Of 18 things that 1,000 photographs show and 25 that they do not, the mean
# `match` of the best three separates 97 % (area under the curve), as bare words 94 %.
# User captions are found better by the bare words.
_MOST_CAPTIONED = 0.5

# Items used to estimate the error of new ones, at most; one in eight is held out.
_MAX_TRIED, _HELD_OUT = 4_096, 8

_LABELS = "labels"


def usual_targets(
    views: Sequence[str], has_labels: bool, text_share: float = _TEXT_SHARE
) -> dict[str, float]:
    """Return the default targets of a collection: labels, if any, and content.

    `text_share`: the share of texts in the content of images and texts. Other views have equal
    weights.

    Examples
    --------
    >>> usual_targets(["image", "text"], has_labels=True)
    {'labels': 0.42, 'image': 0.348, 'text': 0.232}
    """
    labels = {_LABELS: _LABEL_WEIGHT} if has_labels else {}
    rest = 1 - sum(labels.values())
    shares = dict.fromkeys(views, 1 / len(views))
    if shares.keys() == {"image", "text"}:
        shares = {"image": 1 - text_share, "text": text_share}
    return labels | {view: round(rest * share, 4) for view, share in shares.items()}


def learn(
    features: MultiViewData, encoders: Encoders, settings: BuildSettings, progress: Progress
) -> tuple[ACQH, str, str]:
    """Train the model that encodes the items of a collection and the queries of each view.

    If the encoders are those of the built-in model and some image has no text, training starts
    with the sufficient statistics of that model. If they share one space, the vectors of images
    serve as texts of images that have none.

    Raises InvalidInputError, LabelError, ViewError: a target is unknown.
    """
    names, views = features.label_names, list(features.views)
    captioned = _captioned(features.present)
    is_builtin = fit_builtin_model(encoders) and captioned < 1
    asked_as = BARE
    if captioned < _MOST_CAPTIONED and (is_builtin or share_space(encoders)):
        asked_as = CAPTION
    offset = None
    if captioned < 1 and share_space(encoders):
        offset, captioned = _text_offset(features, encoders["text"], asked_as), 1.0
    refined = _refined(features) if is_builtin else None
    weight, ridge = 0.0, None
    if refined is not None:
        weight = refined.pair_moments.n - refined.n_added
        # The built-in pairs give their map back with this ridge only.
        ridge = refined.ridge if weight > refined.n_added else None
    model = ACQH(
        settings.n_components or (_N_BUILTIN_COMPONENTS if weight else _N_COMPONENTS),
        n_codebooks=settings.n_codebooks,
        similarity=_SIMILARITY,
        targets=settings.targets or _targets(views, bool(names), captioned, weight, ridge),
        feature_maps=_feature_maps(encoders, views, is_builtin),
        complete_share=_COMPLETE_SHARE,
        random_state=settings.random_state,
    )
    if is_builtin and _takes_builtin_codebooks(features, settings):
        collected = builtin_statistics(
            n_stand_ins=0, n_image_features=features.views["image"].shape[1]
        )
        model._set_solution(collected, _builtin_solution(settings.n_codebooks))
        del model.stats_
        return model, "the built-in model", asked_as
    chunks = _report_progress(features, progress)
    if offset is not None:
        chunks = (_with_all_texts(chunk, offset) for chunk in chunks)
    if refined is not None and weight:
        builtin = builtin_statistics(
            weight,
            means=refined.means,
            label_names=names,
            n_stand_ins=max(0, _ENOUGH_IMAGES - int(features.present["image"].sum())),
            stand_in_weight=_STAND_IN_WEIGHT,
            n_image_features=features.views["image"].shape[1],
        )
        collected = collect(chunks, builtin)
        model.fit_stats(replace(collected, statistics=builtin.statistics + collected.statistics))
    else:
        model.fit(chunks)
    # Statistics and samples are not needed later, and would be larger than the items.
    del model.stats_
    description = ", ".join(
        f"{name} {target.weight:.3g}" for name, target in model.targets_.items()
    )
    description += (
        f", and the built-in model, which counts as {weight:,.0f} pairs" if weight else ""
    )
    description += "" if offset is None else ", with images as texts of those that have none"
    return model, description, asked_as


def _takes_builtin_codebooks(features: MultiViewData, settings: BuildSettings) -> bool:
    """Return whether the built-in codebooks find more than those trained on these items."""
    return (
        features.label_names == ()
        and not features.present["text"].any()
        and features.present["image"].sum() >= _ENOUGH_IMAGES
        and settings.targets is None
        and settings.n_components is None
        and settings.n_codebooks in _BUILTIN_BYTES
    )


def _builtin_solution(n_codebooks: int) -> Solution:
    """Return the space and codebooks of the built-in model: texts, predicted from images."""
    model = builtin_model()
    weights, intercept = model.pair_moments.regression(model.ridge)
    rank = weights.shape[1]
    target = Target(similarity="inner", rank=rank, caption_weight=_CAPTION_WEIGHT)
    nothing, every = np.zeros(rank), np.eye(rank)
    to_query, to_item = (
        model.arrays[name][:, :_N_BUILTIN_COMPONENTS].astype(np.float64)
        for name in ("to_query", "to_item")
    )
    space = Space(
        {"text": Block(target, "text", every, nothing, nothing, every)},
        {"image": {"text": Regression(weights, intercept, model.ridge, every)}, "text": {}},
        None,
        to_query,
        to_item,
        True,
    )
    codebooks = model.codebooks(n_codebooks)[:, :, :_N_BUILTIN_COMPONENTS]
    return Solution(space, codebooks, [np.nan], np.nan, np.nan)


def _text_offset(features: MultiViewData, encoder: Any, asked_as: str) -> Array:
    """Return how far texts are from images in one space, on average.

    CLIP puts images and texts into two separate regions. With 1,126 product photos, 845 titles as
    queries, the others for the offset, and 8 bytes, R@1 is 0.755 with it and 0.680 without; 0.809
    by exact cosines (``benchmarks/quality/uncaptioned_clip.py``).
    """
    things, is_known = encode_things(encoder, asked_as)
    images = features.views["image"][features.present["image"]]
    return np.asarray(things[is_known].mean(axis=0) - images.mean(axis=0), np.float32)


def _with_all_texts(chunk: MultiViewData, offset: Array) -> MultiViewData:
    """Return items in which the vector of an image, moved by `offset`, replaces a missing text."""
    is_moved = chunk.present["image"] & ~chunk.present["text"]
    texts = np.array(chunk.views["text"])
    texts[is_moved] = np.asarray(chunk.views["image"][is_moved]) + offset
    return chunk.with_views({"text": texts}, present={"text": chunk.present["text"] | is_moved})


def expected_error(
    features: MultiViewData, encoders: Encoders, settings: BuildSettings
) -> float | None:
    """Return the expected relative error of new items of the same kind.

    It is the error of held-out items: training items have a lower one. None if there are too few
    items to hold some out.
    """
    order = np.random.default_rng(0).permutation(len(features))[:_MAX_TRIED]
    held, rest = (np.sort(part) for part in np.split(order, [len(order) // _HELD_OUT]))
    if len(order) < MIN_LEARNT:
        return None
    try:
        model = learn(features.subset(rest), encoders, settings, no_progress)[0]
    except AcqhError:
        return None
    others = features.subset(held)
    vectors, decoded = model.embed(others), model.decode(model.encode(others))
    return Drift(None).after(vectors, decoded).relative_error


def _captioned(present: Mapping[str, Bools]) -> float:
    """Return the share of images that have a text."""
    images = present.get("image", np.zeros(0, dtype=bool))
    return float(present["text"][images].mean()) if images.any() and "text" in present else 1.0


def _targets(
    views: Sequence[str],
    has_labels: bool,
    captioned: float,
    weight: float,
    ridge: float | None,
) -> dict[str, float | Target]:
    """Return the default targets, which treat images with and without a text equally."""
    more = (1 - captioned) * min(weight / _KINDRED_WEIGHT, 1.0)
    share = _TEXT_SHARE + more * (_UNCAPTIONED_TEXT_SHARE - _TEXT_SHARE)
    usual = usual_targets(views, has_labels, share)
    if captioned == 1 or "text" not in usual:
        return {**usual}
    rank = _TEXT_RANK if weight else None
    return {**usual, "text": Target(usual["text"], rank=rank, caption_weight="auto", ridge=ridge)}


def _report_progress(features: MultiViewData, progress: Progress) -> Iterator[MultiViewData]:
    """Yield chunks and report progress; the steps after the last chunk are not included."""
    n_done = 0
    progress(0, len(features), "training")
    for chunk in features.chunks(CHUNK_ROWS):
        yield chunk
        n_done += len(chunk)
        progress(n_done, len(features), "training")
    progress(0, None, "training codebooks")


def _feature_maps(encoders: Encoders, views: Sequence[str], is_builtin: bool) -> dict[str, Any]:
    if is_builtin:
        return {view: BuiltinMap(view) for view in views}
    rooted = [v for v in views if isinstance(encoders.get(v), EfficientNetLite0)]
    return {view: BuiltinMap(view, reduced=False) for view in rooted}


def _refined(features: MultiViewData) -> BuiltinModel:
    """Return the built-in model refined by the captioned images of these items."""
    both = features.present["image"] & features.present["text"]
    rows = np.flatnonzero(both)[:_MAX_PAIRS]
    pairs = (np.asarray(features.views[view][rows]) for view in ("image", "text"))
    return builtin_model().refine(*pairs)
