"""What a GPU gains: sums, code search and bulk scoring on a device against the same on the CPU.

Run where torch finds a CUDA device: ``python benchmarks/gpu.py``. One JSON line per case. Times are
medians of several runs between synchronisations, without the copy of the data to the device.
"""

import argparse
import json
import time

import numpy as np
import torch

import acqh
from acqh.quantize import search_codes
from acqh.stats import Statistics


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


def measure_codes(n_codebooks, n_items, n_components=32, cpu_items=20_000):
    """Time a million codes, and compare with the codes and the time of the CPU."""
    generator = torch.Generator(device="cuda").manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, device="cuda", generator=generator)

    scale = 0.6 ** torch.arange(n_codebooks, device="cuda")[:, None, None]
    codebooks = draw(n_codebooks, 256, n_components) * scale
    targets = draw(n_items, n_components)
    found = search_codes(targets, codebooks)
    seconds = median_seconds(lambda: search_codes(targets, codebooks))
    few = targets[:cpu_items].cpu().numpy()
    words = codebooks.cpu().numpy()
    search_codes(few[:10], words)
    start = time.perf_counter()
    expected = search_codes(few, words)
    cpu = (time.perf_counter() - start) * n_items / cpu_items
    differ = float(np.mean(np.any(found[:cpu_items].cpu().numpy() != expected, axis=1)))
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


def measure_sums(n_items, n_features=512, n_classes=100, cpu_items=50_000):
    """Time Gram matrix and sums by label set, and compare with the sums and time of the CPU."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    rows = torch.randn(n_items, n_features, device="cuda", generator=generator)
    ids = torch.randint(0, n_classes, (n_items,), device="cuda", generator=generator)
    labels = torch.nn.functional.one_hot(ids, n_classes).to(torch.uint8)
    seconds = median_seconds(lambda: Statistics.of({"image": rows}, labels))
    few, their_labels = rows[:cpu_items].cpu().numpy(), labels[:cpu_items].cpu().numpy()
    Statistics.of({"image": few[:100]}, their_labels[:100])
    start = time.perf_counter()
    expected = Statistics.of({"image": few}, their_labels)
    cpu = (time.perf_counter() - start) * n_items / cpu_items
    found = Statistics.of({"image": rows[:cpu_items]}, labels[:cpu_items])
    error = np.abs(found.views["image"].gram - expected.views["image"].gram).max()
    return {
        "benchmark": "gpu_sums",
        "device": torch.cuda.get_device_name(),
        "n_items": n_items,
        "n_features": n_features,
        "seconds": round(seconds, 4),
        "million_rows_per_second": round(n_items / seconds / 1e6, 1),
        "times_faster_than_cpu": round(cpu / seconds, 1),
        "largest_difference": float(error),
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
    found = model.encode(tensors).cpu().numpy()
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
        "share_of_codes_that_differ": float(np.mean(np.any(found != expected, axis=1))),
        "peak_gb": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--sum-items", type=int, default=2_000_000)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device here")
    for n_codebooks in (4, 8):
        print(json.dumps(measure_codes(n_codebooks, arguments.items)), flush=True)
    print(json.dumps(measure_sums(arguments.sum_items)), flush=True)
    print(json.dumps(measure_fit()), flush=True)


if __name__ == "__main__":
    main()
