"""Collections of texts need neither Pillow nor the image network."""

import json
import subprocess
import sys
import textwrap

import pytest

from acqh.collection import Collection, Item
from acqh.encoders.efficientnet import EfficientNetLite0

BLOCK_PILLOW = """
    import json, sys, warnings

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "PIL":
                raise ModuleNotFoundError("No module named 'PIL'", name="PIL")

    sys.meta_path.insert(0, Blocked())
    warnings.simplefilter("error")
"""


def run_without_pillow(script, *arguments):
    """Run a script in a process that cannot import Pillow; return what it prints, as JSON."""
    code = textwrap.dedent(BLOCK_PILLOW) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def texts():
    return [
        Item(text=f"a {colour} {thing}", id=f"{colour}-{thing}")
        for colour in ("red", "green", "blue", "black", "white", "grey")
        for thing in ("dog", "rose", "car", "boat", "house", "chair")
    ]


def test_a_collection_of_texts_is_built_searched_and_extended_without_pillow(tmp_path):
    table = tmp_path / "texts.jsonl"
    table.write_text(
        "".join(json.dumps({"id": item.id, "text": item.text}) + "\n" for item in texts())
    )
    ids = run_without_pillow(
        """
        from acqh.collection import Collection, Item
        with Collection.build(sys.argv[1], sys.argv[2], text_encoder="tfidf") as built:
            built.add(Item(text="a red dog on a boat", id="new"))
        with Collection.open(sys.argv[2]) as opened:
            answer = opened.search(text="red dog", k=2)
        print(json.dumps([hit.id for hit in answer.hits]))
        """,
        table,
        tmp_path / "texts.acqh",
    )
    assert sorted(ids) == ["new", "red-dog"]


def test_a_collection_of_texts_is_served_without_pillow(tmp_path):
    pytest.importorskip("starlette")
    Collection.build(texts(), tmp_path / "texts.acqh", text_encoder="tfidf").close()
    hits = run_without_pillow(
        """
        from starlette.testclient import TestClient
        from acqh.serve import Settings, create_app
        app = create_app(Settings(collection=sys.argv[1]))
        warnings.simplefilter("ignore")
        with TestClient(app, base_url="http://localhost") as client:
            answer = client.post("/search", json={"text": "red dog", "k": 1})
        print(json.dumps([hit["id"] for hit in answer.json()["hits"]]))
        """,
        tmp_path / "texts.acqh",
    )
    assert hits == ["red-dog"]


def test_texts_alone_do_not_call_the_image_network(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")

    def forward(*_):
        raise AssertionError("the image network was called")

    monkeypatch.setattr(EfficientNetLite0, "_forward", forward)
    path = tmp_path / "texts.acqh"
    with Collection.build(texts(), path, text_encoder="tfidf") as built:
        built.add(Item(text="a red dog on a boat", id="new"))
        assert len(built) == len(texts()) + 1


def test_texts_added_to_images_do_not_call_the_image_network(tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    images = [
        Item(Image.new("RGB", (40, 40), item.text.split()[1]), item.text, id=item.id)
        for item in texts()
    ]
    with Collection.build(images, tmp_path / "images.acqh", text_encoder="tfidf") as built:
        calls = []
        forward = EfficientNetLite0._forward
        monkeypatch.setattr(
            EfficientNetLite0, "_forward", lambda *arguments: calls.append(1) or forward(*arguments)
        )
        built.add(Item(text="a red dog on a boat", id="new"))
        assert built.item("new").encoded_from == "text"
    assert calls == []
