"""Feature maps (bias, RBF anchors, ...) and encoders of raw images and text."""

from typing import TYPE_CHECKING, Any

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.features._base import FeatureMap
    from acqh.features._condition import Condition
    from acqh.features._encoders import Encoder, make_encoder
    from acqh.features._general import GeneralModel, general_model
    from acqh.features._general_map import GeneralMap
    from acqh.features._hog import HogColour
    from acqh.features._images import ImageLike, image_date, image_limit, read_image
    from acqh.features._kernel_map import KernelMap
    from acqh.features._linear import Bias, SignedRoot
    from acqh.features._networks import ClipImages, ClipTexts, EfficientNetLite0, MiniLM
    from acqh.features._rbf import RBFAnchors
    from acqh.features._registry import (
        describe_feature_map,
        feature_map_from_description,
        feature_map_from_state,
        feature_map_state,
        list_feature_maps,
        make_feature_map,
        register_encoder,
    )
    from acqh.features._row_space import RowSpace
    from acqh.features._state import StateMixin
    from acqh.features._svd import TagSVD
    from acqh.features._text import word_vectorizer
    from acqh.features._words import fold_text

__all__ = [
    "Bias",
    "ClipImages",
    "ClipTexts",
    "Condition",
    "EfficientNetLite0",
    "Encoder",
    "FeatureMap",
    "GeneralMap",
    "GeneralModel",
    "HogColour",
    "ImageLike",
    "KernelMap",
    "MiniLM",
    "RBFAnchors",
    "RowSpace",
    "SignedRoot",
    "StateMixin",
    "TagSVD",
    "describe_feature_map",
    "feature_map_from_description",
    "feature_map_from_state",
    "feature_map_state",
    "fold_text",
    "general_model",
    "image_date",
    "image_limit",
    "list_feature_maps",
    "make_encoder",
    "make_feature_map",
    "read_image",
    "register_encoder",
    "word_vectorizer",
]


if not TYPE_CHECKING:  # type checkers know the new names alone

    def _former(name: str) -> Any:
        from acqh.features._former import former_name

        return former_name(name)

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.features._base": "FeatureMap",
            "acqh.features._condition": "Condition",
            "acqh.features._encoders": "Encoder make_encoder",
            "acqh.features._general": "GeneralModel general_model",
            "acqh.features._general_map": "GeneralMap",
            "acqh.features._hog": "HogColour",
            "acqh.features._images": "ImageLike image_date image_limit read_image",
            "acqh.features._kernel_map": "KernelMap",
            "acqh.features._linear": "Bias SignedRoot",
            "acqh.features._networks": "EfficientNetLite0 MiniLM ClipImages ClipTexts",
            "acqh.features._rbf": "RBFAnchors",
            "acqh.features._registry": (
                "describe_feature_map feature_map_from_description feature_map_from_state "
                "feature_map_state list_feature_maps make_feature_map register_encoder"
            ),
            "acqh.features._row_space": "RowSpace",
            "acqh.features._state": "StateMixin",
            "acqh.features._svd": "TagSVD",
            "acqh.features._text": "word_vectorizer",
            "acqh.features._words": "fold_text",
        },
        _former,
        former={
            "Picture": "acqh.features.ImageLike",
            "picture_date": "acqh.features.image_date",
            "read_picture": "acqh.features.read_image",
        },
    )
