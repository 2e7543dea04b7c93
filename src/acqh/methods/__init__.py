"""Every method, one file each, behind one API."""

from acqh.methods._base import BaseMethod
from acqh.methods._state import fingerprint, load_method
from acqh.methods.registry import MethodInfo, get, list, register  # noqa: A004

__all__ = ["BaseMethod", "MethodInfo", "fingerprint", "get", "list", "load_method", "register"]
