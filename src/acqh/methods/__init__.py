"""ACQH and its rivals behind one API.

The classes of methods are loaded on first use: ``from acqh.methods import DCH``.
"""

from typing import TYPE_CHECKING, Any

from acqh._core.imports import lazy_names
from acqh.methods.registry import HOMES, MethodInfo, get, list, register  # noqa: A004

if TYPE_CHECKING:
    from acqh.methods._base import BaseMethod
    from acqh.methods._general import general_statistics
    from acqh.methods._state import fingerprint, load_method
    from acqh.methods.acqh import ACQH, ACQHPaper
    from acqh.methods.rivals.additive.ccq import CCQ
    from acqh.methods.rivals.additive.stacked import Stacked
    from acqh.methods.rivals.correlation.cvh import CVH
    from acqh.methods.rivals.correlation.qch import QCH
    from acqh.methods.rivals.correlation.scm_orth import SCMOrth
    from acqh.methods.rivals.correlation.scm_seq import SCMSeq
    from acqh.methods.rivals.discrete.adch import ADCH
    from acqh.methods.rivals.discrete.dch import DCH
    from acqh.methods.rivals.discrete.dcmh_discrete import DiscreteCMH
    from acqh.methods.rivals.discrete.dcmh_discriminant import DiscriminantCMH
    from acqh.methods.rivals.discrete.fdch import FDCH
    from acqh.methods.rivals.factors.cmfh import CMFH
    from acqh.methods.rivals.factors.cre import CRE
    from acqh.methods.rivals.factors.fsh import FSH
    from acqh.methods.rivals.factors.lssh import LSSH
    from acqh.methods.rivals.label_ridge import LabelRidge
    from acqh.methods.rivals.logistic.gsph import GSPH
    from acqh.methods.rivals.logistic.ksh import KSH
    from acqh.methods.rivals.logistic.seph import SePH
    from acqh.methods.rivals.networks.ddcmh import DDCMH
    from acqh.methods.rivals.networks.deep_cmh import DeepCMH

__all__ = [  # noqa: RUF022
    "ACQH",
    "ACQHPaper",
    "ADCH",
    "BaseMethod",
    "CCQ",
    "CMFH",
    "CRE",
    "CVH",
    "DCH",
    "DDCMH",
    "DeepCMH",
    "DiscreteCMH",
    "DiscriminantCMH",
    "FDCH",
    "FSH",
    "GSPH",
    "KSH",
    "LSSH",
    "LabelRidge",
    "MethodInfo",
    "QCH",
    "SCMOrth",
    "SCMSeq",
    "SePH",
    "Stacked",
    "fingerprint",
    "general_statistics",
    "get",
    "list",
    "load_method",
    "register",
]


def _method(name: str) -> Any:
    for method, home in HOMES.items():
        if home.endswith(f":{name}"):
            globals()[name] = get(method)
            return globals()[name]
    raise AttributeError(f"module 'acqh.methods' has no attribute {name!r}")


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.methods._base": "BaseMethod",
            "acqh.methods._general": "general_statistics",
            "acqh.methods._state": "fingerprint load_method",
        },
        _method,
    )
