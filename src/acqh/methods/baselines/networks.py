"""Methods of two small networks, trained with torch and used with NumPy alone: DDCMH, deep CMH."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix, is_sparse
from acqh._core.device import check_device
from acqh._core.imports import require
from acqh.methods.baselines.binary import BinaryMethod, pack_signs
from acqh.methods.baselines.label_codes import DCH
from acqh.methods.baselines.rows import dense
from acqh.methods.baselines.training import Training, choose_view
from acqh.methods.registry import register


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


def shuffled_batches(rng: np.random.Generator, n_items: int, batch_size: int) -> Iterator[Ints]:
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

    def _make_networks(self, data: Training) -> dict[str, Network]:
        """Return an untrained network per view, on the device to train on."""
        device = check_device(self.device)
        return {
            view: Network(features, self.hidden, self.n_bits, data.rng, device)
            for view, features in data.features.items()
        }

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


def reconstruct_codes(outputs: Floats, codes: Floats) -> Floats:
    """Return ``sgn(outputs / 2 + codes / 2)``: a bit turns where an output is beyond its minus.

    Parameters
    ----------
    outputs : (n_items, n_bits)
        Of the network that was taught these codes.
    codes : (n_items, n_bits)
        Of -1 and 1.

    Examples
    --------
    >>> reconstruct_codes(np.array([[0.5, -0.5, -3.0]]), np.array([[1.0, 1.0, 1.0]]))
    array([[ 1.,  1., -1.]])
    """
    return np.where(outputs + codes >= 0, 1.0, -1.0)


@register(name="ddcmh")
@dataclass(eq=False, repr=False, kw_only=True)
class DDCMH(NetworkMethod):
    """Two networks that teach each other codes in three stages, without pairs of items.

    First, codes of one view are learnt from its features and labels. Second, they teach the
    other view's network, one logistic loss per bit. Third, codes reconstructed from both teach
    the network of the first view. No code or exact description of the method was found: the
    three stages are the paper's, all else is our reconstruction.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        Before the networks, for some views or, not as a mapping, for all of them. Networks
        standardise what they see in any case.
    random_state : int, Generator, SeedSequence or None
        Draws first codes and weights, and the batches. One seed gives one fit on a CPU; a GPU
        adds in another order.
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
    base_view : str, optional
        The view whose codes come first, text in the paper; by default the last one given.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
        Those of the third stage.
    loss_ : list of float
        The mean of the batches' losses in each epoch, of the one network and then the other.
    base_view_ : str

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> model = acqh.methods.get("ddcmh")(16, hidden=32, max_epochs=2, random_state=0)
    >>> model.fit(data.views, data.labels).hash(data.views["text"], view="text").shape
    (200, 2)
    """

    base_view: str | None = None

    def _learn(self, data: Training) -> dict[str, Any]:
        rng = data.rng
        base = choose_view("base_view", self.base_view, data.features, -1)
        (other,) = data.features.keys() - {base}
        first = DCH(self.n_bits, random_state=rng).fit({base: data.views[base]}, data.labels)
        codes = first.decode(first.encode(mode="training"))
        networks = self._make_networks(data)
        losses = self._teach(networks[other], codes, rng)
        outputs = networks[other].all_outputs(self.batch_size).cpu().numpy()
        codes = reconstruct_codes(outputs, codes)
        losses += self._teach(networks[base], codes, rng)
        return {
            **trained_weights(networks),
            "base_view_": base,
            "training_codes_": pack_signs(codes),
            "loss_": losses,
        }

    def _teach(self, network: Network, codes: Floats, rng: np.random.Generator) -> list[float]:
        """Train a network to give codes out; return the mean loss of each epoch.

        The loss is ``log(1 + exp(-b o))``, summed over bits and averaged over items.
        """
        targets, softplus = network.to_tensor(codes), require("torch").nn.functional.softplus
        losses = []
        for rate in np.geomspace(self.learning_rate, self.final_learning_rate, self.max_epochs):
            epoch = []
            for rows in shuffled_batches(rng, len(codes), self.batch_size):
                losses_of_bits = softplus(-targets[rows] * network.outputs(rows))
                epoch.append(network.descend(losses_of_bits.sum(1).mean(), rate))
            losses.append(float(np.mean(epoch)))
        return losses


def batch_loss(
    outputs: Any, others: Any, similar: Any, codes: Any, rest: Any, gamma: float, eta: float
) -> Any:
    """Return the part of the objective that depends on one view's outputs of a batch.

    ``Σ_ij (log(1 + exp θ_ij) - s_ij θ_ij) + γ ||B - F||² + η ||Fᵀ 1||²`` with ``θ = F Gᵀ / 2``,
    i over the batch and j over all items. Its gradient is
    ``½ (σ(θ) - S) G + 2 γ (F - B) + 2 η 1 (Fᵀ 1)ᵀ``.

    Parameters
    ----------
    outputs : tensor (n_batch, n_bits)
        F of the batch.
    others : tensor (n_items, n_bits)
        G: the other view's outputs of all items, held fixed.
    similar : tensor (n_batch, n_items)
        S: one where two items share a label, zero elsewhere.
    codes : tensor (n_batch, n_bits)
        B of the batch.
    rest : tensor (n_bits,)
        The sum of this view's outputs over the items outside the batch.
    gamma, eta : float
    """
    softplus = require("torch").nn.functional.softplus  # does not overflow
    theta = outputs @ others.T / 2.0
    likelihood = (softplus(theta) - similar * theta).sum()
    quantization = (codes - outputs).square().sum()
    balance = (rest + outputs.sum(0)).square().sum()
    return likelihood + gamma * quantization + eta * balance


def share_label(labels: Matrix, rows: Any) -> Any:
    """Return which items share a label with those of some rows, (n_rows, n_items) of bool."""
    return dense(labels[rows] @ labels.T) > 0


@register(name="deep-cmh")
@dataclass(eq=False, repr=False, kw_only=True)
class DeepCMH(NetworkMethod):
    """A network per view; the product of two items' outputs tells whether they share a label.

    Minimises ``Σ_ij (log(1 + exp θ_ij) - s_ij θ_ij) + γ (||B - F||² + ||B - G||²)
    + η (||Fᵀ 1||² + ||Gᵀ 1||²)`` over two networks with outputs F and G and over codes B, where
    ``θ = F Gᵀ / 2`` and s is one for items that share a label. Batches of the first view, then
    of the second, step down their part of it while the other view's outputs stay as they were
    last seen; then ``B = sgn(F + G)``. The loss of a batch is divided by its size times the
    number of items, so that learning rates hold for any number of them.

    The paper's image network reads images; this one reads features, as the text network does.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them. Networks standardise what they
        see in any case.
    random_state : int, Generator, SeedSequence or None
        Draws first codes and weights, and the batches. One seed gives one fit on a CPU; a GPU
        adds in another order.
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
    gamma : float
        γ: how strongly outputs are drawn to the codes.
    eta : float
        η: how strongly each bit is drawn to as many ones as minus ones. The paper has 1, which
        asks for smaller learning rates and many more epochs; see the method's page.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
        B.
    loss_ : list of float
        The mean of the batches' losses in each epoch.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> model = acqh.methods.get("deep-cmh")(16, hidden=32, max_epochs=2, random_state=0)
    >>> model.fit(data.views, data.labels).hash(data.views["image"], view="image").shape
    (200, 2)
    """

    gamma: float = 1.0
    eta: float = 1e-3

    def _learn(self, data: Training) -> dict[str, Any]:
        networks = self._make_networks(data)
        outputs = {view: net.all_outputs(self.batch_size) for view, net in networks.items()}
        codes = join_codes(outputs)
        losses = []
        for rate in np.geomspace(self.learning_rate, self.final_learning_rate, self.max_epochs):
            epoch = [
                self._step(networks[view], outputs, view, codes, data.labels, rows, rate)
                for view in networks
                for rows in shuffled_batches(data.rng, data.n_items, self.batch_size)
            ]
            codes = join_codes(outputs)
            losses.append(float(np.mean(epoch)))
        return {
            **trained_weights(networks),
            "training_codes_": pack_signs(codes.cpu().numpy()),
            "loss_": losses,
        }

    def _step(
        self,
        network: Network,
        outputs: dict[str, Any],
        view: str,
        codes: Any,
        labels: Matrix,
        rows: Any,
        rate: float,
    ) -> float:
        """Step down the loss of one batch; what it gave out goes into the outputs."""
        (others,) = (rows_of_view for name, rows_of_view in outputs.items() if name != view)
        stored = outputs[view]
        computed = network.outputs(rows)
        rest = stored.sum(0) - stored[rows].sum(0)
        similar = network.to_tensor(share_label(labels, rows))
        loss = batch_loss(computed, others, similar, codes[rows], rest, self.gamma, self.eta)
        stored[rows] = computed.detach()
        return network.descend(loss / (len(rows) * len(stored)), rate)


def join_codes(outputs: dict[str, Any]) -> Any:
    """Return ``sgn(F + G)``, which minimises ``||B - F||² + ||B - G||²`` over signs B."""
    total = sum(outputs.values())
    return (total >= 0).to(total.dtype) * 2.0 - 1.0
