"""Fine-tuning: the closed form and the encoder in turn."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone

from acqh._core.arrays import Floats, check_positive_int, slices
from acqh._core.device import Tensor, check_device, to_tensor
from acqh._core.imports import require
from acqh.deep.checkpoint import load_checkpoint, save_checkpoint
from acqh.deep.loss import score_loss
from acqh.errors import InvalidInputError, NotFittedError, ViewError
from acqh.methods.acqh import ACQH

_LOG = logging.getLogger(__name__)

# From a batch on the device, and a generator while training (None otherwise), to what the encoder
# takes.
Prepare = Callable[[Tensor, Any], Tensor]


@dataclass(eq=False)
class FineTuner:
    """Fine-tune a torch encoder of one view towards ACQH's targets, then quantize.

    Each round has two steps. The closed form is solved for the encoder's features as they are, with
    the other views and the labels; then the encoder is trained, its maps to query vectors held, so
    that the scores of its items come nearer to those that their labels (or other targets) say. A
    batch is compared with all items at once. After the last round the closed form is solved once
    more, codebooks included.

    Parameters
    ----------
    encoder : torch.nn.Module
        From a batch of inputs to features, (n, n_features); changed in place.
    model : ACQH
        Its settings; a clone is fitted. Without a feature map for the view.
    view : str
        What the encoder's features are called.
    n_rounds, n_epochs : int
        Rounds, and passes over the items in each.
    batch_size : int
    learning_rate, weight_decay : float
        Of AdamW.
    precision : {"float32", "bfloat16"}
        ``"bfloat16"`` computes the encoder in mixed precision; weights stay float32.
    prepare : callable, optional
        Makes of a batch of inputs, on the device, what the encoder takes; its second argument is a
        torch generator while training, for augmentation, and None otherwise.
    device : str
        Where the encoder is trained.
    random_state : int
        Seeds the order of items and what `prepare` and the encoder draw.

    Attributes
    ----------
    model_ : ACQH
        Fitted on the features of the fine-tuned encoder.
    losses_ : list of list of float
        For every round, the mean loss of each epoch; predicting nothing has a loss of one.

    Examples
    --------
    >>> import acqh, torch
    >>> from acqh.deep import FineTuner
    >>> data = acqh.make_multiview(200, random_state=0)
    >>> inputs = torch.from_numpy(data.views["image"]).float()
    >>> encoder = torch.nn.Linear(inputs.shape[1], 16)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0)
    >>> tuner = FineTuner(encoder, model, "image", n_rounds=1)
    >>> tuner = tuner.fit(inputs, {"text": data.views["text"]}, data.labels)
    >>> tuner.model_.encode({"image": tuner.features(inputs)}).shape
    (200, 2)
    """

    encoder: Any
    model: ACQH
    view: str
    n_rounds: int = 3
    n_epochs: int = 2
    batch_size: int = 64
    learning_rate: float = 1e-4
    weight_decay: float = 1e-2
    precision: Literal["float32", "bfloat16"] = "float32"
    prepare: Prepare | None = None
    device: str = "cpu"
    random_state: int = 0
    model_: ACQH | None = field(default=None, init=False, repr=False)
    losses_: list[list[float]] = field(default_factory=list, init=False, repr=False)

    def fit(
        self,
        inputs: Any,
        views: Mapping[str, Any] | None = None,
        labels: Any = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fine-tune the encoder and fit the model.

        Parameters
        ----------
        inputs : tensor or array (n_items, ...)
            What `prepare` or the encoder takes; batches of it go to the device.
        views : mapping of str to (n_items, n_features), optional
            The other views, as `ACQH.fit` takes them.
        labels : optional
            As `ACQH.fit` takes them.
        checkpoint : path-like, optional
            A folder where the state is written after every round. A run that finds one there
            goes on from it, to what the unbroken run would have given.

        Returns
        -------
        self

        Raises
        ------
        DeviceError
            The device is not available.
        InvalidInputError
            A parameter is out of range, or a checkpoint is of something else.
        LabelError, ViewError
            As `ACQH.fit` does.
        """
        torch = require("torch")
        views = views or {}
        place = self._check(inputs, views)
        encoder = self.encoder.to(place)
        optimizer = torch.optim.AdamW(
            encoder.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        settings = {name: getattr(self, name) for name in _SETTINGS}
        self.losses_ = []
        if checkpoint is not None:
            found = load_checkpoint(checkpoint, encoder, optimizer, settings)
            self.losses_ = [] if found is None else list(found["losses"])
        for number in range(len(self.losses_), self.n_rounds):
            model, known = self._solve(inputs, views, labels)
            loss = score_loss(model, self.view, known, labels, place)
            losses = [
                self._train(inputs, loss, optimizer, number * self.n_epochs + epoch, place)
                for epoch in range(self.n_epochs)
            ]
            self.losses_.append(losses)
            _LOG.info("round %d of %d: losses %s", number + 1, self.n_rounds, losses)
            if checkpoint is not None:
                save_checkpoint(checkpoint, encoder, optimizer, settings | {"losses": self.losses_})
        self.model_, _ = self._solve(inputs, views, labels)
        return self

    def features(self, inputs: Any) -> Floats:
        """Return the encoder's features of items, (n_items, n_features) float32.

        Parameters
        ----------
        inputs : tensor or array (n_items, ...)
        """
        torch = require("torch")
        place = check_device(self.device)
        self.encoder.to(place).eval()
        with torch.no_grad():
            parts = [
                self._forward(inputs, rows, None, place).cpu()
                for rows in slices(len(inputs), self.batch_size)
            ]
        return np.asarray(torch.cat(parts).numpy())

    def project(self, inputs: Any) -> Floats:
        """Turn inputs into query vectors, (n_queries, n_components)."""
        return self._fitted().project(self.features(inputs), view=self.view)

    def encode(self, inputs: Any) -> Any:
        """Turn inputs into codes, uint8 (n_items, n_codebooks)."""
        return self._fitted().encode({self.view: self.features(inputs)})

    def _fitted(self) -> ACQH:
        if self.model_ is None:
            raise NotFittedError("this FineTuner is not fitted; call fit first")
        return self.model_

    def _check(self, inputs: Any, views: Mapping[str, Any]) -> Any:
        for name in ("n_rounds", "n_epochs", "batch_size"):
            check_positive_int(getattr(self, name), name)
        if self.precision not in ("float32", "bfloat16"):
            raise InvalidInputError(
                f"precision must be 'float32' or 'bfloat16', got {self.precision!r}"
            )
        if self.view in views:
            raise ViewError(f"view {self.view!r} is what the encoder makes; leave it out of views")
        maps = self.model.feature_maps
        if maps is not None and (not isinstance(maps, Mapping) or self.view in maps):
            raise InvalidInputError(
                f"view {self.view!r} has a feature map, which the encoder cannot be trained "
                "through; put it into the encoder"
            )
        if not hasattr(inputs, "__len__") or len(inputs) == 0:
            raise InvalidInputError("there are no inputs; give a tensor or array of at least one")
        return check_device(self.device)

    def _solve(
        self, inputs: Any, views: Mapping[str, Any], labels: Any
    ) -> tuple[ACQH, dict[str, Any]]:
        """Solve the closed form for the features as they are; return them too, with all views."""
        known = {self.view: self.features(inputs), **views}
        return clone(self.model).fit(known, labels), known

    def _train(self, inputs: Any, loss: Any, optimizer: Any, epoch: int, place: Any) -> float:
        """Train the encoder for one epoch; return its mean loss."""
        torch = require("torch")
        # All that is drawn depends on the epoch alone, so a run that goes on draws the same.
        seed = int(np.random.SeedSequence([self.random_state, epoch]).generate_state(1)[0])
        generator = torch.Generator(place).manual_seed(seed)
        order = np.random.default_rng(seed).permutation(len(inputs))
        total = torch.zeros((), device=place)
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            torch.manual_seed(seed)
            self.encoder.train()
            for part in slices(len(order), self.batch_size):
                rows = np.sort(order[part])
                found = self._forward(inputs, rows, generator, place)
                value = loss(found, torch.from_numpy(rows).to(place))
                optimizer.zero_grad(set_to_none=True)
                value.backward()
                optimizer.step()
                total += value.detach() * len(rows)
        return float(total) / len(order)

    def _forward(self, inputs: Any, rows: Any, generator: Any, place: Any) -> Tensor:
        """Return the encoder's features of some items, float32."""
        torch = require("torch")
        batch = to_tensor(inputs[rows], place)
        if self.prepare is not None:
            batch = self.prepare(batch, generator)
        with torch.autocast(place.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            found = self.encoder(batch)
        return found.float()


# What a checkpoint must have been made with.
_SETTINGS = (
    "view",
    "n_epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "precision",
    "random_state",
)
