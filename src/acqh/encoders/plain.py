"""Stored encoders and maps that can be used without scikit-learn."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acqh._core.arrays import Array
from acqh.encoders.efficientnet import EfficientNetNetwork
from acqh.encoders.general.model import GeneralRows
from acqh.encoders.minilm import MiniLMNetwork
from acqh.errors import InvalidInputError

# By the name of the estimator that each is made of.
PLAIN: dict[str, Any] = {
    kind.estimator_name: kind for kind in (EfficientNetNetwork, GeneralRows, MiniLMNetwork)
}


def plain_map(description: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Make the fitted map that `acqh.features.feature_map_state` described.

    It has ``transform``, but need be no estimator: queries are answered sooner so. Takes and raises
    what `acqh.features.feature_map_from_state` does.

    Examples
    --------
    >>> import numpy as np
    >>> plain_map({"class": "MiniLM", "params": {}}, {"fingerprint": np.zeros(32, np.uint8)})
    MiniLM()
    """
    with readable():
        if description["class"] in PLAIN:
            return PLAIN[description["class"]](**description["params"]).set_state(arrays)
    from acqh.features.named import feature_map_from_state

    return feature_map_from_state(description, arrays)


@contextmanager
def readable() -> Iterator[None]:
    """Raise one kind of error, whatever is wrong with what was stored."""
    try:
        yield
    except InvalidInputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"stored feature map is not readable: {error!r}") from error
