"""Bytes per item, items per second and memory of every kind of export, one JSON line each.

With many items, such as ``--n-items 40000000``, only Parquet files are written.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from acqh import CodeIndex
from acqh._core.imports import require
from acqh.export import export_faiss, export_parquet
from benchmarks._measure import emit, resident, seconds

N_COMPONENTS, N_CODEBOOKS = 32, 4
MANY = 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-items", type=int, default=100_000)
    n_items = parser.parse_args().n_items
    exports = {
        "parquet-codes": lambda path, **how: export_parquet(source, path, codes=True, **how),
        "parquet": lambda path, **how: export_parquet(source, path, **how),
    }
    if n_items <= MANY:
        exports |= {
            "faiss-codes": lambda path, **how: export_faiss(source, path, codes=True, **how),
            "faiss": lambda path, **how: export_faiss(source, path, **how),
        }
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "index")
        make_index(n_items).save(source)
        report("index", n_items, bytes_of(source))
        for package in ("pyarrow.parquet", "faiss"):
            require(package)
        for name, write in exports.items():
            path = Path(folder, name)
            # What is the process's own: not files that are mapped.
            before, peaks = resident("RssAnon"), []
            progress = partial(lambda *_, peaks: peaks.append(resident("RssAnon")), peaks=peaks)
            elapsed = seconds(partial(write, path, progress=progress))
            report(
                name,
                n_items,
                bytes_of(path),
                items_per_second=round(n_items / elapsed),
                memory_mb=round((max(peaks) - before) / 1e6),
            )


def make_index(n_items):
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((N_CODEBOOKS, 256, N_COMPONENTS))
    return CodeIndex(codebooks).add(rng.integers(256, size=(n_items, N_CODEBOOKS), dtype=np.uint8))


def bytes_of(path):
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def report(name, n_items, n_bytes, **facts):
    row = {"benchmark": "export", "export": name, "n_items": n_items}
    emit({**row, "bytes_per_item": round(n_bytes / n_items, 1), **facts})


if __name__ == "__main__":
    main()
