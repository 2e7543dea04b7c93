"""Bytes an item of every kind of export, and how long each takes."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from acqh import CodeIndex
from acqh.export import export_faiss, export_milvus, export_parquet

N_ITEMS, N_COMPONENTS, N_CODEBOOKS = 100_000, 32, 4


def bytes_of(path):
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def main():
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((N_CODEBOOKS, 256, N_COMPONENTS))
    index = CodeIndex(codebooks).add(rng.integers(256, size=(N_ITEMS, N_CODEBOOKS)))
    exports = {
        "index": lambda path: index.save(path),
        "parquet": lambda path: export_parquet(index, path),
        "parquet-codes": lambda path: export_parquet(index, path, codes=True),
        "faiss": lambda path: export_faiss(index, path),
        "faiss-codes": lambda path: export_faiss(index, path, codes=True),
        "milvus.db": lambda path: export_milvus(index, str(path), "items"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, write in exports.items():
            path = Path(folder, name)
            started = time.perf_counter()
            write(path)
            seconds = time.perf_counter() - started
            row = {
                "benchmark": "export",
                "export": name,
                "n_items": N_ITEMS,
                "bytes_per_item": round(bytes_of(path) / N_ITEMS, 1),
                "items_per_second": round(N_ITEMS / seconds),
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
