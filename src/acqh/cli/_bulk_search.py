"""``acqh search --queries``: indexes searched for all items of a file."""

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acqh._core.files import written_whole
from acqh.cli._cluster import cluster
from acqh.cli._output import print_result, refuse_existing
from acqh.cli._progress import reporting

_COLUMNS = ("query", "rank", "id", "score")


def search_all(
    indexes: list[Path],
    model: Path | None,
    queries: str,
    out: Path,
    view: str | None,
    k: int,
    chunk_size: int,
    dask: str | None,
    as_json: bool,
) -> None:
    """Search for all queries of a file; write a folder of parts, or one table of hits."""
    from acqh.methods import load_method
    from acqh.scale import search_parts

    to_table = out.suffix in (".csv", ".parquet")
    if to_table or out.is_file():
        refuse_existing(out)
    started = time.perf_counter()
    fitted = None if model is None else load_method(model)
    index = indexes[0] if len(indexes) == 1 else indexes
    with TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as scratch:
        folder = Path(scratch) / "answers" if to_table else out
        with cluster(dask) as client, reporting() as show:
            parts = search_parts(
                fitted,
                index,
                queries,
                folder,
                view=view,
                k=k,
                chunk_size=chunk_size,
                client=client,
                progress=show,
            )
        if to_table:
            with written_whole(out) as table:
                (_write_csv if out.suffix == ".csv" else _write_parquet)(parts, table)
    facts = {"n_queries": len(parts), "k": k, "seconds": time.perf_counter() - started}
    sentence = f"{out}: the best {k} for each of {len(parts):,} queries; {facts['seconds']:.1f} s."
    print_result(facts, sentence, as_json)


def _write_csv(parts: Any, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for part in parts:
            writer.writerows(zip(*_columns(part), strict=True))


def _write_parquet(parts: Any, path: Path) -> None:
    from acqh._core.imports import require

    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    schema: Any = None
    writer: Any = None
    for part in parts:
        table = arrow.table(dict(zip(_COLUMNS, _columns(part), strict=True)), schema=schema)
        if writer is None:
            schema = table.schema
            writer = parquet.ParquetWriter(path, schema)
        writer.write_table(table)
    writer.close()


def _columns(part: Any) -> Iterator[list[Any]]:
    """Yield the columns of a table that has a row for each hit."""
    import numpy as np

    found = np.arange(part.ids.shape[1]) < part.counts[:, None]
    query, rank = np.nonzero(found)
    yield part.query_ids[query].tolist()
    yield (rank + 1).tolist()
    yield part.ids[found].tolist()
    # The fewest digits that give the float32 back.
    yield [float(str(score)) for score in part.scores[found]]
