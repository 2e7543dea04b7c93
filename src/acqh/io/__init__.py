"""Bundle format: a manifest and safetensors members, written atomically, checked on reading."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
