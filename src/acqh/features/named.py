"""Feature maps by name."""

from typing import Any

from acqh._core.store import resolve
from acqh.errors import InvalidInputError

# Classes of this subpackage that stored state can name, and their modules.
STORED: dict[str, Any] = {
    "Bias": "acqh.features.simple",
    "ConditionalCentering": "acqh.features.simple",
    "KernelMap": "acqh.features.kernel_map",
    "RBFAnchors": "acqh.features.rbf",
    "RowSpace": "acqh.features.simple",
    "SignedRoot": "acqh.features.simple",
    "TagSVD": "acqh.features.simple",
}
_VARIANTS = ("rbf_fixed", "rbf_mean", "rbf_mean2", "rbf_scaled")
# Name -> class, of this package or of scikit-learn, and parameters.
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "bias": ("Bias", {}),
    "center": ("StandardScaler", {"with_std": False}),
    "kernel": ("KernelMap", {}),
    **{name: ("RBFAnchors", {"variant": name}) for name in _VARIANTS},
    "signed_root": ("SignedRoot", {}),
    "standardize": ("StandardScaler", {}),
    "svd": ("TagSVD", {}),
    "tfidf": ("TfidfTransformer", {}),
    "unit_norm": ("Normalizer", {}),
}


def list_feature_maps() -> list[str]:
    """Return the names of feature maps for `make_feature_map`, in alphabetical order.

    Examples
    --------
    >>> from acqh.features import list_feature_maps
    >>> "rbf_fixed" in list_feature_maps()
    True
    """
    return sorted(_NAMED)


def make_feature_map(kind: Any, **params: Any) -> Any:
    """Return an unfitted feature map from a name or a transformer.

    Parameters
    ----------
    kind : str or object with ``fit`` and ``transform``
        A name of `list_feature_maps`, or a transformer, which is copied unfitted.
    **params
        Constructor arguments; only with a name.

    Returns
    -------
    object with ``fit`` and ``transform``

    Raises
    ------
    InvalidInputError
        The name is unknown, or the object is not a transformer.

    Examples
    --------
    >>> from acqh.features import make_feature_map
    >>> make_feature_map("rbf_fixed", sigma=0.6)
    RBFAnchors(sigma=0.6, variant='rbf_fixed')
    """
    if isinstance(kind, str):
        if kind not in _NAMED:
            names = ", ".join(list_feature_maps())
            raise InvalidInputError(f"unknown feature map {kind!r}; choose one of {names}")
        name, defaults = _NAMED[kind]
        return resolve(name, STORED)(**{**defaults, **params})
    if isinstance(kind, type) or not (hasattr(kind, "fit") and hasattr(kind, "transform")):
        raise InvalidInputError(
            f"a feature map must have the methods fit and transform, got {kind!r}; give a name or "
            "a transformer instance"
        )
    if params:
        raise InvalidInputError(
            f"{', '.join(params)} cannot be set on a transformer instance; set them on the object"
        )
    from sklearn.base import clone

    return clone(kind, safe=False)
