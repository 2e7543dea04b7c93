"""Answers to many queries in a folder, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.errors import CorruptBundleError
from acqh.scale.part_folder import Parts, Plan
from acqh.scale.part_ids import pack_ids, pack_text_ids, unpack_ids, unpack_text_ids


class SearchPart(NamedTuple):
    """What was found for consecutive queries, best first.

    Parameters
    ----------
    query_ids : (n_queries,) int64, or object for texts
    ids : (n_queries, k) int64, or object for texts
        Of the items found; -1 or None where there are fewer than k.
    scores : (n_queries, k) float32
        Falling; minus infinity where there are fewer than k items.
    counts : (n_queries,) int64
        How many items were found, from the left.
    """

    query_ids: Array
    ids: Array
    scores: Floats
    counts: Ints


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan[SearchPart]):
    """What answers are found with: a model, an index, a view of the queries, and how many."""

    kind = "search-parts"
    part_kind = "search-part"
    content = "answers"
    ids_name = "query_ids"

    index: str
    view: str
    k: int

    def pack(self, part: SearchPart) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, first_id = pack_ids(part.query_ids, "query_")
        if part.ids.dtype == object:
            # A text that is not there is told by the counts.
            found = np.where(self._is_found(part.counts), part.ids, "")
            arrays |= pack_text_ids(found.ravel())
        else:
            arrays["ids"] = np.ascontiguousarray(part.ids, dtype=np.int64)
        arrays["scores"] = np.ascontiguousarray(part.scores, dtype=np.float32)
        arrays["counts"] = np.ascontiguousarray(part.counts, dtype=np.int64)
        return arrays, first_id

    def unpack(
        self, arrays: dict[str, Array], info: Mapping[str, Any], n_rows: int, path: Path
    ) -> SearchPart:
        scores, counts = arrays.get("scores", np.empty(0)), arrays.get("counts", np.empty(0))
        fits = scores.dtype == np.float32 and scores.shape == (n_rows, self.k)
        if not fits or counts.dtype != np.int64 or counts.shape != (n_rows,):
            raise CorruptBundleError(f"{path} does not hold {n_rows} answers of {self.k} items")
        ids = arrays.get("ids", np.empty(0))
        if ids.dtype != np.int64 or ids.shape != (n_rows, self.k):
            texts = unpack_text_ids(arrays, n_rows * self.k, path).reshape(n_rows, self.k)
            ids = np.where(self._is_found(counts), texts, np.array(None))
        query_ids = unpack_ids(arrays, info, n_rows, path, "query_")
        return SearchPart(query_ids, ids, scores, counts)

    def _is_found(self, counts: Ints) -> Array:
        return np.asarray(np.arange(self.k) < counts[:, None])


class SearchParts(Parts[SearchPart]):
    """Answers in a folder that `search_parts` made, read a part at a time.

    Iterating gives each `SearchPart`, in the order of the queries; its bytes are compared with its
    checksum on the way. One part is in memory at a time.

    Parameters
    ----------
    path : path-like
        The folder.
    verify : bool, default False
        Read every part now.

    Attributes
    ----------
    path : Path
    model : str
        `acqh.methods.fingerprint` of the model that projected the queries.
    index : str
        Tells the index that was searched from others.
    view : str
        That of the queries.
    k : int
        How many items were asked for.
    chunk_size : int or None
        Queries of a part; None where the source decided.
    n_parts : int

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    InvalidInputError
        Searching has not finished, or the folder holds something else.
    CorruptBundleError
        The folder is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> index = acqh.CodeIndex(model.codebooks_).add(model.encode(data), data.ids)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = folder + "/answers"
    ...     _ = acqh.scale.search_parts(model, index, data, out, view="text", k=3, chunk_size=20)
    ...     [part.ids.shape for part in SearchParts(out)]
    [(20, 3), (20, 3), (10, 3)]
    """

    def __init__(self, path: str | PathLike[str], *, verify: bool = False) -> None:
        plan = SearchPlan.read(Path(path))
        self.index = plan.index
        self.view = plan.view
        self.k = plan.k
        super().__init__(path, plan, verify=verify)

    def __repr__(self) -> str:
        return f"<SearchParts: {len(self)} queries in {self.n_parts} parts, {self.k} items each>"
