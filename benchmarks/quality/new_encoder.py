"""A new encoder for old codes: what `refit_queries` keeps, one JSON line per case.

Items and queries are sentences about ImageNet's classes (``datasets/cupl_prompts.json`` of the
package ``clip-benchmark``), each with its own class's words taken out; a query should find
sentences of its class, and ``precision`` is their share among the best 10. Codes are
trained on MiniLM's vectors; then words (TF-IDF, reduced to 256 components) replace it.
``again`` encodes all items again, ``refit`` keeps the codes and embeds only some of
the items, to learn the map from the new vectors to the old codes. ``vectors`` are searched as they
are, ``old`` is before the change.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from acqh import ACQH, CodeIndex, compress
from acqh.encoders import MiniLM
from acqh.encoders.named import tfidf_encoder
from benchmarks._measure import emit, hide_name

K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path, help="cupl_prompts.json of clip-benchmark")
    parser.add_argument("--classes", type=int, default=300)
    parser.add_argument("--per-class", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--encoded", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    arguments = parser.parse_args()
    texts = json.loads(arguments.sentences.read_text())["imagenet1k"]
    order = np.random.default_rng(0).permutation(len(texts))[: arguments.classes]
    rows = [
        (number, text)
        for number, name in enumerate([*texts][place] for place in order)
        for text in list(dict.fromkeys(hide_name(sentence, name) for sentence in texts[name]))[
            : arguments.per_class
        ]
    ]
    classes, sentences = np.array([number for number, _ in rows]), [text for _, text in rows]
    is_query = np.random.default_rng(1).random(len(rows)) < 0.2
    learnt_from = [text for text, asks in zip(sentences, is_query, strict=True) if not asks]
    words = tfidf_encoder(256, random_state=0).fit(learnt_from)
    vectors = {"MiniLM": MiniLM().transform(sentences), "words": unit(words.transform(sentences))}
    labels = classes[~is_query], classes[is_query]
    facts = {"benchmark": "new_encoder", "n_items": len(labels[0]), "n_queries": len(labels[1])}
    facts["bytes_per_item"] = arguments.bytes
    items, queries = (
        {k: v[chosen] for k, v in vectors.items()} for chosen in (~is_query, is_query)
    )
    old, new = vectors

    def emit_case(
        case: str, codes: str, queries_from: str, hit_ids: np.ndarray, **more: int
    ) -> None:
        hits = labels[0][hit_ids] == labels[1][:, np.newaxis]
        named = {"case": case, "codes": codes, "queries": queries_from, **more}
        emit(facts | named | {"precision": round(float(np.mean(hits)), 3)})

    for name in vectors:
        emit_case("vectors", name, name, np.argsort(-queries[name] @ items[name].T)[:, :K])
    again = compress(items[new], bytes_per_item=arguments.bytes)
    emit_case("again", new, new, again.search(queries[new], K).ids)
    model = ACQH(128, n_codebooks=arguments.bytes, targets={"text": 1.0}, random_state=0)
    model.fit({"text": items[old]})
    index = CodeIndex(model.codebooks_).add(model.encode({"text": items[old]}))
    emit_case("old", old, old, index.search(model.project(queries[old], view="text"), K).ids)
    for n_encoded in arguments.encoded:
        some = np.random.default_rng(2).permutation(len(index))[:n_encoded]
        model.refit_queries({"text": items[new][some]}, index.codes[some])
        hit_ids_of = index.search(model.project(queries[new], view="text"), K).ids
        emit_case("refit", old, new, hit_ids_of, n_encoded=len(some))


def unit(rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


if __name__ == "__main__":
    main()
