"""mteb's retrieval on codes of a few bytes, one JSON line per size; needs ``pip install mteb``.

The task is made of the sentences about ImageNet's classes that come with the package
``clip-benchmark`` (``datasets/cupl_prompts.json``): documents are sentences with every word of
their class's name taken out, queries are the names, and a class's sentences are what its name
should find. Documents and queries are described by MiniLM. ``told`` are codes that were learnt with
the names of other classes as a sample of queries.
"""

import argparse
import json
import time
from pathlib import Path

import mteb
import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ScoringFunction

from acqh.encoders import MiniLM
from acqh.integrations.mteb import on_codes
from benchmarks._measure import emit, hide_name

MEASURES = ("ndcg_at_10", "recall_at_10", "recall_at_100", "map_at_100")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path, help="cupl_prompts.json of clip-benchmark")
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--per-class", type=int, default=30)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8, 16])
    arguments = parser.parse_args()
    texts = json.loads(arguments.sentences.read_text())["imagenet1k"]
    order = np.random.default_rng(0).permutation(len(texts))
    names = [list(texts)[place] for place in order]
    model = Described()
    asked, others = names[: arguments.classes], names[arguments.classes :]
    about = {name: [hide_name(text, name) for text in texts[name]] for name in asked}
    about = {name: list(dict.fromkeys(rows))[: arguments.per_class] for name, rows in about.items()}
    others = model.encoder.transform(others)
    runs = [("vectors", 4 * others.shape[1], model)]
    for size in arguments.bytes:
        runs.append(("codes", size, on_codes(model, size)))
        runs.append(("told", size, on_codes(model, size, queries=others)))
    for method, size, search in runs:
        started = time.perf_counter()
        result = mteb.evaluate(search, Classes(about), cache=None, co2_tracker=False)
        scores = result.task_results[0].scores["test"][0]
        figures = {name: round(float(scores[name]), 4) for name in MEASURES}
        n_documents = sum(map(len, about.values()))
        facts = {"benchmark": "mteb_codes", "n_documents": n_documents, "n_queries": len(about)}
        facts |= {"method": method, "bytes_per_item": size, **figures}
        emit(facts | {"seconds": round(time.perf_counter() - started, 1)})


class Described(AbsEncoder):
    """MiniLM as mteb asks for a model; a text is described once."""

    def __init__(self) -> None:
        self.encoder, self.known = MiniLM(), {}
        facts = {"name": "sentence-transformers/all-MiniLM-L6-v2", "revision": "int8"}
        facts["similarity_fn_name"] = ScoringFunction.COSINE
        self.mteb_model_meta = ModelMeta.create_empty(facts)

    def encode(self, inputs, **_) -> np.ndarray:
        """Return a row for each text, as mteb hands them out."""
        texts = [text.strip() for batch in inputs for text in batch["text"]]
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known.update(zip(new, self.encoder.transform(new), strict=True))
        return np.stack([self.known[text] for text in texts])


class Classes(AbsTaskRetrieval):
    """Sentences by the class they are about."""

    metadata = TaskMetadata(
        name="ClassSentences",
        description="Sentences that describe a class, found by its name, which they do not say",
        type="Retrieval",
        dataset={"path": "clip-benchmark", "revision": "1.6.2"},
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def __init__(self, about: dict[str, list[str]]) -> None:
        super().__init__()
        self.about = about

    def load_data(self, **_) -> None:
        """Make what mteb would download."""
        places = [(name, place) for name, rows in self.about.items() for place in range(len(rows))]
        corpus = Dataset.from_list(
            [{"id": f"{name}/{place}", "text": self.about[name][place]} for name, place in places]
        )
        queries = Dataset.from_list([{"id": name, "text": name} for name in self.about])
        relevant = {
            name: {f"{name}/{place}": 1 for place in range(len(rows))}
            for name, rows in self.about.items()
        }
        split = {"corpus": corpus, "queries": queries, "relevant_docs": relevant}
        self.dataset = {"default": {"test": split | {"top_ranked": None}}}
        self.data_loaded = True


if __name__ == "__main__":
    main()
