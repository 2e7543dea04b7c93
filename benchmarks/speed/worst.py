"""Milliseconds of the most expensive queries: unknown words, typos, prefixes, and late pages.

Prints one JSON line per case: milliseconds of wall-clock and processor time at the median and at
most, of 20 queries that no query had before. The collection has 50,000 captions of random words:
a vocabulary of 200,000. Each text has 32 words. The vocabulary is loaded before, which
``vocabulary`` measures.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from acqh.collection import Collection, Item
from benchmarks._measure import emit

N_WORDS, N_TERMS, N_QUERIES = 200_000, 32, 20
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def random_words(rng: random.Random) -> Iterator[str]:
    while True:
        yield "".join(rng.choices(LETTERS, k=rng.randint(6, 10)))


def spoil(word: str, rng: random.Random) -> str:
    """Return a word with one letter replaced."""
    at = rng.randrange(1, len(word))
    return word[:at] + rng.choice(LETTERS) + word[at + 1 :]


def measure(case: str, run: Callable[[Any], object], queries: Iterator[Any]) -> None:
    times = []
    for _, query in zip(range(N_QUERIES), queries, strict=False):
        wall, worked = time.perf_counter(), time.process_time()
        run(query)
        times.append((time.perf_counter() - wall, time.process_time() - worked))
    median, most = (1e3 * statistic(times, axis=0) for statistic in (np.median, np.max))
    line = {"p50_ms": median[0], "most_ms": most[0], "most_processor_ms": most[1]}
    emit({"benchmark": "worst", "case": case} | {name: round(ms, 2) for name, ms in line.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="folder that keeps the collection")
    options = parser.parse_args()
    rng = random.Random(0)  # noqa: S311
    new = random_words(rng)
    words = list(dict.fromkeys(next(new) for _ in range(N_WORDS + 1_000)))[:N_WORDS]
    with tempfile.TemporaryDirectory() as scratch:
        path = (options.folder or Path(scratch)) / "worst.acqh"
        if not path.exists():
            rows = (words[start : start + 4] for start in range(0, N_WORDS, 4))
            items = (Item(text=" ".join(row), fields={"n": n}) for n, row in enumerate(rows))
            Collection.build(items, path, text_encoder="tfidf", n_components=8).close()
        with Collection.open(path) as collection:
            texts: dict[str, Callable[[], str]] = {
                "words": lambda: rng.choice(words),
                "unknown words": lambda: next(new),
                "typos": lambda: spoil(rng.choice(words), rng),
                "prefixes of 2 letters": lambda: "".join(rng.choices(LETTERS, k=2)),
                "prefixes of 3 letters": lambda: "".join(rng.choices(LETTERS, k=3)),
            }
            collection.search(" ".join(words[:2]))
            vocabulary = time.perf_counter()
            collection.search("zzzzqqqq")
            seconds = time.perf_counter() - vocabulary
            emit({"benchmark": "worst", "case": "vocabulary", "most_ms": round(1e3 * seconds, 2)})
            for case, make in texts.items():
                queries = (" ".join(make() for _ in range(N_TERMS)) for _ in range(N_QUERIES))
                measure(f"{N_TERMS} {case}", collection.search, queries)
            pages = {"first page": {"offset": 0}, "last page": {"offset": len(collection) - 10}}
            pages["last page by a field"] = {"offset": len(collection) - 10, "order": "n"}
            for case, page in pages.items():
                repeated = iter([page] * N_QUERIES)
                measure(case, lambda page: collection.browse(**page), repeated)


if __name__ == "__main__":
    main()
