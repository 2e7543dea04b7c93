"""How a collection is built: one set of options for Python, the command line and stored facts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from acqh._core.runtime import RandomState
from acqh.collection.disk.model import Encoders
from acqh.errors import CollectionError
from acqh.methods.target import Target

if TYPE_CHECKING:
    from acqh.methods.acqh import ACQH

# Options that say what is learnt; a collection that is made like another has those of the other.
_LEARNING = (
    *("image_encoder", "text_encoder", "n_components", "n_codebooks", "targets", "random_state"),
)
# Where files lay is of no use elsewhere, and nobody else's business.
_NOT_STORED = ("image_root",)


@dataclass(frozen=True)
class BuildSettings:
    """How a collection is to be built, or was.

    Each is an argument of `Collection.build`, which says what it means.

    Attributes
    ----------
    image_encoder, text_encoder : str or Encoder
        Of a collection that was built: the name, or the description of an encoder of one's own.
    n_components, n_codebooks : int
    targets : mapping of str to float or Target, or None
    strict : bool
    random_state : int, Generator or None
        Of a collection that was built, None also where it was a Generator.
    image_root : path-like or None
        Not stored.
    label_separator : str or None
    max_pixels : int or None
    like : Learnt, str or None
        What the collection learnt from another; of one that was built, the name of that other.
    """

    image_encoder: Any = "auto"
    text_encoder: Any = "auto"
    n_components: int = 128
    n_codebooks: int = 8
    targets: "Mapping[str, float | Target] | None" = None
    strict: bool = False
    random_state: RandomState = 0
    image_root: str | PathLike[str] | None = None
    label_separator: str | None = None
    max_pixels: int | None = None
    like: "Learnt | str | None" = None

    def check_like(self) -> None:
        """Refuse what a collection that is made like another cannot be told."""
        usual = BuildSettings()
        for name in _LEARNING[:-1]:  # nothing is drawn, so that any seed is as good
            if getattr(self, name) != getattr(usual, name):
                raise CollectionError(
                    f"`like` brings the encoders and the model, so `{name}` has nothing to say; "
                    "leave it out"
                )

    def stored(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        known = self
        if isinstance(self.like, Learnt):
            other = self.like.settings or BuildSettings()
            learning = {name: getattr(other, name) for name in _LEARNING}
            known = replace(self, **learning, like=self.like.name)
        found = {each.name: getattr(known, each.name) for each in fields(self)}
        for name in ("image_encoder", "text_encoder"):
            found[name] = found[name] if isinstance(found[name], str) else repr(found[name])
        if found["targets"] is not None:
            found["targets"] = {
                view: asdict(given if isinstance(given, Target) else Target(given))
                for view, given in found["targets"].items()
            }
        if not isinstance(found["random_state"], int):
            found["random_state"] = None
        return {name: value for name, value in found.items() if name not in _NOT_STORED}

    @classmethod
    def from_stored(cls, found: Mapping[str, Any]) -> Self:
        """Take back what `stored` gave; what is unknown here is passed over."""
        known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
        if known.get("targets") is not None:
            known["targets"] = {view: Target(**given) for view, given in known["targets"].items()}
        return cls(**known)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a collection has learnt: how items are described and coded, and from what."""

    encoders: Encoders
    model: "ACQH"
    trained_on: str
    n_trained: int
    # Of the collection that has learnt it, where that is there already.
    name: str = ""
    settings: BuildSettings | None = None
