"""An index in shards, each made by itself: here, or on the workers of a cluster."""

from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.runtime import Progress
from acqh.errors import InvalidInputError
from acqh.scale.build import build_index
from acqh.scale.chunks import Chunk, counter
from acqh.scale.cluster import check_workers
from acqh.scale.parts import CodeParts
from acqh.scale.sharded import ShardedIndex, ShardFolder
from acqh.scale.workers import call, carry, compute


def build_shards(
    codebooks: Any,
    parts: CodeParts,
    out: str | PathLike[str],
    *,
    n_shards: int,
    client: Any = None,
    progress: Progress | None = None,
) -> ShardedIndex:
    """Make an index in shards of equal size, one bundle per shard, in one folder.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Of the model that made the codes.
    parts : CodeParts
        Of finished coding.
    out : path-like
        The folder; created if it does not exist. Its parent must exist. Shards that it holds are
        replaced.
    n_shards : int
        At most one per item.
    client : distributed.Client, optional
        Whose workers make the shards; they must see both folders under the same paths.
    progress : callable, optional
        Called after each shard with the number of items done, their number, and a text.

    Returns
    -------
    ShardedIndex
        Opened from the folder, as `ShardedIndex.load` does. Items are in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs twice; the folder cannot be opened then.
    InvalidInputError
        Codes that do not fit the codebooks, or more shards than items.
    CorruptBundleError
        A part is damaged.
    FileExistsError
        The folder has something else in it.
    ClusterError
        The cluster cannot do the work, or has lost it.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = acqh.scale.encode_parts(model, data, folder + "/codes", chunk_size=20)
    ...     build_shards(model.codebooks_, parts, folder + "/index", n_shards=2)
    <ShardedIndex: 50 items in 2 shards>
    """
    check_positive_int(n_shards, "n_shards")
    if n_shards > len(parts):
        raise InvalidInputError(f"{n_shards} shards of {len(parts)} items; give fewer")
    bounds = [len(parts) * number // n_shards for number in range(n_shards + 1)]
    folder = ShardFolder(Path(out).absolute(), n_shards, len(parts))
    chunks = [
        Chunk(str(path), (path, start, stop), stop - start)
        for path, start, stop in zip(folder.paths, bounds[:-1], bounds[1:], strict=True)
    ]
    source = parts.path.absolute()
    done = counter(chunks, progress, "indexed")
    if client is not None:
        check_workers(client)
    folder.write(is_finished=False)
    if client is None:
        for number, chunk in enumerate(chunks):
            _write_shard(codebooks, source, *chunk.items)
            done(number)
    else:
        carried = carry(np.asarray(codebooks))
        tasks = [call(_write_shard)(carried, source, *chunk.items) for chunk in chunks]
        compute(client, tasks, [chunk.name for chunk in chunks], done=done)
    index = ShardedIndex(folder.paths)
    folder.write(is_finished=True)
    for path in set(folder.path.glob("shard-?????")) - set(folder.paths):
        rmtree(path)
    return index


def _write_shard(codebooks: Any, source: Path, path: Path, start: int, stop: int) -> None:
    """Index some of the items, by their rows in all parts, and write the index."""
    parts = CodeParts(source)
    build_index(codebooks, lambda: parts.rows(start, stop)).save(path)
