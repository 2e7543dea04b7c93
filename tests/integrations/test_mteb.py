"""Retrieval tasks of mteb on codes: a synthetic task and model, run by mteb."""

import numpy as np
import pytest

from acqh.errors import InvalidInputError
from acqh.integrations.mteb import CodeBackend, on_codes


@pytest.fixture(scope="module")
def vectors():
    """Documents in twelve groups, and the middles of groups as queries."""
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(12, 16)).astype(np.float32)
    noise = rng.normal(size=(12, 40, 16)).astype(np.float32)
    return middles, (middles[:, np.newaxis] + 0.3 * noise).reshape(-1, 16)


def test_codes_give_the_hits_of_vectors(vectors):
    queries, documents = vectors
    backend = CodeBackend(8)
    backend.add_documents(documents, [f"d{n}" for n in range(len(documents))])
    scores, places = backend.search(queries, top_k=40)
    assert (np.array(places) // 40 == np.arange(12)[:, np.newaxis]).mean() > 0.95
    assert np.all(np.diff(scores, axis=1) <= 0)


def test_documents_added_later_are_encoded(vectors):
    queries, documents = vectors
    backend = CodeBackend(8)
    backend.add_documents(documents[:400], [f"d{n}" for n in range(400)])
    backend.add_documents(documents[400:], [f"d{n}" for n in range(400, 480)])
    _, places = backend.search(queries[11:], top_k=5)
    assert all(place >= 440 for place in places[0])


def test_reranking_answers_with_places_among_those_to_choose_from(vectors):
    queries, documents = vectors
    backend = CodeBackend(8, queries=documents[::7])
    backend.add_documents(documents, [f"d{n}" for n in range(len(documents))])
    chosen = {"q": ["d300", "d3", "d200"]}
    _, places = backend.search(queries[:1], 10, None, chosen, {0: "q"})
    assert places[0][0] == 1
    assert sorted(places[0]) == [0, 1, 2]


def test_inner_products_keep_lengths():
    backend = CodeBackend(4, normalize=False)
    backend.add_documents(np.diag([1.0, 3.0]), ["short", "long"])
    scores, places = backend.search(np.array([[1.0, 1.0]]), top_k=5)
    assert places == [[1, 0]]
    np.testing.assert_allclose(scores, [[3, 1]], rtol=1e-5)


def test_a_search_without_documents_is_rejected(vectors):
    backend = CodeBackend()
    backend.add_documents(vectors[1], [str(n) for n in range(480)])
    backend.clear()
    with pytest.raises(InvalidInputError, match="add_documents"):
        backend.search(vectors[0], 3)


@pytest.fixture
def run(vectors, tmp_path):
    """Evaluate a model on a task of mteb: which group a document is of."""
    mteb = pytest.importorskip("mteb")
    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    queries, documents = vectors
    rows = {f"q{n}": row for n, row in enumerate(queries)}
    rows |= {f"d{n}": row for n, row in enumerate(documents)}

    class Groups(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="Groups",
            description="Documents of a group",
            type="Retrieval",
            dataset={"path": "none", "revision": "1"},
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, **_):
            def texts(ids):
                return Dataset.from_list([{"id": text, "text": text} for text in ids])

            relevant = {f"q{n}": {f"d{40 * n + m}": 1 for m in range(40)} for n in range(12)}
            split = {"queries": texts(list(rows)[:12]), "corpus": texts(list(rows)[12:])}
            split |= {"relevant_docs": relevant, "top_ranked": None}
            self.dataset, self.data_loaded = {"default": {"test": split}}, True

    class Model(AbsEncoder):
        def __init__(self, similarity):
            facts = {"name": "made/here", "revision": "1", "similarity_fn_name": similarity}
            self.mteb_model_meta = ModelMeta.create_empty(facts)

        def encode(self, inputs, **_):
            return np.stack([rows[text] for batch in inputs for text in batch["text"]])

    cache = mteb.cache.ResultCache(tmp_path)

    def evaluate(wrap, similarity=ScoringFunction.COSINE):
        result = mteb.evaluate(wrap(Model(similarity)), Groups(), cache=cache, co2_tracker=False)
        return result.task_results[0].get_score()

    return evaluate


@pytest.mark.slow  # importing mteb alone takes seconds
def test_mteb_keeps_results_of_codes_next_to_those_of_vectors(run, vectors, tmp_path):
    full = run(lambda model: model)
    coded = run(lambda model: on_codes(model, 8))
    query_aware = run(lambda model: on_codes(model, 8, queries=vectors[1][::5]))
    assert full > 0.95
    assert full - 0.05 < min(coded, query_aware)
    assert len(list(tmp_path.rglob("Groups.json"))) == 3


@pytest.mark.slow
def test_a_model_scored_by_distance_is_rejected(run):
    from mteb.models.model_meta import ScoringFunction

    with pytest.raises(InvalidInputError, match="euclidean"):
        run(lambda model: on_codes(model, 8), ScoringFunction.EUCLIDEAN)
