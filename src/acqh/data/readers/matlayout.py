"""What the variables of a Matlab file mean: their names, and which of their axes is the items'."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from acqh.data.readers.matvariable import Variable
from acqh.errors import AcqhError, InvalidInputError, ViewError

Orientation = Literal["rows", "columns"]

LABELS = "labels"
WHOLE = "all"
# Names in use in the field, in lower case and without underscores.
_ROLES = {
    "image": ("i", "x", "f", "v", "img", "imgs", "image", "images", "visual"),
    "text": ("t", "y", "txt", "txts", "text", "texts", "tag", "tags"),
    LABELS: ("l", "lab", "label", "labels", "cat", "gnd", "class", "classes"),
}
_PARTS = {
    "train": ("training", "train", "tr"),
    "database": ("database", "retrieval", "db"),
    "test": ("testing", "test", "query", "te"),
    WHOLE: ("all", ""),
}
_INDEX_WORDS = ("indices", "index", "inds", "idx", "ind")


@dataclass(frozen=True)
class Plan:
    """Which variable is which: part -> role -> variable, and rows of parts of a whole."""

    parts: Mapping[str, Mapping[str, str]]
    rows: Mapping[str, str]

    @property
    def has_labels(self) -> bool:
        """Whether the parts have labels."""
        return LABELS in next(iter(self.parts.values()))


def make_plan(
    variables: Mapping[str, Variable],
    file: str,
    given: Mapping[str, str | Mapping[str, str]] | None,
) -> Plan:
    """Find out which variable is which, by the names given or by the usual ones.

    Raises InvalidInputError: a name is not there, two variables fit, or a part is incomplete.
    """
    if given is not None:
        parts, rows = _given_plan(variables, file, given)
    else:
        parts, rows = _usual_plan(variables, file)
    if not parts:
        raise InvalidInputError(
            f"{file} has no variables of a known layout, such as I_tr, T_tr, L_tr, I_te, T_te, "
            f"L_te or XAll, YAll, LAll; {_hint(variables)}"
        )
    _check_complete(parts, variables, file)
    return Plan(parts, rows)


def _given_plan(
    variables: Mapping[str, Variable], file: str, given: Mapping[str, str | Mapping[str, str]]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    parts: dict[str, dict[str, str]] = {}
    rows: dict[str, str] = {}
    for role, value in given.items():
        named = {WHOLE: value} if isinstance(value, str) else dict(value)
        for part, name in named.items():
            if part not in _PARTS:
                raise InvalidInputError(f"parts are called {', '.join(_PARTS)}, got {part!r}")
            if name not in variables or not variables[name].is_matrix:
                what = "is not a matrix of numbers" if name in variables else "is not there"
                raise InvalidInputError(f"{file}: variable {name!r} {what}; {_hint(variables)}")
            if role.endswith("_idx"):
                rows[role.removesuffix("_idx")] = name
            else:
                parts.setdefault(part, {})[role] = name
    return parts, rows


def _usual_plan(
    variables: Mapping[str, Variable], file: str
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    parts: dict[str, dict[str, str]] = {}
    rows: dict[str, str] = {}
    unreadable: list[tuple[str, str, str]] = []
    for name, variable in variables.items():
        meaning, index = _meaning(name), _index_part(name)
        if variable.is_scalar:
            continue
        if meaning is not None and not variable.is_matrix:
            unreadable.append((*meaning, name))
        elif meaning is not None:
            _add(parts.setdefault(meaning[0], {}), meaning[1], name, variables, file)
        elif index is not None and variable.is_matrix:
            _add(rows, index, name, variables, file)
    for part, role, name in unreadable:
        if part in parts and role not in parts[part]:
            raise InvalidInputError(
                f"{file}: {name!r} seems to be the {role} but is not a matrix of real numbers; "
                f"{_hint(variables)}"
            )
    # A letter alone, such as L, is a remnant where it has no views beside it.
    parts = {part: roles for part, roles in parts.items() if set(roles) - {LABELS}}
    if WHOLE in parts and len(parts) > 1:
        raise InvalidInputError(
            f"{file} has both whole matrices and parts, so it cannot be told which to read; "
            f"{_hint(variables)}"
        )
    if not any(LABELS in roles for roles in parts.values()):
        for roles in parts.values():
            if roles.get("text", "").rpartition(".")[2].lower().startswith("y"):
                raise InvalidInputError(
                    f"{file} has no variable for labels, so {roles['text']!r} could be text or "
                    f"labels; {_hint(variables)}"
                )
    return parts, rows if WHOLE in parts else {}


def _add(
    found: dict[str, str], key: str, name: str, variables: Mapping[str, Variable], file: str
) -> None:
    if key in found:
        raise InvalidInputError(
            f"{file}: both {found[key]!r} and {name!r} could be the {key}; {_hint(variables)}"
        )
    found[key] = name


def _meaning(name: str) -> tuple[str, str] | None:
    """Return part and role of a variable with a usual name, whichever comes first in it."""
    word = _plain(name)
    for part, affixes in _PARTS.items():
        for affix in affixes:
            for rest in (word.removesuffix(affix), word.removeprefix(affix)):
                if affix and rest == word:
                    continue
                for role, synonyms in _ROLES.items():
                    if rest in synonyms:
                        return part, role
    return None


def _index_part(name: str) -> str | None:
    word = _plain(name)
    for index_word in _INDEX_WORDS:
        for rest in (word.removesuffix(index_word), word.removeprefix(index_word)):
            for part, affixes in _PARTS.items():
                if rest != word and rest and rest in affixes and part != WHOLE:
                    return part
    return None


def _plain(name: str) -> str:
    return name.rpartition(".")[2].replace("_", "").lower()


def _check_complete(
    parts: Mapping[str, Mapping[str, str]], variables: Mapping[str, Variable], file: str
) -> None:
    if WHOLE in parts and len(parts) > 1:
        raise InvalidInputError("name either whole matrices or parts of all of them, not both")
    roles = list(dict.fromkeys(role for part in parts.values() for role in part))
    if not set(roles) - {LABELS}:
        raise InvalidInputError(f"{file}: no view is named; {_hint(variables)}")
    for part, found in parts.items():
        for role in roles:
            if role not in found:
                raise InvalidInputError(
                    f"{file} has no {role} for the part {part!r}, although another part has; "
                    f"{_hint(variables)}"
                )


def _hint(variables: Mapping[str, Variable]) -> str:
    shown = ", ".join(
        f"{name} {' x '.join(map(str, variable.shape))} {variable.kind}"
        for name, variable in variables.items()
    )
    return (
        f"the variables are: {shown or 'none'}; name them with "
        "variables={'image': NAME, 'text': NAME, 'labels': NAME}, or for parts "
        "{'image': {'train': NAME, 'test': NAME}, ...}"
    )


def find_axes(
    plan: Plan, shapes: Mapping[str, tuple[int, ...]], file: str, orientation: Orientation | None
) -> tuple[int, int]:
    """Tell which axis of the views, and which of the labels, is the items'.

    Views have one item axis in common, labels may have the other. An axis is possible where all
    matrices of a part have the same size along it, and each role has the same size along the
    other one in all parts.

    `orientation`: {"rows", "columns"}; where the items of the views are, where that cannot be told.
    Raises ViewError: no axis fits. Raises InvalidInputError: both do, and `orientation` is not
    given.
    """
    if orientation not in (None, "rows", "columns"):
        raise InvalidInputError(f"orientation must be 'rows' or 'columns', got {orientation!r}")
    wanted = (0, 1) if orientation is None else (("rows", "columns").index(orientation),)
    possible = [
        (view_axis, label_axis)
        for view_axis, label_axis in itertools.product(wanted, (0, 1))
        if (plan.has_labels or label_axis == view_axis)
        and _fits(plan, shapes, view_axis, label_axis)
    ]
    if orientation is not None:
        # Labels that fit either way lie as the views do.
        possible.sort(key=lambda axes: axes[0] != axes[1])
        possible = possible[:1]
    if len(possible) == 1:
        return possible[0]
    names = [name for roles in plan.parts.values() for name in roles.values()]
    raise _axis_error(file, {name: shapes[name] for name in names}, possible=bool(possible))


def _axis_error(file: str, shapes: Mapping[str, tuple[int, ...]], *, possible: bool) -> AcqhError:
    found = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
    if not possible:
        return ViewError(f"{file}: the variables do not pair by item, whichever way: {found}")
    return InvalidInputError(
        f"{file}: items could be the rows or the columns of {found}; say which with "
        "orientation='rows' or orientation='columns'"
    )


def _fits(
    plan: Plan, shapes: Mapping[str, tuple[int, ...]], view_axis: int, label_axis: int
) -> bool:
    widths: dict[str, set[int]] = {}
    for roles in plan.parts.values():
        counts = set()
        for role, name in roles.items():
            axis = label_axis if role == LABELS else view_axis
            counts.add(shapes[name][axis])
            widths.setdefault(role, set()).add(shapes[name][1 - axis])
        if len(counts) != 1:
            return False
    return all(len(sizes) == 1 for sizes in widths.values())
