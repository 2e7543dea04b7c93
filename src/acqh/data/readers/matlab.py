"""Matlab files of published data sets: roles of variables, parts, and the axis of the items."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Ints, Matrix, is_sparse
from acqh.data.multiview import stack
from acqh.data.readers.columns import SPLIT_SUFFIX, LoadedTable, Options
from acqh.data.readers.mat_files import Variable, open_mat
from acqh.errors import InvalidInputError, ViewError

_LABELS, _ROWS, _WHOLE = "labels", "row numbers", "all"
# Common names in published files, in lower case and without underscores.
_ROLES = {
    "image": ("i", "x", "f", "v", "img", "imgs", "image", "images", "visual"),
    "text": ("t", "y", "txt", "txts", "text", "texts", "tag", "tags"),
    _LABELS: ("l", "lab", "label", "labels", "cat", "gnd", "class", "classes"),
    _ROWS: ("indices", "index", "inds", "idx", "ind"),  # of a part in whole matrices
}
_PARTS = {
    "train": ("training", "train", "tr"),
    "database": ("database", "retrieval", "db"),
    "test": ("testing", "test", "query", "te"),
    _WHOLE: ("all", ""),
}

_Variables = Mapping[str, Variable]
_Roles = dict[str, str]  # role -> variable
_Block = dict[str, Matrix]  # role -> matrix, items in rows


class MatTable(LoadedTable):
    """The matrices of a Matlab file by role; parts are concatenated."""

    title, suffixes, magics = "Matlab", (".mat",), (b"MATLAB 5.0", b"MATLAB 7.3")
    own_options = ("splits", "orientation")
    first_class = 1

    def _open(self) -> None:
        path, options = self.path, self.options
        with open_mat(path, options.max_bytes) as file:
            plan, rows = _make_plan(file.variables, path.name, options)
            axes = _find_axes(plan, file.variables, path.name, options.orientation)
            blocks = {
                part: {
                    role: _items_first(file.load(name), axes[role == _LABELS])
                    for role, name in roles.items()
                }
                for part, roles in plan.items()
            }
            numbers = {part: _whole_numbers(file.load(name), name) for part, name in rows.items()}
        if _WHOLE in blocks:
            matrices, splits = blocks[_WHOLE], _index_splits(numbers)
        else:
            matrices, splits = _join_parts(blocks, path.name)
        for role, matrix in matrices.items():
            is_classes = role == _LABELS and matrix.shape[1] == 1
            self.add(role, _whole_numbers(matrix, role) if is_classes else matrix)
        for part, row_numbers in splits.items():
            self.add(part + SPLIT_SUFFIX, row_numbers)
        self.options = replace(
            options,
            views={role: role for role in matrices if role != _LABELS},
            labels=_LABELS if _LABELS in matrices else None,
            splits={part: part + SPLIT_SUFFIX for part in splits},
        )


def _make_plan(
    variables: _Variables, file: str, options: Options
) -> tuple[dict[str, _Roles], dict[str, str]]:
    """Assign variables to roles: part -> role -> variable, and part -> variable of row numbers.

    Raises InvalidInputError for a missing or ambiguous variable or an incomplete part.
    """
    if options.views is None and options.labels is None:
        parts, rows = _usual_plan(variables, file)
    else:
        parts, rows = _requested_plan(variables, file, options)
    if not parts:
        raise InvalidInputError(
            f"{file} has no variables of a known layout, such as I_tr, T_tr, L_tr, I_te, T_te, "
            f"L_te or XAll, YAll, LAll; {_hint(variables)}"
        )
    if _WHOLE in parts and len(parts) > 1:
        raise InvalidInputError(
            f"{file} is ambiguous: it has both whole matrices and parts; {_hint(variables)}"
        )
    roles = list(dict.fromkeys(role for part in parts.values() for role in part))
    if not set(roles) - {_LABELS}:
        raise InvalidInputError(f"{file}: no view is selected; {_hint(variables)}")
    for part, role in itertools.product(parts, roles):
        if role not in parts[part]:
            raise InvalidInputError(
                f"{file} has {role} for another part but not for the part {part!r}; "
                f"{_hint(variables)}"
            )
    return parts, rows if _WHOLE in parts else {}


def _requested_plan(
    variables: _Variables, file: str, options: Options
) -> tuple[dict[str, _Roles], dict[str, str]]:
    parts: dict[str, _Roles] = {}
    requested = dict(options.views or {})
    if options.labels is not None:
        requested[_LABELS] = options.labels
    for role, value in requested.items():
        for part, name in ({_WHOLE: value} if isinstance(value, str) else dict(value)).items():
            if part not in _PARTS:
                raise InvalidInputError(f"unknown part {part!r}; parts are {', '.join(_PARTS)}")
            parts.setdefault(part, {})[role] = name
    rows = dict(options.splits or {})
    for name in (*(name for roles in parts.values() for name in roles.values()), *rows.values()):
        if name not in variables or not variables[name].is_matrix:
            problem = "is not a matrix of numbers" if name in variables else "does not exist"
            raise InvalidInputError(f"{file}: variable {name!r} {problem}; {_hint(variables)}")
    return parts, rows


def _usual_plan(variables: _Variables, file: str) -> tuple[dict[str, _Roles], dict[str, str]]:
    parts: dict[str, _Roles] = {}
    rows: dict[str, str] = {}
    unreadable: list[tuple[str, str, str]] = []
    for name, variable in variables.items():
        part, role = _meaning(name)
        if variable.is_scalar or not role or (role, part) == (_ROWS, _WHOLE):
            continue
        if variable.is_matrix:
            names, key = (rows, part) if role == _ROWS else (parts.setdefault(part, {}), role)
            if key in names:
                raise InvalidInputError(
                    f"{file}: both {names[key]!r} and {name!r} could be the {key}; "
                    f"{_hint(variables)}"
                )
            names[key] = name
        elif role != _ROWS:
            unreadable.append((part, role, name))
    for part, role, name in unreadable:
        if part in parts and role not in parts[part]:
            raise InvalidInputError(
                f"{file}: {name!r} seems to be the {role} but is not a matrix of real numbers; "
                f"{_hint(variables)}"
            )
    # Labels such as L without views of the same part are leftovers.
    parts = {part: roles for part, roles in parts.items() if set(roles) - {_LABELS}}
    texts = [roles.get("text", "") for roles in parts.values()]
    if not any(_LABELS in roles for roles in parts.values()):
        for text in texts:
            if text.rpartition(".")[2].lower().startswith("y"):
                raise InvalidInputError(
                    f"{file} has no variable for labels, so {text!r} could be text or labels; "
                    f"{_hint(variables)}"
                )
    return parts, rows


def _meaning(name: str) -> tuple[str, str]:
    """Return part and role of a variable with a common name, in either order, or empty texts."""
    word = name.rpartition(".")[2].replace("_", "").lower()
    for part, affixes in _PARTS.items():
        for affix in affixes:
            for rest in (word.removesuffix(affix), word.removeprefix(affix)):
                for role, synonyms in _ROLES.items():
                    if rest in synonyms and (rest != word or not affix):
                        return part, role
    return "", ""


def _hint(variables: _Variables) -> str:
    shown = ", ".join(
        f"{name} {' x '.join(map(str, variable.shape))} {variable.kind}"
        for name, variable in variables.items()
    )
    return (
        f"the variables are: {shown or 'none'}; select them with views={{'image': NAME, 'text': "
        "NAME} and labels=NAME; for parts, pass {'train': NAME, 'test': NAME} instead of NAME"
    )


def _find_axes(
    plan: Mapping[str, _Roles], variables: _Variables, file: str, orientation: str | None
) -> tuple[int, int]:
    """Return the item axis of the views and that of the labels.

    All views share one item axis; labels may have the other. An axis is possible if all matrices
    of a part have the same size along it, and each role has the same size along the other axis in
    all parts. Raises ViewError if no axis is possible. Raises InvalidInputError if both are
    possible and `orientation` is None.
    """
    if orientation not in (None, "rows", "columns"):
        raise InvalidInputError(f"orientation must be 'rows' or 'columns', got {orientation!r}")
    axes_allowed = (0, 1) if orientation is None else (("rows", "columns").index(orientation),)
    has_labels = any(_LABELS in roles for roles in plan.values())
    possible = [
        axes
        for axes in itertools.product(axes_allowed, (0, 1))
        if (has_labels or axes[0] == axes[1]) and _fits(plan, variables, axes)
    ]
    if orientation is not None:
        # If both axes are possible for the labels, use that of the views.
        possible = sorted(possible, key=lambda axes: axes[0] != axes[1])[:1]
    if len(possible) == 1:
        return possible[0]
    shapes = ", ".join(
        f"{name} {' x '.join(map(str, variables[name].shape))}"
        for roles in plan.values()
        for name in roles.values()
    )
    if not possible:
        raise ViewError(f"{file}: the variables have no common number of items: {shapes}")
    raise InvalidInputError(
        f"{file}: items could be the rows or the columns of {shapes}; pass orientation='rows' or "
        "orientation='columns'"
    )


def _fits(plan: Mapping[str, _Roles], variables: _Variables, axes: tuple[int, ...]) -> bool:
    widths: dict[str, set[int]] = {}
    for roles in plan.values():
        counts = set()
        for role, name in roles.items():
            axis = axes[role == _LABELS]
            counts.add(variables[name].shape[axis])
            widths.setdefault(role, set()).add(variables[name].shape[1 - axis])
        if len(counts) != 1:
            return False
    return all(len(sizes) == 1 for sizes in widths.values())


def _items_first(matrix: Matrix, axis: int) -> Matrix:
    turned = matrix if axis == 0 else matrix.T
    return sp.csr_array(turned) if is_sparse(turned) else np.ascontiguousarray(turned)


def _whole_numbers(values: Matrix, name: str) -> Array:
    numbers = np.asarray(values.toarray() if is_sparse(values) else values).ravel()
    if not np.all(np.isfinite(numbers)) or np.any(numbers != np.round(numbers)):
        raise InvalidInputError(f"variable {name!r} must contain whole numbers only")
    return numbers.astype(np.int64)


def _index_splits(rows: Mapping[str, Array]) -> dict[str, Ints]:
    """Convert the row numbers of parts, counted from 1 unless a 0 occurs, to a split."""
    first = 0 if any((numbers == 0).any() for numbers in rows.values()) else 1
    return _disjoint({part: numbers - first for part, numbers in rows.items()})


def _disjoint(rows: dict[str, Any]) -> dict[str, Ints]:
    """Make the database part disjoint from the training part, or rename it to train."""
    if "database" in rows:
        if "train" not in rows:
            rows["train"] = rows.pop("database")
        else:
            rest = np.setdiff1d(rows.pop("database"), rows["train"])
            if rest.size:
                rows["database"] = rest
    return rows


def _join_parts(blocks: dict[str, _Block], file: str) -> tuple[_Block, dict[str, Ints]]:
    """Concatenate the parts; return them with the row numbers of each."""
    rows: dict[str, Any] = {}
    if "train" in blocks and "database" in blocks:
        inside = _find_rows(blocks["train"], blocks["database"], file)
        if inside is not None:
            rows["train"] = inside
            blocks = {part: block for part, block in blocks.items() if part != "train"}
    start = 0
    order = [part for part in ("train", "database", "test") if part in blocks]
    for part in order:
        n_items = next(iter(blocks[part].values())).shape[0]
        rows[part] = np.arange(start, start + n_items)
        start += n_items
    joined = {role: stack([blocks[part][role] for part in order]) for role in blocks[order[0]]}
    return joined, _disjoint(rows) if len(rows) > 1 else {}


def _find_rows(part: _Block, database: _Block, file: str) -> Ints | None:
    """Return the rows of `database` that equal those of `part`, or None if there are none.

    Published files often repeat the training items in the database.
    """
    places: dict[bytes, list[int]] = {}
    for row, digest in reversed(list(enumerate(_row_digests(database)))):
        places.setdefault(digest, []).append(row)
    matches = [places[d].pop() if places.get(d) else None for d in _row_digests(part)]
    rows_found = [row for row in matches if row is not None]
    if not rows_found:
        return None
    if len(rows_found) < len(matches):
        raise InvalidInputError(
            f"{file}: only {len(rows_found)} of the {len(matches)} training items are also in the "
            "database; select the variables to read with views= and labels="
        )
    return np.asarray(rows_found, dtype=np.int64)


def _row_digests(block: _Block) -> list[bytes]:
    n_items = next(iter(block.values())).shape[0]
    hashes = [hashlib.blake2b(digest_size=16) for _ in range(n_items)]
    for role in sorted(block):
        matrix = block[role]
        if is_sparse(matrix):
            matrix.sum_duplicates()
        for row, running in enumerate(hashes):
            if is_sparse(matrix):
                span = slice(matrix.indptr[row], matrix.indptr[row + 1])
                running.update(matrix.indices[span].astype(np.int64).tobytes())
                running.update(matrix.data[span].astype(np.float64).tobytes())
            else:
                running.update(matrix[row].astype(np.float64).tobytes())
    return [running.digest() for running in hashes]
