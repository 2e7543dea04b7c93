"""Bundle format: a manifest and safetensors members, written atomically, checked on reading."""
