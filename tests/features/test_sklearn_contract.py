"""Every map passes scikit-learn's own checks, without exception."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from acqh.features import Bias, KernelMap, RBFAnchors, SignedRoot, TagSVD

MAPS = [
    Bias(),
    KernelMap(random_state=0),
    KernelMap("rbf", n_anchors=5, random_state=0),
    RBFAnchors(n_anchors=5),
    RBFAnchors(n_anchors=5, variant="rbf_fixed"),
    TagSVD(n_components=2),
    SignedRoot(),
]


@parametrize_with_checks(MAPS)
def test_scikit_learn_contract_holds(estimator: Any, check: Any) -> None:
    check(estimator)
