"""Feature maps: rows become other rows (bias, RBF anchors, kernels, ...)."""

from typing import TYPE_CHECKING, Any

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.features.base import FeatureMap
    from acqh.features.condition import Condition
    from acqh.features.kernel.map import KernelMap
    from acqh.features.named import (
        describe_feature_map,
        feature_map_from_description,
        feature_map_from_state,
        feature_map_state,
        list_feature_maps,
        make_feature_map,
    )
    from acqh.features.rbf import RBFAnchors
    from acqh.features.row_space import RowSpace
    from acqh.features.simple import Bias, SignedRoot
    from acqh.features.state import StateMixin
    from acqh.features.svd import TagSVD

__all__ = [
    "Bias",
    "Condition",
    "FeatureMap",
    "KernelMap",
    "RBFAnchors",
    "RowSpace",
    "SignedRoot",
    "StateMixin",
    "TagSVD",
    "describe_feature_map",
    "feature_map_from_description",
    "feature_map_from_state",
    "feature_map_state",
    "list_feature_maps",
    "make_feature_map",
]

if not TYPE_CHECKING:

    def _former(name: str) -> Any:
        from acqh.features.former import former_name

        return former_name(name)

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.features.base": "FeatureMap",
            "acqh.features.condition": "Condition",
            "acqh.features.kernel.map": "KernelMap",
            "acqh.features.named": (
                "describe_feature_map feature_map_from_description feature_map_from_state "
                "feature_map_state list_feature_maps make_feature_map"
            ),
            "acqh.features.rbf": "RBFAnchors",
            "acqh.features.row_space": "RowSpace",
            "acqh.features.simple": "Bias SignedRoot",
            "acqh.features.state": "StateMixin",
            "acqh.features.svd": "TagSVD",
        },
        _former,
    )
