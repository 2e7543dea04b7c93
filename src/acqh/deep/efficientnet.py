"""EfficientNet-Lite0 as a torch module that can be trained."""

from typing import Any

from acqh._core.imports import require
from acqh.encoders import EfficientNetLite0
from acqh.encoders.efficientnet import BLOCKS


def efficientnet_lite0(weights: dict[str, Any] | None = None) -> Any:
    """Return EfficientNet-Lite0, trained on ImageNet and captions, from pixels to 1,280 features.

    The same features as `acqh.encoders.EfficientNetLite0` gives, but for rounding, from batches of
    shape (n, 3, side, side), with pixels as ``(value - 127) / 128`` and a multiple of 32 as the
    side. Batch normalisation is folded into the convolutions: few images are no ground to learn
    its statistics from.

    Parameters
    ----------
    weights : dict of str to array, optional
        As `acqh.encoders.EfficientNetLite0.folded_weights` gives them, which are the default.

    Returns
    -------
    torch.nn.Module

    Examples
    --------
    >>> import torch
    >>> from acqh.deep import efficientnet_lite0
    >>> efficientnet_lite0()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 1280])
    """
    torch = require("torch")
    folded = EfficientNetLite0().folded_weights() if weights is None else weights

    def layer(name: str, stride: int = 1, *, active: bool = True) -> list[Any]:
        kernel = torch.from_numpy(folded[f"{name}.weight"]).float()
        bias = torch.from_numpy(folded[f"{name}.bias"]).float()
        n_out, width, side, _ = kernel.shape
        groups = n_out if width == 1 else 1
        conv = torch.nn.Conv2d(width * groups, n_out, side, stride, groups=groups)
        conv.load_state_dict({"weight": kernel, "bias": bias})
        before, after = (side - 1) // 2 - (stride - 1), side - 1 - (side - 1) // 2
        pad = torch.nn.ZeroPad2d((before, after, before, after))
        return [pad, conv, *([torch.nn.ReLU6()] if active else [])]

    class Residual(torch.nn.Sequential):  # type: ignore[name-defined]
        def forward(self, inputs: Any) -> Any:
            return inputs + super().forward(inputs)

    layers = layer("_conv_stem", 2)
    number = 0
    for repeats, first_stride in BLOCKS:
        for repeat in range(repeats):
            block, stride = f"_blocks.{number}.", 1 if repeat else first_stride
            inside = layer(f"{block}_expand_conv") if number else []
            inside += layer(f"{block}_depthwise_conv", stride)
            inside += layer(f"{block}_project_conv", active=False)
            layers.append((Residual if repeat else torch.nn.Sequential)(*inside))
            number += 1
    layers += layer("_conv_head")
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
