"""mteb's retrieval on codes of a few bytes, one JSON line per size; needs ``pip install mteb``.

Documents and queries are embedded by MiniLM. The task is made of one of two files:

- The sentences about ImageNet's classes that come with the package ``clip-benchmark``
  (``datasets/cupl_prompts.json``): documents are sentences with every word of their class's name
  taken out, queries are the names, and a class's sentences are what its name should find.
  ``query-aware`` are codes that were learnt with the names of other classes as a sample of queries.
- Captions of MS COCO (``captions_val2017.json``): documents are all captions, the first one of each
  photograph is a query, and the others of the photograph are what it should find.
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
    parser.add_argument("texts", type=Path, help="cupl_prompts.json or captions_val2017.json")
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--per-class", type=int, default=30)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8, 16])
    arguments = parser.parse_args()
    texts, model = json.loads(arguments.texts.read_text()), Described()
    if "annotations" in texts:
        task, others = captions(texts["annotations"]), None
    else:
        task, names = sentences(texts["imagenet1k"], arguments.classes, arguments.per_class)
        others = model.encoder.transform(names)
    runs = [("vectors", 4 * model.encoder.transform(["a"]).shape[1], model)]
    for size in arguments.bytes:
        runs.append(("codes", size, on_codes(model, size)))
        if others is not None:
            runs.append(("query-aware", size, on_codes(model, size, queries=others)))
    for method, size, search in runs:
        started = time.perf_counter()
        result = mteb.evaluate(search, task, cache=None, co2_tracker=False)
        scores = result.task_results[0].scores["test"][0]
        figures = {name: round(float(scores[name]), 4) for name in MEASURES}
        facts = {"benchmark": "mteb_codes", "task": task.metadata.name}
        facts |= {"n_documents": len(task.documents), "n_queries": len(task.asked)}
        facts |= {"method": method, "bytes_per_item": size, **figures}
        emit(facts | {"seconds": round(time.perf_counter() - started, 1)})


def sentences(about: dict[str, list[str]], n_classes: int, per_class: int) -> tuple["Texts", list]:
    """Return the task of ImageNet's classes, and the names of those that are not asked for."""
    names = [list(about)[at] for at in np.random.default_rng(0).permutation(len(about))]
    documents, relevant = {}, {}
    for name in names[:n_classes]:
        rows = list(dict.fromkeys(hide_name(text, name) for text in about[name]))[:per_class]
        documents_of = {f"{name}/{place}": text for place, text in enumerate(rows)}
        documents |= documents_of
        relevant[name] = dict.fromkeys(documents_of, 1)
    queries = {name: name for name in relevant}
    return ClassSentences(documents, queries, relevant), names[n_classes:]


def captions(annotations: list[dict]) -> "Texts":
    """Return the task of photographs with several captions."""
    of_photograph: dict[int, dict[str, str]] = {}
    for annotation in annotations:
        texts_of = of_photograph.setdefault(annotation["image_id"], {})
        texts_of[str(annotation["id"])] = annotation["caption"].strip()
    documents, queries, relevant = {}, {}, {}
    for texts_of in of_photograph.values():
        first, *rest = texts_of
        documents |= texts_of
        queries[first], relevant[first] = texts_of[first], dict.fromkeys(rest, 1)
    return CaptionsOfOnePhotograph(documents, queries, relevant)


class Described(AbsEncoder):
    """MiniLM as an mteb model; every text is embedded once."""

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


def named(name: str, path: str) -> TaskMetadata:
    """Return what mteb wants to know of a task."""
    return TaskMetadata(
        name=name,
        description="Texts that say the same as another",
        type="Retrieval",
        dataset={"path": path, "revision": "1"},
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )


class Texts(AbsTaskRetrieval):
    """A task of texts that are at hand."""

    ignore_identical_ids = True  # a text is not its own hit

    def __init__(self, documents: dict, queries: dict, relevant: dict) -> None:
        super().__init__()
        self.documents, self.asked, self.relevant = documents, queries, relevant

    def load_data(self, **_) -> None:
        """Make what mteb would download."""
        corpus, queries = (
            Dataset.from_list([{"id": text_id, "text": text} for text_id, text in texts.items()])
            for texts in (self.documents, self.asked)
        )
        split = {"corpus": corpus, "queries": queries, "relevant_docs": self.relevant}
        self.dataset = {"default": {"test": split | {"top_ranked": None}}}
        self.data_loaded = True


class ClassSentences(Texts):
    """Sentences by the class they are about."""

    metadata = named("ClassSentences", "clip-benchmark")


class CaptionsOfOnePhotograph(Texts):
    """Captions by the photograph they are of."""

    metadata = named("CaptionsOfOnePhotograph", "coco")


if __name__ == "__main__":
    main()
