"""Bundle format: a manifest and safetensors members, written atomically, checked on reading."""

from acqh.io.read import Bundle, BundleReport, kind_of, read_bundle, verify_bundle
from acqh.io.write import replace_file, write_bundle

__all__ = [
    "Bundle",
    "BundleReport",
    "kind_of",
    "read_bundle",
    "replace_file",
    "verify_bundle",
    "write_bundle",
]
