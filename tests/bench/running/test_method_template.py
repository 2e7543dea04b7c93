"""The template of a method, the trivial baseline CCA, and methods that are not complete."""

from pathlib import Path

import numpy as np
import pytest

import acqh
from acqh.bench import evaluate, make_split
from acqh.bench.running.trivial import CanonicalCorrelation
from acqh.bench.running.variants import load_method_file
from acqh.errors import InvalidInputError
from acqh.methods import registry

TEMPLATE = Path(__file__).resolve().parents[3] / "examples" / "method_template.py"


@pytest.fixture(autouse=True)
def restored_registry(monkeypatch):
    """Forget the methods of a test, so that others do not list them."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(400, n_labels=4, random_state=0)


@pytest.mark.parametrize("database", ["single", "fused"])
def test_the_template_runs_under_the_protocol_and_beats_chance(data, database):
    cls = load_method_file(f"{TEMPLATE}:Mine")
    rows = evaluate(cls(16), data, make_split(data, "unlabelled"), database=database)
    assert [row.bytes_per_item for row in rows] == [2, 2]
    chance = np.mean(data.labels.astype(float) @ data.labels.T > 0)
    assert min(row.map_all for row in rows) > chance + 0.1


def test_cca_directions_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(500, 1))
    views = {
        "image": np.hstack([shared, rng.normal(size=(500, 3))]) + 5,
        "text": np.hstack([rng.normal(size=(500, 2)), -2 * shared]),
    }
    cca = CanonicalCorrelation(1, ridge=1e-6).fit(views)
    for view, column in (("image", 0), ("text", 2)):
        direction = np.abs(cca.projections_[view][:, 0])
        assert direction[column] / np.linalg.norm(direction) > 0.99
    signs = [cca.project(views[view], view=view)[:, 0] for view in views]
    assert np.mean(signs[0] * signs[1]) > 0.95


def test_a_class_that_lacks_methods_is_an_error_that_names_them(tmp_path):
    source = TEMPLATE.read_text().replace("def decode", "def undecode").replace('"mine"', '"half"')
    (tmp_path / "half.py").write_text(source)
    with pytest.raises(InvalidInputError, match="decode"):
        load_method_file(f"{tmp_path / 'half.py'}:Mine")
