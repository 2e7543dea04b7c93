"""Models that earlier versions saved stay readable and give the same answers.

``python tests/golden/test_models.py NAME`` makes ``tests/golden/models/NAME``, which must not be
there yet: what is there was written by the version it is named after, and is never made again.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import acqh

MODELS = Path(__file__).parent / "models"
SAVED = sorted(MODELS.glob("*/*.acqh"))


def data():
    widths = {"image": 4, "text": 5}
    return acqh.make_multiview(60, widths, n_labels=3, single_label=False, random_state=0)


def answers(model):
    items = data()
    return {
        "by_labels": model.encode(labels=items.labels).tolist(),
        "by_views": model.encode(items.views).tolist(),
        "by_text": model.encode({"text": items.views["text"]}).tolist(),
        "queries": np.round(model.project(items.views["image"], view="image"), 5).tolist(),
    }


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_model_gives_the_answers_it_gave_when_it_was_saved(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    model = acqh.methods.load_method(path)
    result = answers(model)
    for key in ("by_labels", "by_views", "by_text"):
        assert result[key] == expected[key]
    np.testing.assert_allclose(result["queries"], expected["queries"], atol=1e-4)
    assert model.partial_fit(data()).stats_.n_items == 2 * len(data())


def test_a_golden_model_exists():
    assert SAVED


if __name__ == "__main__":
    folder = MODELS / sys.argv[1]
    folder.mkdir(parents=True)
    small = acqh.ACQH(4, n_codebooks=2, codebook_size=8, random_state=0).fit(data())
    small.save(folder / "labels.acqh")
    (folder / "labels.json").write_text(json.dumps(answers(small)) + "\n")
