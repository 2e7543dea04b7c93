"""Every error and warning of acqh's own, each also one of the standard kinds."""

__all__ = [
    "AcqhError",
    "ClusterError",
    "CollectionError",
    "CorruptBundleError",
    "DatasetNotFoundError",
    "DatasetWarning",
    "DeviceError",
    "DuplicateIdError",
    "EncoderError",
    "EncoderFallbackWarning",
    "FewerBitsWarning",
    "ImageError",
    "InvalidInputError",
    "LabelError",
    "MissingExtraError",
    "MissingItemError",
    "NotFittedError",
    "ReplacedError",
    "UnknownIdError",
    "ViewError",
]


class AcqhError(Exception):
    """Base of all errors raised on purpose by acqh."""


class InvalidInputError(AcqhError, ValueError):
    """An argument or array has a value that cannot be used."""


class ViewError(AcqhError, ValueError):
    """Views are unpaired, unknown, missing or of the wrong width."""


class ImageError(AcqhError, ValueError):
    """An image cannot be read, or is too large to be read safely."""


class EncoderError(InvalidInputError):
    """An encoder cannot be loaded or run, for example because its weights are missing."""


class LabelError(AcqhError, ValueError):
    """Labels are missing or not of a form that can be read."""


class DatasetNotFoundError(AcqhError, FileNotFoundError):
    """A named data set's files are not where they were looked for."""


class DuplicateIdError(AcqhError, ValueError):
    """An id occurs more than once where ids must be unique."""


class UnknownIdError(AcqhError, KeyError):
    """An id is unknown.

    ``KeyError`` shows its argument's repr; this shows the message itself.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CorruptBundleError(AcqhError, ValueError):
    """A file or bundle is damaged, or is not what its manifest says."""


class CollectionError(AcqhError, ValueError):
    """A collection, or what was asked of it, cannot be used."""


class MissingItemError(CollectionError, UnknownIdError):
    """A collection has no item of this id."""


class ReplacedError(CollectionError):
    """A collection was rebuilt, moved or removed by others since it was opened."""


class ClusterError(AcqhError, RuntimeError):
    """A Dask cluster does not answer, has lost work for good, or cannot do what was asked."""


class DeviceError(InvalidInputError, RuntimeError):
    """A device such as a GPU was asked for but is not available."""


class MissingExtraError(AcqhError, ImportError):
    """An optional dependency is not installed."""


class NotFittedError(AcqhError, ValueError, AttributeError):
    """A method or encoder was used before ``fit``."""


class DatasetWarning(UserWarning):
    """The files of a named data set differ from those that the documented results are for."""


class EncoderFallbackWarning(UserWarning):
    """The best encoder of images or texts is not installed, so a plainer one is used."""


class FewerBitsWarning(UserWarning):
    """The data carry fewer directions than bits were asked for, so codes are shorter."""
