"""Out-of-core and distributed work: resumable encoding in parts, and sharded indexes."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
