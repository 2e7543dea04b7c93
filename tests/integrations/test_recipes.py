"""The recipes of the guide run as printed."""

import doctest
import os
import sqlite3
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "frameworks.md"
PACKAGES = {
    "LangChain": ["langchain_core"],
    "LlamaIndex": ["llama_index.core"],
    "Milvus": ["pymilvus", "milvus_lite.server_manager", "pyarrow"],
    "Qdrant": ["qdrant_client", "pyarrow"],
    "LanceDB": ["lancedb", "pyarrow"],
    "DuckDB": ["duckdb"],
    "sqlite-vec": ["sqlite_vec"],
    "pgvector": ["psycopg", "pgvector"],
}


@pytest.mark.filterwarnings("default")  # of the frameworks
@pytest.mark.parametrize("name", PACKAGES)
def test_a_recipe_runs_as_printed(name, tmp_path, monkeypatch):
    for package in PACKAGES[name]:
        pytest.importorskip(package)
    if name == "pgvector" and "PGHOST" not in os.environ:
        pytest.importorskip("pgserver").get_server(tmp_path)
        for variable, value in (("HOST", str(tmp_path)), ("USER", "postgres")):
            monkeypatch.setenv(f"PG{variable}", value)
    if name == "sqlite-vec" and not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("this sqlite3 loads no extensions")
    monkeypatch.chdir(tmp_path)
    _, _, text = GUIDE.read_text(encoding="utf-8").partition(f"\n## {name}\n")
    section = text.partition("\n## ")[0]
    example = doctest.DocTestParser().get_doctest(section, {}, name, str(GUIDE), 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    if name == "Milvus":
        import milvus_lite.server_manager as lite

        lite.server_manager_instance.release_server("milvus.db")
    assert result.attempted > 5
    assert result.failed == 0
