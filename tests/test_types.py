"""The stub names what the package exports."""

import re
from pathlib import Path

import acqh

ROOT = Path(__file__).resolve().parents[1]


def test_the_stub_names_what_the_package_exports():
    stub = (ROOT / "src" / "acqh" / "__init__.pyi").read_text()
    named = set(re.findall(r" as (\w+)$", stub, flags=re.MULTILINE))
    assert named | {"__version__"} == {*acqh.__all__, *acqh._OPTIONAL_ROOMS}
