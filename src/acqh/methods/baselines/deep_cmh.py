"""Deep cross-modal hashing: two networks whose outputs' products tell shared labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Matrix
from acqh._core.device import check_device
from acqh._core.imports import require
from acqh.methods.baselines.binary import pack_signs
from acqh.methods.baselines.networks import (
    Network,
    NetworkMethod,
    shuffled_batches,
    trained_weights,
)
from acqh.methods.baselines.rows import dense
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


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
        device = check_device(self.device)
        networks = {
            view: Network(features, self.hidden, self.n_bits, data.rng, device)
            for view, features in data.features.items()
        }
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
