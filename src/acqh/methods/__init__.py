"""Every method, one file each, behind one API.

The classes of methods are loaded on first use: ``from acqh.methods import DCH``.
"""

from typing import TYPE_CHECKING, Any

from acqh._core.imports import lazy_names
from acqh.methods.registry import MethodInfo, get, list, register  # noqa: A004

if TYPE_CHECKING:
    from acqh.methods._base import BaseMethod
    from acqh.methods._general import general_statistics
    from acqh.methods._state import fingerprint, load_method
    from acqh.methods.acqh import ACQH, ACQHPaper
    from acqh.methods.adch import ADCH
    from acqh.methods.ccq import CCQ
    from acqh.methods.cmfh import CMFH
    from acqh.methods.cre import CRE
    from acqh.methods.cvh import CVH
    from acqh.methods.dch import DCH
    from acqh.methods.dcmh_discrete import DiscreteCMH
    from acqh.methods.dcmh_discriminant import DiscriminantCMH
    from acqh.methods.ddcmh import DDCMH
    from acqh.methods.deep_cmh import DeepCMH
    from acqh.methods.fdch import FDCH
    from acqh.methods.fsh import FSH
    from acqh.methods.gsph import GSPH
    from acqh.methods.ksh import KSH
    from acqh.methods.label_ridge import LabelRidge
    from acqh.methods.lssh import LSSH
    from acqh.methods.qch import QCH
    from acqh.methods.scm_orth import SCMOrth
    from acqh.methods.scm_seq import SCMSeq
    from acqh.methods.seph import SePH
    from acqh.methods.stacked import Stacked

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
    if name in __all__:
        for method in map(get, list()):
            if method.__name__ == name:
                globals()[name] = method
                return method
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
