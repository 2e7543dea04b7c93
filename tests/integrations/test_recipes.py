"""The recipes of the guide run as printed."""

import doctest
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "frameworks.md"
PACKAGES = {
    "LangChain": ["langchain_core"],
    "LlamaIndex": ["llama_index.core"],
    "Milvus": ["pymilvus", "milvus_lite.server_manager", "pyarrow"],
}


@pytest.mark.filterwarnings("default")  # of the frameworks
@pytest.mark.parametrize("name", PACKAGES)
def test_a_recipe_runs_as_printed(name, tmp_path, monkeypatch):
    for package in PACKAGES[name]:
        pytest.importorskip(package)
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
