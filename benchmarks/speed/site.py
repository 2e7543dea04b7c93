"""How large a site is, and how long its queries take in a browser, on items made at random.

Captions are drawn from words of captions, and are embedded by the static token embeddings, so that
100,000 of them take a minute. Prints one JSON line: bytes by part, bytes before the first answer,
and milliseconds per query in Chromium, with files to be fetched and again without, next to those of
a search of the same collection in this process.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from acqh.collection import Collection, Item
from acqh.encoders import MiniLM, register_encoder
from acqh.encoders.minilm import _places, _table, is_word, numbers_of, vocabulary
from acqh.export import site
from benchmarks._measure import emit, timed
from tools.make_site import browsing

N_WORDS = 8
QUERIES = [
    *("dog", "red car in the street", "snow", "two people on a beach", "old boat", "kitchen table"),
    *("train at night", "green tree -car", "white horse", "a man with a hat"),
]
ASK = """async (queries) => {
  const api = await import(document.querySelector("script").src.replace("app.js", "api.js"));
  await api.search({ text: "warm", k: 24 }, []);
  const spent = [[], []];
  for (const turn of spent) for (const mode of ["hybrid", "semantic"]) for (const text of queries) {
    const started = performance.now();
    await api.search({ text, mode, k: 24 }, []);
    turn.push(performance.now() - started);
  }
  return [...spent, performance.memory?.usedJSHeapSize ?? 0];
}"""


@register_encoder
class QuickTexts(MiniLM):
    """Vectors close to those of MiniLM, by the table of token embeddings."""

    def transform(self, raw: Any) -> Any:
        """Return a row for each text."""
        table = _table()
        rows = np.stack([self._sum(text, table) for text in raw]) * table["scales"]
        return (rows @ table["basis"].astype(np.float32)).astype(np.float32)

    @staticmethod
    def _sum(text: str, table: Any) -> Any:
        places = _places()[numbers_of(text, 64)[1:-1]]
        return table["rows"][places[places >= 0]].sum(axis=0) / max(1.0, len(places)) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    words = np.array([word for word in vocabulary() if is_word(word) and word.isalpha()][:4_000])
    often = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(words, (arguments.items, N_WORDS), p=often / often.sum())
    items = [Item(text=" ".join(row), id=str(n)) for n, row in enumerate(drawn)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "items.acqh")
        Collection.build(items, path, text_encoder=QuickTexts()).close()
        with Collection.open(path, query_encoder="fast") as collection:
            seconds, report = timed(lambda: site(collection, Path(folder, "public")))
            server_times = [
                timed(lambda text=text: collection.search(text=text))[0] for text in QUERIES
            ]
        with browsing(Path(folder, "public")) as page:
            first, again, heap = page.evaluate(ASK, QUERIES)
    emit(
        {
            "benchmark": "site",
            "items": arguments.items,
            "export_s": round(seconds, 1),
            "bytes": report.n_bytes,
            "bytes_before_first_answer": report.n_initial_bytes,
            "first_ms": round(statistics.median(first), 2),
            "again_ms": round(statistics.median(again), 2),
            "again_ms_most": round(max(again), 2),
            "browser_heap_mb": round(heap / 1e6),
            "service_ms": round(1e3 * statistics.median(server_times), 2),
        }
    )


if __name__ == "__main__":
    main()
