"""Without the package that an export needs, the error names the extra."""

import subprocess
import sys

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.errors import MissingExtraError
from acqh.export import export_faiss, export_parquet


@pytest.mark.parametrize(
    ("package", "extra", "export"),
    [
        ("pyarrow", "parquet", lambda index, path: export_parquet(index, path)),
        ("faiss", "faiss", lambda index, path: export_faiss(index, path)),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(
    package, extra, export, tmp_path, monkeypatch
):
    index = CodeIndex(np.eye(2)[np.newaxis]).add([[1]])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=extra):
        export(index, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_site_needs_no_web_framework():
    missing = "httptools", "pydantic", "starlette", "uvicorn"
    forbid = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    command = f"{forbid}; from acqh.export import site"
    subprocess.run([sys.executable, "-c", command], check=True, timeout=120)
