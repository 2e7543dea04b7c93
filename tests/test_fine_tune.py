"""The example that fine-tunes an encoder: its parts, on small data."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import acqh

torch = pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "fine_tune.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_fine_tuning_lowers_the_loss_and_finds_new_items_better(example, precision):
    torch.manual_seed(0)
    inputs, text, labels = example["make_data"](seed=0)
    new_inputs, new_text, new_labels = example["make_data"](seed=1)
    encoder = torch.nn.Sequential(torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Linear(24, 12))
    model = acqh.ACQH(4, n_codebooks=2, codebook_size=16, random_state=0)
    tuner = example["FineTuner"](
        encoder, model, n_epochs=4, learning_rate=0.02, batch_size=32, precision=precision
    )
    model.fit({"image": tuner.features(inputs), "text": text}, labels)
    before = model.score({"image": tuner.features(new_inputs), "text": new_text}, new_labels)
    tuner.fit(inputs, {"text": text}, labels)
    after = tuner.model_.score({"image": tuner.features(new_inputs), "text": new_text}, new_labels)
    assert tuner.losses_[-1][-1] < 0.5 * tuner.losses_[0][0]
    assert after > before + 0.01


def test_the_torch_network_computes_the_features_of_the_image_encoder(example):
    image_module = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    from acqh.encoders import EfficientNetLite0

    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    images = [image_module.fromarray(pixel_rows) for pixel_rows in pixels]
    expected = EfficientNetLite0(size=64, classes=False).fit([]).transform(images)
    batch = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.no_grad():
        features = example["efficientnet_lite0"]()(batch).numpy()
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4)
