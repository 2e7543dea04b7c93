"""Feature maps (bias, RBF anchors, ...) and encoders of raw images and text."""

from typing import TYPE_CHECKING, Any

from acqh.features._base import FeatureMap
from acqh.features._condition import Condition
from acqh.features._efficientnet import EfficientNetLite0
from acqh.features._encoders import Encoder, make_encoder
from acqh.features._former import former_name
from acqh.features._general import GeneralMap, GeneralModel, general_model
from acqh.features._hog import HogColour
from acqh.features._images import ImageLike, image_date, image_limit, read_image
from acqh.features._kernel_map import KernelMap
from acqh.features._linear import Bias, SignedRoot
from acqh.features._minilm import MiniLM
from acqh.features._networks import ClipImages, ClipTexts
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
from acqh.features._text import fold_text, word_vectorizer

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

    def __getattr__(name: str) -> Any:
        return former_name(name)
