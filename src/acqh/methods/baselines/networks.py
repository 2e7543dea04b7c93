"""Small networks as hash functions: trained with torch, used with NumPy alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.imports import require
from acqh.methods.baselines.binary import BinaryMethod
from acqh.methods.baselines.rows import dense


class Network:
    """A view's rows, standardised, through one layer of rectified units to one output per bit.

    Features are centred and divided by one number, the root of the sum of their variances, so
    that a row's squared norm is one on average; rows are made dense a batch at a time.

    `features`: (n_items, n_features), dense or CSR. `rng`: draws the first weights: normal, of
    variance ``2 / n_hidden``, which gives the hidden units a squared norm of about one as well, and
    ``1 / n_hidden``.
    """

    def __init__(
        self, features: Matrix, n_hidden: int, n_outputs: int, rng: np.random.Generator, device: Any
    ) -> None:
        self.features = features
        self.device = device
        self.mean, self.scale = standardisation(features)
        n_features = features.shape[1]
        self.parameters = [
            self.to_tensor(start, requires_grad=True)
            for start in (
                rng.normal(0.0, np.sqrt(2.0 / n_hidden), (n_features, n_hidden)),
                np.zeros(n_hidden),
                rng.normal(0.0, np.sqrt(1.0 / n_hidden), (n_hidden, n_outputs)),
                np.zeros(n_outputs),
            )
        ]
        self._optimiser = require("torch").optim.Adam(self.parameters)

    def to_tensor(self, values: Floats, *, requires_grad: bool = False) -> Any:
        """Return an array as a float32 tensor on the network's device."""
        torch = require("torch")
        return torch.tensor(
            values, dtype=torch.float32, device=self.device, requires_grad=requires_grad
        )

    def outputs(self, rows: Any) -> Any:
        """Return the outputs for some rows, (n_rows, n_outputs), as a tensor with gradients."""
        batch = self.to_tensor((dense(self.features[rows]) - self.mean) / self.scale)
        W, b, V, c = self.parameters
        return (batch @ W + b).relu() @ V + c

    def all_outputs(self, n_rows: int) -> Any:
        """Return the outputs for all rows, found `n_rows` at a time, without gradients."""
        torch = require("torch")
        n_items = self.features.shape[0]
        with torch.no_grad():
            parts = [self.outputs(slice(i, i + n_rows)) for i in range(0, n_items, n_rows)]
            return torch.cat(parts)

    def descend(self, loss: Any, learning_rate: float) -> float:
        """Take one step of Adam; return the loss before it."""
        self._optimiser.param_groups[0]["lr"] = learning_rate
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        return float(loss.detach())

    def weights(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return both layers' weights and biases for raw features, as float64 arrays."""
        W, b, V, c = (
            parameter.detach().cpu().numpy().astype(np.float64) for parameter in self.parameters
        )
        W = W / self.scale
        return W, b - self.mean @ W, V, c


def standardisation(features: Matrix) -> tuple[Floats, float]:
    """Return the mean of each feature, and the root of the sum of their variances.

    `features`: (n_items, n_features), dense or CSR; CSR is not made dense.

    Examples
    --------
    >>> standardisation(np.array([[1.0, 5.0], [3.0, 5.0]]))[0]
    array([2., 5.])
    """
    mean = np.asarray(features.mean(axis=0)).ravel()
    if is_sparse(features):
        squares = features.multiply(features).mean(axis=0)
        variance = float(np.sum(np.asarray(squares).ravel() - mean**2))
    else:
        variance = float(np.sum(np.var(features, axis=0)))
    return mean, float(np.sqrt(variance)) if variance > 0 else 1.0


def shuffled_batches(
    rng: np.random.Generator, n_items: int, batch_size: int
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield every item's number once, in random order, some at a time."""
    order = rng.permutation(n_items)
    for start in range(0, n_items, batch_size):
        yield order[start : start + batch_size]


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkMethod(BinaryMethod):
    """A binary method of two views whose bits are the signs of a network's outputs.

    Training needs torch; a fitted method does not.

    Parameters
    ----------
    hidden : int
        Rectified units between features and bits.
    max_epochs : int
        Number of epochs: each trains on every item once.
    batch_size : int
    learning_rate, final_learning_rate : float
        Of the first and of the last epoch; between them it falls by the same factor each time.
    device : str
        Where to train: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and so on. If the device is not
        available, `fit` raises DeviceError.
    random_state : int, Generator, SeedSequence or None
        Draws first codes and weights, and the batches. One seed gives one fit on a CPU; a GPU
        adds in another order.

    Attributes
    ----------
    hidden_weights_ : dict of str to (n_mapped_features, hidden)
        For features that are not standardised, like all four.
    hidden_biases_ : dict of str to (hidden,)
    output_weights_ : dict of str to (hidden, n_bits)
    output_biases_ : dict of str to (n_bits,)
    """

    view_range: ClassVar[tuple[int, int | None]] = (2, 2)
    hidden: int = 512
    max_epochs: int = 50
    batch_size: int = 128
    learning_rate: float = 1e-2
    final_learning_rate: float = 1e-3
    device: str = "cpu"
    hidden_weights_: dict[str, Floats] = field(init=False)
    hidden_biases_: dict[str, Floats] = field(init=False)
    output_weights_: dict[str, Floats] = field(init=False)
    output_biases_: dict[str, Floats] = field(init=False)

    def _project(self, matrix: Matrix, view: str) -> Floats:
        """Return the network's outputs, whose signs are the bits."""
        outputs = [np.empty((0, self.n_bits_))]
        for _, block in self._mapped_blocks(matrix, view):
            hidden = np.asarray(block @ self.hidden_weights_[view]) + self.hidden_biases_[view]
            np.maximum(hidden, 0.0, out=hidden)
            outputs.append(hidden @ self.output_weights_[view] + self.output_biases_[view])
        return np.concatenate(outputs)


def trained_weights(networks: Mapping[str, Network]) -> dict[str, Any]:
    """Return networks as fitted attributes of a `NetworkMethod`."""
    weights = {view: network.weights() for view, network in networks.items()}
    names = ("hidden_weights_", "hidden_biases_", "output_weights_", "output_biases_")
    fitted: dict[str, Any] = {
        name: {view: layers[place] for view, layers in weights.items()}
        for place, name in enumerate(names)
    }
    return {**fitted, "n_bits_": len(next(iter(weights.values()))[3])}
