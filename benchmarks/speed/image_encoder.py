"""EfficientNet-Lite0 in ONNX Runtime and torch: time of one core per image, and the difference.

Prints one JSON line. The baseline is `examples.fine_tune.efficientnet_lite0`, the same network as a
torch module, one image at a time on one thread; resizing is part of both.
"""

import time

import numpy as np
from PIL import Image

from acqh._core.runtime import limit_threads
from acqh.encoders import EfficientNetLite0
from benchmarks._measure import emit

N_IMAGES = 40


def main():
    import torch

    from examples.fine_tune import efficientnet_lite0

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    images = [
        Image.fromarray(rng.integers(0, 256, (240, 320, 3), np.uint8)) for _ in range(N_IMAGES)
    ]
    encoder = EfficientNetLite0().fit([])
    network = efficientnet_lite0().eval()

    def control(image):
        pixels = np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), dtype=np.float32)
        inputs = torch.from_numpy(((pixels - 127) / 128).transpose(2, 0, 1)[np.newaxis].copy())
        with torch.inference_mode():
            return network(inputs).numpy()[0]

    encoder.transform(images[:1]), control(images[0])
    with limit_threads(1):
        started = time.process_time()
        features = encoder.transform(images)
        ours = time.process_time() - started
    started = time.process_time()
    expected = np.stack([control(image) for image in images])
    theirs = time.process_time() - started
    result = {
        "benchmark": "image encoder",
        "ms_per_image": round(1e3 * ours / N_IMAGES, 1),
        "torch_ms_per_image": round(1e3 * theirs / N_IMAGES, 1),
        "times_as_fast": round(theirs / ours, 2),
        "largest_difference": float(np.abs(features - expected).max()),
    }
    emit(result)


if __name__ == "__main__":
    main()
