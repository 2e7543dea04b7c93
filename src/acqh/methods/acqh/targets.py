"""What scores should be: targets, each a weight and a kind of similarity."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from acqh._core.arrays import Floats, Matrix
from acqh._core.device import MAX_MEMORY
from acqh._core.runtime import RandomState, check_rng
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.collect import Needs, unit_name
from acqh.methods.target import AUTO, Target
from acqh.stats import Keep, Statistics, pair_of

# The target that is not a view.
LABELS = "labels"


def read_targets(
    targets: Mapping[str, float | Target] | None, views: Collection[str], has_labels: bool
) -> dict[str, Target]:
    """Return the targets by name, without those of weight zero.

    Parameters
    ----------
    targets : mapping of str to float or Target, or None
        None: labels where there are any, otherwise the content of all views, to be weighed.
    views : collection of str
    has_labels : bool
        Whether the data come with labels.

    Raises
    ------
    InvalidInputError
        No mapping, or weights that are negative or all zero.
    LabelError
        Labels are a target, but there are none.
    ViewError
        A target that is not a view, or a view called "labels".
    """
    if LABELS in views:
        raise ViewError(
            "a view cannot be called 'labels', which names the labels among the targets; give the "
            "view another name"
        )
    if targets is None:
        if has_labels:
            return {LABELS: Target()}
        return {view: Target(1.0 / len(views)) for view in views}
    if not isinstance(targets, Mapping):
        raise InvalidInputError(
            "targets must be a mapping of names to weights, such as {'labels': 0.5, 'text': 0.5}, "
            f"got {type(targets).__name__}"
        )
    read = {
        name: target if isinstance(target, Target) else Target(target)
        for name, target in targets.items()
    }
    for name, target in read.items():
        if name not in views and name != LABELS:
            raise ViewError(
                f"the target {name!r} is not a view; targets may be {sorted(views)} and 'labels'"
            )
        if name == LABELS and target.similarity != "content":
            raise InvalidInputError(
                "the similarity of labels is the argument `similarity` of ACQH, not that of their "
                f"Target, which is {target.similarity!r}"
            )
        if name == LABELS and target.trust == AUTO:
            raise InvalidInputError(
                "the trust of labels cannot be chosen by 'auto', which asks for items by their own "
                "features; give a number from 0 to 1"
            )
    used = {name: target for name, target in read.items() if target.weight > 0}
    if not used:
        raise InvalidInputError(f"a target must have a weight above zero, got {dict(targets)}")
    if LABELS in used and not has_labels:
        raise LabelError(
            "labels are needed: they are a target, but the data have none; give labels with the "
            "views, or take them out of targets"
        )
    return used


def check_solvable(
    targets: Mapping[str, Target], stats: Statistics, solver: str, is_plain: bool
) -> None:
    """Check that statistics hold what targets are learnt from, and that the solver can.

    `is_plain`: whether labels are the only target, and nothing else is asked for. Raises
    InvalidInputError or LabelError where they do not.
    """
    if not is_plain and solver != "spectral":
        raise InvalidInputError(
            "Algorithm 1 knows labels alone; take ACQH for other targets or queries"
        )
    if not is_plain and stats.keep is None:
        raise InvalidInputError(
            f"the targets {[*targets]} need products of views and a sample of rows, but the "
            "statistics keep sums over labelled items only; collect them with keep='all'"
        )
    if stats.counts.sum() == 0 and LABELS in targets:
        raise LabelError("no item has a label, so there is nothing to learn from")


@dataclass(frozen=True)
class Wanted:
    """What the parameters of `ACQH` ask to be kept of the data."""

    targets: Any  # as `ACQH` takes them
    keep: Literal["needed", "all"]
    sample_size: int
    only_sums: bool  # whether labels alone are learnt from sums alone; other targets need more
    # From labels, 0/1 (n_items, n_labels), to what kernel maps learn to predict, with labels alone;
    # None where there is no such map.
    respond: Callable[[Matrix], Floats] | None = None
    random_state: RandomState = None  # seeds feature maps
    max_memory: int = MAX_MEMORY  # bytes that feature maps may take on a device

    def __call__(self, part: MultiViewData) -> Needs:
        """Return what to keep of data like this part."""
        targets = read_targets(self.targets, part.views, part.labels is not None)
        common = Needs(rng=check_rng(self.random_state), max_memory=self.max_memory)
        if [*targets] == [LABELS] and self.only_sums and self.keep == "needed":
            if self.respond is None or part.labels is None:
                return common
            return replace(common, responses=self.respond(part.labels))
        blocks = {
            name: unit_name(name) if target.similarity == "cosine" else name
            for name, target in targets.items()
            if name != LABELS
        }
        pairs = {
            pair_of(view, block)
            for name, block in blocks.items()
            for view in part.views
            if view != name
        }
        return replace(
            common,
            keep=Keep("all" if self.keep == "all" else frozenset(pairs), self.sample_size),
            units=tuple(name for name, block in blocks.items() if block != name),
        )
