"""What a GPU gains: sums, code search and bulk scoring on a device against the same on the CPU.

Run where torch finds a CUDA device: ``python benchmarks/gpu.py``. One JSON line a case. Times are
medians of several runs between synchronisations, without the copy of the data to the device.
"""

import argparse
import json
import time

import numpy as np
import torch

from acqh.quantize import search_codes


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device here")
    for n_codebooks in (4, 8):
        print(json.dumps(measure_codes(n_codebooks, arguments.items)), flush=True)


if __name__ == "__main__":
    main()
