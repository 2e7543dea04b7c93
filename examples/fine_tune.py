"""Fine-tune a torch encoder for codes: alternate the closed form and gradient steps.

Run with ``python examples/fine_tune.py``; needs the extra ``torch`` and takes a few seconds.

Each round has two steps. ACQH is fitted on the encoder's current features. Then the encoder is
trained, with ACQH's projections fixed, so that its query vectors q come close to the query vectors
q* of the items' codes. The loss is the squared error of scores over all items b,
``mean_b ((q - q*) . b)^2``: a quadratic form in the second moment of the b, so that a batch is
compared with every item at the cost of one small matrix.
"""

import numpy as np
import torch
from sklearn.base import clone

import acqh
from acqh.encoders import EfficientNetLite0

# Stages of EfficientNet-Lite0: number of blocks, and the stride of the first.
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))


class Residual(torch.nn.Sequential):
    """Layers whose output is added to their input."""

    def forward(self, inputs):
        """Return the sum."""
        return inputs + super().forward(inputs)


def efficientnet_lite0(weights=None):
    """Return the image network of acqh as a torch module that can be trained.

    It maps (n, 3, side, side) to (n, 1280) features; pixels are ``(value - 127) / 128`` and the
    side is a multiple of 32. Batch normalization is folded into the convolutions.
    """
    folded = EfficientNetLite0().folded_weights() if weights is None else weights

    def layer(name, stride=1, *, active=True):
        kernel = torch.from_numpy(folded[f"{name}.weight"]).float()
        bias = torch.from_numpy(folded[f"{name}.bias"]).float()
        n_out, width, side, _ = kernel.shape
        groups = n_out if width == 1 else 1
        conv = torch.nn.Conv2d(width * groups, n_out, side, stride, groups=groups)
        conv.load_state_dict({"weight": kernel, "bias": bias})
        before, after = (side - 1) // 2 - (stride - 1), side - 1 - (side - 1) // 2
        pad = torch.nn.ZeroPad2d((before, after, before, after))
        return [pad, conv, *([torch.nn.ReLU6()] if active else [])]

    layers, number = layer("_conv_stem", 2), 0
    for n_blocks, first_stride in STAGES:
        for repeat in range(n_blocks):
            block = f"_blocks.{number}."
            inside = layer(f"{block}_expand_conv") if number else []
            inside += layer(f"{block}_depthwise_conv", 1 if repeat else first_stride)
            inside += layer(f"{block}_project_conv", active=False)
            layers.append((Residual if repeat else torch.nn.Sequential)(*inside))
            number += 1
    layers += layer("_conv_head")
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


def score_loss(model, view, views, labels, device):
    """Return the loss of the features of some training items, given their rows."""
    codes = model.encode(views, labels=labels)
    targets, items = model.project_codes(codes), model.decode(codes)
    moment = items.T @ items / len(items)
    scale = np.einsum("ij,jk,ik->i", targets, moment, targets).mean()  # the loss of zero vectors
    projection, intercept, targets, moment = (
        torch.as_tensor(array, dtype=torch.float32, device=device)
        for array in (model.projections_[view], model.intercepts_[view], targets, moment / scale)
    )

    def loss(features, rows):
        error = features @ projection + intercept - targets[rows]
        return torch.einsum("ij,jk,ik->i", error, moment, error).mean()

    return loss


class FineTuner:
    """Fine-tune the encoder of one view together with an ACQH model that learns from labels.

    `prepare` turns a batch on the device into the encoder's input; its second argument is a torch
    generator for augmentation during training, None otherwise.
    """

    def __init__(
        self, encoder, model, view="image", *, n_rounds=3, n_epochs=2, batch_size=64,
        learning_rate=1e-4, weight_decay=1e-2, precision="float32", prepare=None, device="cpu",
        random_state=0,
    ):  # fmt: skip
        self.encoder, self.model, self.view = encoder.to(device), model, view
        self.n_rounds, self.n_epochs, self.batch_size = n_rounds, n_epochs, batch_size
        self.optimizer = torch.optim.AdamW(
            encoder.parameters(), lr=learning_rate, weight_decay=weight_decay
        )
        self.mixed = precision == "bfloat16"
        self.prepare, self.device, self.random_state = prepare, device, random_state

    def fit(self, inputs, views, labels):
        """Alternate both steps; `model_` is the ACQH model fitted on the final features."""
        self.losses_ = []
        for round_number in range(self.n_rounds):
            all_views = {self.view: self.features(inputs), **views}
            model = clone(self.model).fit(all_views, labels)
            loss = score_loss(model, self.view, all_views, labels, self.device)
            epochs = range(round_number * self.n_epochs, (round_number + 1) * self.n_epochs)
            self.losses_.append([self._train(inputs, loss, epoch) for epoch in epochs])
        all_views = {self.view: self.features(inputs), **views}
        self.model_ = clone(self.model).fit(all_views, labels)
        return self

    def features(self, inputs):
        """Return the encoder's features, (n_items, n_features) float32."""
        self.encoder.eval()
        with torch.no_grad():
            batches = [
                self._forward(inputs[start : start + self.batch_size], None).cpu()
                for start in range(0, len(inputs), self.batch_size)
            ]
        return torch.cat(batches).numpy()

    def _train(self, inputs, loss, epoch):
        generator = torch.Generator(self.device).manual_seed(self.random_state + 1_000 * epoch)
        order = torch.randperm(len(inputs), generator=generator, device=self.device)
        self.encoder.train()
        total = 0.0
        for rows in order.split(self.batch_size):
            value = loss(self._forward(inputs[rows.cpu()], generator), rows)
            self.optimizer.zero_grad()
            value.backward()
            self.optimizer.step()
            total += value.item() * len(rows)
        return total / len(inputs)

    def _forward(self, batch, generator):
        batch = torch.as_tensor(batch).to(self.device)
        if self.prepare is not None:
            batch = self.prepare(batch, generator)
        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.mixed):
            return self.encoder(batch).float()


def make_data(seed):
    """Return inputs whose labels are products of two inputs (not linear), texts, and labels."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(400, 6))
    inputs = signs + 0.1 * rng.normal(size=signs.shape)
    labels = (signs[:, ::2] * signs[:, 1::2] > 0).astype(np.uint8)
    text = labels @ np.random.default_rng(7).normal(size=(3, 8)) + 0.1 * rng.normal(size=(400, 8))
    return torch.from_numpy(inputs).float(), text.astype(np.float32), labels


def main():
    torch.manual_seed(0)
    inputs, text, labels = make_data(seed=0)
    new_inputs, new_text, new_labels = make_data(seed=1)
    encoder = torch.nn.Sequential(torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Linear(24, 12))
    model = acqh.ACQH(4, n_codebooks=2, codebook_size=16, random_state=0)
    tuner = FineTuner(encoder, model, n_epochs=4, learning_rate=0.02, batch_size=32)
    frozen = clone(model).fit({"image": tuner.features(inputs), "text": text}, labels)
    new = {"image": tuner.features(new_inputs), "text": new_text}
    print(f"frozen encoder: MAP {frozen.score(new, new_labels):.3f}")
    tuner.fit(inputs, {"text": text}, labels)
    new = {"image": tuner.features(new_inputs), "text": new_text}
    print(f"fine-tuned encoder: MAP {tuner.model_.score(new, new_labels):.3f}")
    print("losses:", " ".join(f"{epochs[-1]:.3f}" for epochs in tuner.losses_))


if __name__ == "__main__":
    main()
