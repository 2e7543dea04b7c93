import json

import numpy as np
import pytest

import acqh
from acqh.errors import DeviceError, InvalidInputError, NotFittedError, ViewError

torch = pytest.importorskip("torch", reason="torch is not installed")

from acqh.deep import FineTuner, efficientnet_lite0  # noqa: E402


def make_data(n_items=240, seed=0):
    """Return inputs that tell labels only by products of two numbers, texts, and labels."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(n_items, 6))
    inputs = (signs + 0.1 * rng.normal(size=signs.shape)).astype(np.float32)
    labels = (signs[:, ::2] * signs[:, 1::2] > 0).astype(np.uint8)
    words = np.random.default_rng(7).normal(size=(3, 8))
    text = labels @ words + 0.1 * rng.normal(size=(n_items, 8))
    return torch.from_numpy(inputs), {"text": text.astype(np.float32)}, labels


def make_encoder(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(24, 12)
    )


def make_tuner(**settings):
    model = acqh.ACQH(4, n_codebooks=2, codebook_size=16, random_state=0)
    settings = {"n_rounds": 3, "n_epochs": 4, "learning_rate": 0.02, "batch_size": 32} | settings
    return FineTuner(make_encoder(), model, "image", **settings)


def score(model, features, views, labels):
    return model.score({"image": features, **views}, labels)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loss_falls_and_items_never_seen_are_found_better(precision):
    inputs, views, labels = make_data()
    new, other_views, other_labels = make_data(seed=1)
    tuner = make_tuner(precision=precision)
    frozen = acqh.ACQH(4, n_codebooks=2, codebook_size=16, random_state=0)
    frozen.fit({"image": tuner.features(inputs), **views}, labels)
    before = score(frozen, tuner.features(new), {"text": other_views["text"]}, other_labels)
    tuner.fit(inputs, views, labels)
    assert tuner.losses_[-1][-1] < 0.5 * tuner.losses_[0][0]
    after = score(tuner.model_, tuner.features(new), {"text": other_views["text"]}, other_labels)
    assert after > before + 0.02
    assert tuner.encode(new).shape == (240, 2)
    assert tuner.project(new).shape == (240, 4)


def test_content_without_labels_is_a_target_too():
    inputs, views, _ = make_data()
    tuner = make_tuner()
    tuner.model = acqh.ACQH(4, n_codebooks=2, targets={"text": acqh.Target(1.0, "cosine")})
    tuner.fit(inputs.numpy(), views)
    assert tuner.losses_[-1][-1] < tuner.losses_[0][0]


def test_a_run_that_goes_on_ends_where_an_unbroken_one_does(tmp_path):
    inputs, views, labels = make_data()
    whole = make_tuner(n_rounds=3).fit(inputs, views, labels)
    make_tuner(n_rounds=1).fit(inputs, views, labels, checkpoint=tmp_path / "run")
    rest = make_tuner(n_rounds=3)
    rest.encoder = make_encoder(seed=5)  # what it begins with does not matter
    rest.fit(inputs, views, labels, checkpoint=tmp_path / "run")
    assert rest.losses_ == whole.losses_
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, rest.encoder.state_dict()[name])
    assert np.array_equal(rest.encode(inputs), whole.encode(inputs))


def test_checkpoints_hold_numbers_and_no_code(tmp_path):
    inputs, views, labels = make_data()
    make_tuner(n_rounds=1).fit(inputs, views, labels, checkpoint=tmp_path / "run")
    assert acqh.verify(tmp_path / "run").kind == "fine-tuning"
    kinds = {path.suffix for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert kinds <= {".json", ".safetensors", ".lock", ""}
    json.loads((tmp_path / "run" / "manifest.json").read_text())
    with pytest.raises(InvalidInputError, match="learning_rate"):
        make_tuner(learning_rate=0.1).fit(inputs, views, labels, checkpoint=tmp_path / "run")
    other = make_tuner()
    other.encoder = torch.nn.Linear(6, 3)
    with pytest.raises(InvalidInputError, match="another encoder"):
        other.fit(inputs, views, labels, checkpoint=tmp_path / "run")


def test_batches_are_prepared_with_a_generator_only_in_training():
    inputs, views, labels = make_data()
    seen = []

    def prepare(batch, generator):
        seen.append(generator is None)
        if generator is not None:
            batch = batch + 0.01 * torch.randn(batch.shape, generator=generator)
        return batch

    tuner = make_tuner(n_rounds=1, n_epochs=1, prepare=prepare).fit(inputs, views, labels)
    assert set(seen) == {True, False}
    seen.clear()
    tuner.features(inputs)
    assert set(seen) == {True}


def test_what_cannot_be_trained_is_refused():
    inputs, views, labels = make_data()
    with pytest.raises(ViewError, match="leave it out"):
        make_tuner().fit(inputs, {"image": views["text"]}, labels)
    with pytest.raises(InvalidInputError, match="precision"):
        make_tuner(precision="float16").fit(inputs, views, labels)
    with pytest.raises(InvalidInputError, match="no inputs"):
        make_tuner().fit(inputs[:0], views, labels)
    mapped = make_tuner()
    mapped.model = acqh.ACQH(4, feature_maps={"image": "standardize"})
    with pytest.raises(InvalidInputError, match="put it into the encoder"):
        mapped.fit(inputs, views, labels)
    with pytest.raises(NotFittedError):
        make_tuner().encode(inputs)
    with pytest.raises(DeviceError):
        make_tuner(device="xpu").fit(inputs, views, labels)


def test_efficientnet_gives_the_features_of_the_encoder_without_torch():
    image_module = pytest.importorskip("PIL.Image")
    from acqh.encoders import EfficientNetLite0

    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    expected = (
        EfficientNetLite0(size=64)
        .fit([])
        .transform([image_module.fromarray(each) for each in pixels])
    )
    batch = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.no_grad():
        found = efficientnet_lite0()(batch).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
