"""An index of codes in parts: one, or several that are made each by itself and searched as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

from acqh._core.arrays import Array, check_positive_int
from acqh._core.runtime import Progress
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex
from acqh.index.parts import Parts
from acqh.io import read_bundle, write_bundle
from acqh.io.read import kind_of
from acqh.scale.chunks import chunk_source
from acqh.scale.parts import CodeParts

SHARDS = "code-shards"


def build_index(codebooks: Any, parts: Parts, *, progress: Progress | None = None) -> CodeIndex:
    """Make an index of parts of codes, one after the other, as `CodeIndex.add_parts` does.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Of the model that made the codes.
    parts : CodeParts, other iterable of (codes, ids or None), or callable
        Read twice, one part at a time: what a function returns, it is called for twice. Codes may
        be mapped arrays: ``[(np.load(path, mmap_mode="r"), None)]``.
    progress : callable, optional
        Called after each part with the number of items done (those read once count half), their
        number (None where it is not known), and a text.

    Returns
    -------
    CodeIndex
        In memory. Items are in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs in two parts.
    InvalidInputError
        Codes that do not fit the codebooks; parts that have changed when they are read again.
    CorruptBundleError
        A part is damaged.

    Notes
    -----
    With four codebooks and ids that count up, the index takes about 6 bytes per item, and building
    it little more: beside it there is a part in memory. Where so many items share codes that each
    is stored once, that index is smaller, but made of the other: up to 12 bytes per item are in use
    for a moment.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [(np.array([[0], [1]]), ["a", "b"]), (np.array([[1]]), ["c"])]
    >>> build_index(np.eye(2)[None], parts)
    <CodeIndex: 3 items, 1 codebooks of 2 codewords, 2 dimensions>
    """
    return CodeIndex(codebooks).add_parts(parts, progress=progress)


def build_shards(
    codebooks: Any,
    parts: CodeParts,
    out: str | PathLike[str],
    *,
    n_shards: int,
    client: Any = None,
    progress: Progress | None = None,
) -> CodeIndex:
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
    CodeIndex
        As `open_shards` opens the folder. Items are in the order of the parts.

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
    <CodeIndex: 50 items, 2 codebooks of 256 codewords, 8 dimensions>
    """
    check_positive_int(n_shards, "n_shards")
    if n_shards > len(parts):
        raise InvalidInputError(f"{n_shards} shards of {len(parts)} items; give fewer")
    bounds = [len(parts) * number // n_shards for number in range(n_shards + 1)]
    folder, source = ShardFolder(Path(out).absolute(), n_shards, len(parts)), parts.path.absolute()
    rows = [_Rows(source, start, stop) for start, stop in pairwise(bounds)]
    chunked = chunk_source(rows, len(parts), client, progress)
    folder.write(is_finished=False)
    for _ in chunked.map(partial(_write_shard, codebooks), "items indexed", folder.paths):
        pass
    index = CodeIndex.of_shards([CodeIndex.load(path) for path in folder.paths])
    folder.write(is_finished=True)
    for path in set(folder.path.glob("shard-?????")) - set(folder.paths):
        rmtree(path)
    return index


@dataclass(frozen=True)
class _Rows:
    """A piece of a folder of codes, read as often as an index needs it."""

    path: Path
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self) -> Self:
        return self

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return iter(CodeParts(self.path).rows(self.start, self.stop))


def _write_shard(codebooks: Any, rows: _Rows, path: Path) -> None:
    CodeIndex(codebooks).add_parts(rows).save(path)


def open_shards(
    shards: str | PathLike[str] | Sequence[CodeIndex | str | PathLike[str]], *, verify: bool = False
) -> CodeIndex:
    """Open several indexes of the same codebooks as one, mapped.

    A search finds what one `CodeIndex` of all items would find, had they been added shard after
    shard. Shards are read as they are searched. Changes stay in memory, and join shards there.

    Parameters
    ----------
    shards : path-like, or sequence of CodeIndex or path-like
        A folder that `build_shards` made; or saved indexes, or opened ones. Of several, ids are
        compared, for which all are read: 8 bytes per item for numbers of one shard at a time; where
        the ranges of ids overlap, all ids are sorted in memory.
    verify : bool, default False
        Read every byte, and compare the ids of a folder again.

    Returns
    -------
    CodeIndex

    Raises
    ------
    InvalidInputError
        No shard, other codebooks than the first shard's, or numbers in one and texts in another;
        more than 4.29 billion items in all; shards that were not finished, or something else.
    DuplicateIdError
        Two shards have the same id.
    FileNotFoundError, CorruptBundleError
        A path without an index, or with a damaged one.

    Examples
    --------
    >>> import numpy as np
    >>> codebooks = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> north = CodeIndex(codebooks).add([[0], [1]], ids=["a", "b"])
    >>> south = CodeIndex(codebooks).add([[0]], ids=["c"])
    >>> open_shards([north, south]).search([[1.0, 0.5]], k=3).ids
    array([['a', 'c', 'b']], dtype=object)
    """
    if isinstance(shards, CodeIndex):
        raise InvalidInputError(f"shards must be a list of indexes or paths, got {shards!r}")
    if not isinstance(shards, str | PathLike):
        return CodeIndex.of_shards([_open(shard, verify) for shard in shards])
    folder = ShardFolder.read(Path(shards))
    try:
        opened = [CodeIndex.load(path, verify=verify) for path in folder.paths]
    except FileNotFoundError as error:
        raise CorruptBundleError(f"a shard of {folder.path} is missing: {error}") from error
    index = CodeIndex.of_shards(opened, check_ids=verify)
    if len(index) != folder.n_items:
        raise CorruptBundleError(
            f"the shards of {folder.path} have {len(index)} items, not {folder.n_items}"
        )
    return index


def open_index(index: Any) -> CodeIndex:
    """Open an index of one or several paths, mapped; raises as `open_shards` does."""
    is_path = isinstance(index, str | PathLike)
    if is_path and kind_of(index, "index") != SHARDS:
        return CodeIndex.load(index)
    return index if isinstance(index, CodeIndex) else open_shards(index)


def _open(shard: CodeIndex | str | PathLike[str], verify: bool) -> CodeIndex:
    return shard if isinstance(shard, CodeIndex) else CodeIndex.load(shard, verify=verify)


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards; a bundle itself, which says how many there are once all are."""

    path: Path
    n_shards: int
    n_items: int

    @property
    def paths(self) -> list[Path]:
        """Where each shard is."""
        return [self.path / f"shard-{number:05d}" for number in range(self.n_shards)]

    def write(self, *, is_finished: bool) -> None:
        """Say of the folder, which is made if it is not there, whether all shards are."""
        info = {"n_shards": self.n_shards, "n_items": self.n_items, "is_finished": is_finished}
        write_bundle(self.path, kind=SHARDS, info=info, arrays={})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what a folder of finished shards says of itself; raises as `open_shards`."""
        match read_bundle(path, kind=SHARDS).info:
            case {
                "n_shards": int(n_shards),
                "n_items": int(n_items),
                "is_finished": bool(finished),
            }:
                if finished:
                    return cls(path, n_shards, n_items)
                raise InvalidInputError(f"the shards of {path} were not finished; build them again")
        raise CorruptBundleError(f"{path} does not describe shards")
