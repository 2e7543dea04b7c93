"""Languages of texts, as codes of ISO 639-1."""

from typing import Literal, get_args

Language = Literal[
    "auto", "ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"
]
LANGUAGES: tuple[str, ...] = get_args(Language)[1:]
