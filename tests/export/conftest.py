"""An index and a collection to export, and what every export of them must answer."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.collection import Collection, Item

N_ITEMS, N_COMPONENTS, K = 10_000, 32, 10


@pytest.fixture(scope="session")
def index():
    """An index of 10,000 items with gaps in its numbers and some codes that occur twice."""
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((4, 256, N_COMPONENTS))
    codes = rng.integers(256, size=(N_ITEMS, 4))
    codes[1::100] = codes[::100]
    ids = 3 * np.arange(N_ITEMS) + 5
    gone = CodeIndex(codebooks).add(codes[:50], ids=-2 - np.arange(50)).add(codes, ids=ids)
    return gone.remove(-2 - np.arange(50))


@pytest.fixture(scope="session")
def queries():
    return np.random.default_rng(1).standard_normal((20, N_COMPONENTS)).astype(np.float32)


@pytest.fixture(scope="session")
def same_top(index, queries):
    """Return a check of what another system found: our top 10 up to ties.

    Scores agree to 1e-5, and an id may differ only where its score is within 1e-5 of another's.
    """
    ours = index.search(queries, K + 1)

    def check(ids, scores, *, name=lambda identifier: identifier):
        ids = np.array([[name(item) for item in row] for row in ids])
        np.testing.assert_allclose(scores, ours.scores[:, :K], rtol=1e-5, atol=1e-5)
        for mine, best, result in zip(ours.ids, ours.scores, ids, strict=True):
            # Places whose score neither neighbour comes near must hold the very item.
            apart = np.diff(best) < -1e-4 * np.abs(best[1:])
            alone = apart[:K] & np.append(True, apart[: K - 1])
            np.testing.assert_array_equal(result[alone], mine[:K][alone])
            assert set(result) <= set(mine) or not apart[K - 1]

    return check


@pytest.fixture(scope="session")
def saved(index, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "items.acqh"
    index.save(path)
    return path


@pytest.fixture(scope="session")
def collection_path(tmp_path_factory):
    """A collection whose columns have names and values of all kinds."""
    path = tmp_path_factory.mktemp("collection") / "things.acqh"
    words = {"flower": "rose tulip petal garden", "vehicle": "car wheel street engine"}
    items = [
        Item(
            text=f"{words[label].split()[n % 4]} {words[label].split()[n // 4 % 4]} {n}",
            labels=[label],
            id=f"ding {n}",
            fields={
                "year": 2000 + n,
                "price": 1.5 if n % 2 else 2,
                "new": bool(n % 2),
                "mixed": n if n % 2 else "n/a",
                "vector": "taken",
                "huge": 2**70,
                **({"rare": "é"} if n == 7 else {}),
            },
        )
        for n in range(40)
        for label in [sorted(words)[n % 2]]
    ]
    Collection.build(items, path, n_components=8, image_encoder="hog", text_encoder="tfidf").close()
    return path
