"""Encoders: raw images and texts become rows of numbers."""

from typing import TYPE_CHECKING

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.encoders.clip import ClipImages, ClipTexts, EfficientNetLite0, MiniLM
    from acqh.encoders.general.map import GeneralMap
    from acqh.encoders.general.model import GeneralModel, general_model
    from acqh.encoders.hog import HogColour
    from acqh.encoders.images import ImageLike, image_date, image_limit, read_image
    from acqh.encoders.named import Encoder, make_encoder
    from acqh.encoders.tfidf import word_vectorizer
    from acqh.encoders.words import fold_text
    from acqh.features.named import register_encoder

__all__ = [
    "ClipImages",
    "ClipTexts",
    "EfficientNetLite0",
    "Encoder",
    "GeneralMap",
    "GeneralModel",
    "HogColour",
    "ImageLike",
    "MiniLM",
    "fold_text",
    "general_model",
    "image_date",
    "image_limit",
    "make_encoder",
    "read_image",
    "register_encoder",
    "word_vectorizer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.encoders.clip": "ClipImages ClipTexts EfficientNetLite0 MiniLM",
            "acqh.encoders.general.map": "GeneralMap",
            "acqh.encoders.general.model": "GeneralModel general_model",
            "acqh.encoders.hog": "HogColour",
            "acqh.encoders.images": "ImageLike image_date image_limit read_image",
            "acqh.encoders.named": "Encoder make_encoder",
            "acqh.encoders.tfidf": "word_vectorizer",
            "acqh.encoders.words": "fold_text",
            "acqh.features.named": "register_encoder",
        },
    )
