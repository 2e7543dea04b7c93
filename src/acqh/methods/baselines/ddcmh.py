"""Dual networks: codes of one view teach the other's network, whose codes teach the first's."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.device import check_device
from acqh._core.imports import require
from acqh.methods.baselines.binary import pack_signs
from acqh.methods.baselines.dch import DCH
from acqh.methods.baselines.networks import (
    Network,
    NetworkMethod,
    shuffled_batches,
    trained_weights,
)
from acqh.methods.baselines.training import Training, choose_view
from acqh.methods.registry import register


def bit_loss(outputs: Any, codes: Any) -> Any:
    """Return ``log(1 + exp(-b o))``, summed over bits and averaged over items.

    Parameters
    ----------
    outputs : tensor (n_batch, n_bits)
    codes : tensor (n_batch, n_bits)
        Of -1 and 1.
    """
    return require("torch").nn.functional.softplus(-codes * outputs).sum(1).mean()


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
        device = check_device(self.device)
        base = choose_view("base_view", self.base_view, data.features, -1)
        (other,) = data.features.keys() - {base}
        first = DCH(self.n_bits, random_state=rng).fit({base: data.views[base]}, data.labels)
        codes = first.decode(first.encode(mode="training"))
        networks = {
            view: Network(features, self.hidden, self.n_bits, rng, device)
            for view, features in data.features.items()
        }
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
        """Train a network to give codes out; return the mean loss of each epoch."""
        targets = network.to_tensor(codes)
        losses = []
        for rate in np.geomspace(self.learning_rate, self.final_learning_rate, self.max_epochs):
            epoch = []
            for rows in shuffled_batches(rng, len(codes), self.batch_size):
                loss = bit_loss(network.outputs(rows), targets[rows])
                epoch.append(network.descend(loss, rate))
            losses.append(float(np.mean(epoch)))
        return losses
