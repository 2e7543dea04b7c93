"""What a GPU gains: fits, kernel maps and code search on a device against the same on the CPU.

Run where torch finds a CUDA device: ``python -m benchmarks.speed.gpu``; ``--cases kernel`` runs
some of the cases alone. One JSON line per case. Times are medians of several runs between
synchronisations, without the copy of the data to the device; ``pays`` has arrays that are copied
there and back, and says from how many items on that is quicker. ``faiss`` needs Faiss: its encoders
get our codebooks, on the CPU and, where Faiss has been built for CUDA, on the device.
"""

import argparse
import time

import numpy as np
import torch

import acqh
from acqh.quantize import decode, search_codes
from benchmarks._measure import emit

CASES = ("codes", "fit", "kernel", "pays", "faiss")


def median_seconds(work, repeats=5):
    work()
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def draw_targets(n_codebooks, n_items, n_components=32):
    """Draw points and codebooks whose words grow shorter, on the device."""
    generator = torch.Generator(device="cuda").manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, device="cuda", generator=generator)

    scale = 0.6 ** torch.arange(n_codebooks, device="cuda")[:, None, None]
    codebooks = draw(n_codebooks, 256, n_components) * scale
    return draw(n_items, n_components), codebooks


def measure_codes(n_codebooks, n_items, cpu_items=20_000):
    """Time a million codes, and compare with the codes and the time of the CPU."""
    targets, codebooks = draw_targets(n_codebooks, n_items)
    codes_found = search_codes(targets, codebooks)
    seconds = median_seconds(lambda: search_codes(targets, codebooks))
    few = targets[:cpu_items].cpu().numpy()
    words = codebooks.cpu().numpy()
    search_codes(few, words)  # compiles
    start = time.perf_counter()
    expected = search_codes(few, words)
    cpu = (time.perf_counter() - start) * n_items / cpu_items
    differ = float(np.mean(np.any(codes_found[:cpu_items].cpu().numpy() != expected, axis=1)))
    return {
        "benchmark": "gpu_codes",
        "device": torch.cuda.get_device_name(),
        "n_codebooks": n_codebooks,
        "n_items": n_items,
        "seconds": round(seconds, 4),
        "times_faster_than_cpu": round(cpu / seconds, 1),
        "share_of_codes_that_differ": differ,
        "peak_gb": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def faiss_encoders(faiss, words):
    """Return Faiss's encoders of codebooks `words`, by name."""
    n_codebooks, _, n_components = words.shape
    residual = faiss.ResidualQuantizer(n_components, n_codebooks, 8)
    residual.max_beam_size = 8
    encoders = {"residual quantizer, beam 8, CPU": residual}
    encoders["local search, CPU"] = faiss.LocalSearchQuantizer(n_components, n_codebooks, 8)
    if hasattr(faiss, "GpuIcmEncoderFactory"):
        on_device = faiss.LocalSearchQuantizer(n_components, n_codebooks, 8)
        on_device.icm_encoder_factory = faiss.GpuIcmEncoderFactory(1)
        # The quantizer frees it.
        on_device.icm_encoder_factory.this.disown()
        encoders["local search, GPU"] = on_device
    for encoder in encoders.values():
        faiss.copy_array_to_vector(words.ravel(), encoder.codebooks)
        encoder.is_trained = True
    return encoders


def measure_faiss(n_codebooks, n_items, few=20_000):
    """Time Faiss's encoders with the same codebooks, and compare time and error with acqh."""
    import faiss

    targets, codebooks = draw_targets(n_codebooks, n_items)
    rows, words = targets.cpu().numpy(), codebooks.cpu().numpy()

    def error(codes):
        return float(np.mean((rows[: len(codes)] - decode(codes, words)) ** 2))

    seconds = median_seconds(lambda: search_codes(targets, codebooks))
    line = {
        "benchmark": "gpu_faiss",
        "device": torch.cuda.get_device_name(),
        "faiss": faiss.__version__,
        "n_codebooks": n_codebooks,
        "n_items": n_items,
        "seconds": round(seconds, 4),
        "error": round(error(search_codes(targets, codebooks).cpu().numpy()), 5),
    }
    for name, encoder in faiss_encoders(faiss, words).items():
        n_rows = n_items if name.endswith("GPU") else few
        encoder.compute_codes(rows[:1000])
        start = time.perf_counter()
        codes = encoder.compute_codes(rows[:n_rows])
        elapsed = (time.perf_counter() - start) * n_items / n_rows
        line[name] = {
            "seconds": round(elapsed, 3),
            "times_ours": round(elapsed / seconds, 1),
            "error": round(error(codes), 5),
        }
    return line


def measure_pays(n_items, n_labels=20):
    """Time fit and codes of arrays on the device, copies to and fro included, and on the CPU."""
    widths = {"image": 512, "text": 300}
    data = acqh.make_multiview(n_items, widths, n_labels=n_labels, random_state=0)

    def seconds(device):
        model = acqh.ACQH(random_state=0)
        fit = median_seconds(lambda: model.fit(data.views, data.labels, device=device), 3)
        return fit, median_seconds(lambda: model.encode(data.views, device=device), 3)

    times = {device or "cpu": seconds(device) for device in ("cuda", None)}
    return {
        "benchmark": "gpu_pays",
        "device": torch.cuda.get_device_name(),
        "n_items": n_items,
        "fit_seconds": {device: round(pair[0], 4) for device, pair in times.items()},
        "encode_seconds": {device: round(pair[1], 4) for device, pair in times.items()},
        "fit_times_faster": round(times["cpu"][0] / times["cuda"][0], 2),
        "encode_times_faster": round(times["cpu"][1] / times["cuda"][1], 2),
    }


def make_nuswide(n_items=186_577, n_labels=10, seed=0):
    """Draw data of the shape of NUS-WIDE-10: 500 visual words, 1,000 tags, 10 labels."""
    rng = np.random.default_rng(seed)
    labels = rng.random((n_items, n_labels)) < 0.1
    labels[np.arange(n_items), rng.integers(0, n_labels, n_items)] = True
    wide = labels.astype(np.float32)
    image = wide @ rng.normal(size=(n_labels, 500)).astype(np.float32)
    image += 3 * rng.standard_normal((n_items, 500), dtype=np.float32)
    text = wide @ rng.normal(size=(n_labels, 1000)).astype(np.float32)
    text += 3 * rng.standard_normal((n_items, 1000), dtype=np.float32)
    return {"image": image, "text": (text > 4).astype(np.float32)}, labels.astype(np.uint8)


def measure_fit():
    """Time a whole fit and the coding of all items, and compare with the CPU."""
    views, labels = make_nuswide()
    tensors = {name: torch.from_numpy(matrix).cuda() for name, matrix in views.items()}
    on_device = torch.from_numpy(labels).cuda()
    model = acqh.ACQH(random_state=0)
    seconds = median_seconds(lambda: model.fit(tensors, on_device))
    stats = model.stats_
    solve = median_seconds(lambda: model.fit_stats(stats))
    model.fit(tensors, on_device)
    encode = median_seconds(lambda: model.encode(tensors))
    cpu = acqh.ACQH(random_state=0)
    start = time.perf_counter()
    cpu.fit(views, labels)
    cpu_seconds = time.perf_counter() - start
    start = time.perf_counter()
    expected = cpu.encode(views)
    cpu_encode = time.perf_counter() - start
    device_codes = model.encode(tensors).cpu().numpy()
    return {
        "benchmark": "gpu_fit",
        "device": torch.cuda.get_device_name(),
        "n_items": len(labels),
        "seconds": round(seconds, 4),
        "seconds_of_solving_on_the_cpu": round(solve, 4),
        "cpu_seconds": round(cpu_seconds, 3),
        "times_faster_than_cpu": round(cpu_seconds / seconds, 1),
        "encode_seconds": round(encode, 4),
        "encode_times_faster_than_cpu": round(cpu_encode / encode, 1),
        "share_of_codes_that_differ": float(np.mean(np.any(device_codes != expected, axis=1))),
        "peak_gb": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def make_mirflickr(n_items, n_labels=24, n_sets=1_715, seed=0):
    """Draw data of the shape of MIRFlickr25K: 4,096 network features, 1,386 tags, 24 labels.

    Its first 10,000 items carry 1,715 different sets of labels, few of them often; here some of
    those that are drawn coincide.
    """
    rng = np.random.default_rng(seed)
    sets = rng.random((n_sets, n_labels)) < 0.15
    sets[np.arange(n_sets), rng.integers(0, n_labels, n_sets)] = True
    frequencies = 1 / np.arange(1, n_sets + 1)
    drawn = rng.choice(n_sets, n_items, p=frequencies / frequencies.sum())
    # Each set is carried by an item at least.
    drawn[:n_sets] = np.arange(n_sets)
    labels = sets[drawn]
    weights = np.random.default_rng(1).standard_normal((n_labels, 4096 + 1386), dtype=np.float32)
    rows = labels.astype(np.float32) @ weights
    rows += 4 * rng.standard_normal(rows.shape, dtype=np.float32)
    image, text = np.maximum(rows[:, :4096], 0), (rows[:, 4096:] > 9).astype(np.float32)
    return {"image": image, "text": text}, labels.astype(np.uint8)


def measure_kernel(n_items=10_000, n_held=2_000):
    """Time codes by kernel maps with every item an anchor, and compare with the CPU."""
    views, labels = make_mirflickr(n_items + n_held)
    train = {name: matrix[:n_items] for name, matrix in views.items()}
    held = {name: matrix[n_items:] for name, matrix in views.items()}
    tensors = {name: torch.from_numpy(matrix).cuda() for name, matrix in held.items()}
    model = acqh.ACQH(feature_maps="kernel", random_state=0).fit(train, labels[:n_items])
    torch.cuda.reset_peak_memory_stats()
    encode = median_seconds(lambda: model.encode(tensors))
    peak = torch.cuda.max_memory_allocated()
    start = time.perf_counter()
    expected = model.encode(held)
    cpu_encode = time.perf_counter() - start
    device_codes = model.encode(tensors).cpu().numpy()
    return {
        "benchmark": "gpu_kernel_maps",
        "device": torch.cuda.get_device_name(),
        "n_anchors": n_items,
        "encode_seconds": round(encode, 4),
        "encode_times_faster_than_cpu": round(cpu_encode / encode, 1),
        "share_of_codes_that_differ": float(np.mean(np.any(device_codes != expected, axis=1))),
        "peak_gb": round(peak / 2**30, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device here")
    measures = {
        "codes": lambda: [measure_codes(n, arguments.items) for n in (4, 8)],
        "fit": lambda: [measure_fit()],
        "kernel": lambda: [measure_kernel()],
        "pays": lambda: [measure_pays(n) for n in (1_000, 10_000, 100_000, 400_000)],
        "faiss": lambda: [measure_faiss(n, arguments.items) for n in (4, 8)],
    }
    for case in arguments.cases:
        for line in measures[case]():
            emit(line)


if __name__ == "__main__":
    main()
