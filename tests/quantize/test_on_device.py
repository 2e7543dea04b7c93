import numpy as np
import pytest

from acqh._core.device import check_device, row_blocks
from acqh.errors import DeviceError, InvalidInputError
from acqh.quantize import search_codes

torch = pytest.importorskip("torch", reason="torch is not installed")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    ),
]


def make_problem(seed, n_items=300, n_codebooks=4, n_words=16, n_components=6):
    rng = np.random.default_rng(seed)
    scale = 0.6 ** np.arange(n_codebooks)[:, None, None]
    codebooks = rng.normal(size=(n_codebooks, n_words, n_components)) * scale
    return rng.normal(size=(n_items, n_components)), codebooks


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", ["greedy", "beam", "icm", "beam+icm"])
@pytest.mark.parametrize(("n_codebooks", "n_words"), [(1, 5), (4, 16), (10, 3)])
def test_codes_of_tensors_equal_those_of_arrays(device, search, n_codebooks, n_words):
    targets, codebooks = make_problem(0, n_codebooks=n_codebooks, n_words=n_words)
    factor = np.random.default_rng(1).normal(size=(6, 4))
    for dtype, metric in ((np.float64, factor @ factor.T), (np.float32, None)):
        arrays = [targets.astype(dtype), codebooks.astype(dtype)]
        tensors = [torch.from_numpy(array).to(device) for array in arrays]
        on_device = None if metric is None else torch.from_numpy(metric).to(device)
        expected = search_codes(*arrays, search=search, metric=metric)
        result = search_codes(*tensors, search=search, metric=on_device)
        assert result.device.type == device
        assert result.dtype == torch.uint8
        # Rounding may settle a tie differently in single precision.
        assert np.mean(np.any(result.cpu().numpy() != expected, axis=1)) <= 0.01


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exponent", [-600, -90, 90, 600])
def test_codes_do_not_depend_on_the_size_of_vectors(device, exponent):
    """Squares of them overflow, or vanish; of the smaller two in single precision."""
    targets, codebooks = (torch.from_numpy(array).to(device) for array in make_problem(1))
    dtype = torch.float32 if abs(exponent) < 100 else torch.float64
    scaled = [
        torch.ldexp(tensor, torch.tensor(exponent, device=device))
        for tensor in (targets, codebooks)
    ]
    expected = search_codes(targets, codebooks, dtype=dtype)
    assert torch.equal(search_codes(*scaled, dtype=dtype), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_rows_change_no_code(device):
    targets, codebooks = (torch.from_numpy(array).to(device) for array in make_problem(2))
    full = search_codes(targets, codebooks)
    assert torch.equal(full, search_codes(targets, codebooks, max_memory=1 << 16))


@pytest.mark.parametrize("device", DEVICES)
def test_no_code_is_worse_than_the_one_it_starts_from(device):
    targets, codebooks = make_problem(3)
    start = np.random.default_rng(4).integers(0, 16, size=(300, 4)).astype(np.uint8)
    expected = search_codes(targets, codebooks, search="icm", start=start)
    tensors = [torch.from_numpy(array).to(device) for array in (targets, codebooks, start)]
    result = search_codes(*tensors[:2], search="icm", start=tensors[2])
    assert np.array_equal(result.cpu().numpy(), expected)


def test_too_little_memory_for_a_row_is_rejected():
    with pytest.raises(InvalidInputError, match="100"):
        list(row_blocks(3, 100, 99))


def test_a_missing_device_is_rejected():
    absent = "xpu" if torch.cuda.is_available() else "cuda"
    with pytest.raises(DeviceError, match="device"):
        check_device(absent)
