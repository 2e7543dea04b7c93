"""The strings of the web interface: complete in every language, and nowhere else."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import acqh.export.static.site as site
from acqh.web import PAGE

STATIC = Path(site.__file__).parent
SCRIPTS = sorted([*PAGE.glob("*.js"), *STATIC.glob("*.js")])
LANGUAGES = ["de", "en", "fr"]
# Names of keys, headers, errors, selectors and attributes, and stop words: nobody reads them.
CODE = re.compile(
    r"Arrow(Left|Right|Up|Down)|Home|End|Enter|Escape|Files|Authorization|Content-Type|Retry-After"
    r"|Bearer .*|AbortError|file name|text in image"
    r"|\(prefers-color-scheme: dark\)|input, (select, )?textarea|same image"
    r"|[.#][a-z]+ [a-z]|a an and are .*|codebook "
)


@pytest.fixture(scope="module")
def run_script(node, tmp_path_factory):
    """Return a function that runs JavaScript in Node.js with the given browser languages."""
    folder = shutil.copytree(PAGE, tmp_path_factory.mktemp("web") / "page")
    (folder / "package.json").write_text('{"type": "module"}')

    def run(body, *languages):
        script = f"""
          const languages = {json.dumps(languages)};
          Object.defineProperty(globalThis, "navigator", {{ value: {{ languages }} }});
          const load = (name) => import(`{folder.as_uri()}/${{name}}.js`);
          const run = async () => {{ {body} }};
          console.log(JSON.stringify(await run()));
        """
        done = subprocess.run(
            [node, "--input-type=module", "-e", script],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def strings(run_script):
    return run_script('return (await load("strings")).strings;')


def forms(entry):
    return [entry] if isinstance(entry, str) else list(entry.values())


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_language_has_the_keys_and_placeholders_of_english(strings, language):
    assert list(strings[language]) == list(strings["en"])
    for key, entry in strings[language].items():
        english = strings["en"][key]
        assert type(entry) is type(english), key
        expected = set().union(*map(placeholders, forms(english)))
        assert all(placeholders(form) <= expected for form in forms(entry)), key
        assert placeholders(forms(entry)[-1]) == placeholders(forms(english)[-1]), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_plural_forms_are_those_of_the_language(strings, language):
    plural = {key: entry for key, entry in strings[language].items() if isinstance(entry, dict)}
    assert plural
    assert all(list(entry) == ["one", "other"] for entry in plural.values())


def test_every_key_is_used_and_every_used_key_exists(strings):
    sources = "".join(path.read_text("utf-8") for path in SCRIPTS if path.stem != "strings")
    page = (PAGE / "index.html").read_text("utf-8")
    used = set(re.findall(r'data-(?:text|label|hint)="([^"]+)"', page))
    used |= {key for key in strings["en"] if f'"{key}"' in sources}
    named = set(re.findall(r'\bt\("([^"]+)"', sources)) | used
    families = tuple(re.findall(r"`([a-z]+\.)\$", sources))
    assert named <= set(strings["en"])
    assert {key for key in strings["en"] if not key.startswith(families)} <= used


def literals(source):
    """Return the strings of a script without its comments."""
    code = re.sub(r"/\*.*?\*/|(?<=\s)//[^\n]*|^//[^\n]*", "", source, flags=re.DOTALL)
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', code) + re.findall(r"`([^`\n]*)`", code)


@pytest.mark.parametrize(
    "path",
    [path for path in SCRIPTS if path.stem != "strings"],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_scripts_hold_no_text(path):
    texts = [re.sub(r"\$\{[^}]*\}", "", text) for text in literals(path.read_text("utf-8"))]
    visible = [
        text for text in texts if re.search(r"^[A-Z][a-z]|[A-Za-z]{2,}[.,:]? [A-Za-z]", text)
    ]
    assert [text for text in visible if not CODE.fullmatch(text)] == []


class Texts(HTMLParser):
    """Collects what people read or hear of an HTML page with JavaScript."""

    def __init__(self):
        super().__init__()
        self.texts, self.tag = [], ""

    def handle_starttag(self, tag, attrs):
        self.tag = "noscript" if self.tag == "noscript" else tag
        heard = ("aria-label", "title", "placeholder", "alt")
        self.texts += [value for name, value in attrs if name in heard and value]

    def handle_endtag(self, tag):
        self.tag = "" if tag == "noscript" or self.tag != "noscript" else self.tag

    def handle_data(self, data):
        if data.strip() and self.tag != "noscript":
            self.texts.append(data.strip())


def test_the_html_holds_no_text_but_the_name_and_a_key():
    parser = Texts()
    parser.feed((PAGE / "index.html").read_text("utf-8"))
    assert set(parser.texts) == {"acqh", "/"}


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [(["de-CH", "en"], "de"), (["ja", "FR-ca", "en"], "fr"), (["ja"], "en"), ([], "en")],
)
def test_the_first_language_of_the_browser_that_has_strings_is_chosen(
    run_script, preferred, expected
):
    assert run_script('return (await load("language")).language;', *preferred) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en-GB", ["1,906 items", "1 item", "99%", "1.5 kB", "999 bytes", "−0.500", "0.1 ms"]),
        ("de", ["1.906 Einträge", "1 Eintrag", "99 %", "1,5 kB", "999 Byte", "−0,500", "0,1 ms"]),
        ("fr", ["1 906 éléments", "0 élément", "99 %", "1,5 ko", "999 octets", "−0,500", "0,1 ms"]),
    ],
)  # fmt: skip
def test_numbers_and_plurals_follow_the_language(run_script, language, expected):
    few = 0 if language == "fr" else 1
    body = f"""
      const {{ decimal, milliseconds, percent, size, t }} = await load("language");
      return [
        t("facts.items", {{ n: 1906 }}), t("facts.items", {{ n: {few} }}), percent(0.999),
        size(1500), size(999), decimal(-0.5), milliseconds(0.1),
      ];
    """
    spaced = [re.sub(r"\s", " ", text) for text in run_script(body, language)]
    assert spaced == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en-US", "August – December 2021"),
        ("de", "August–Dezember 2021"),
        ("fr", "août – décembre 2021"),
    ],
)
def test_months_with_few_dates_share_a_heading(run_script, language, expected):
    months = ["2021-12", "2021-09", "2021-08", *["2021-05"] * 4, "2020-02", "2020-02", None, None]
    dates = [month and f"{month}-14T18:03:29" for month in months]
    body = f"return (await load('language')).monthHeadings({json.dumps(dates)});"
    headings = run_script(body, language)
    assert [n for _, n in headings] == [3, 4, 2, 2]
    assert [re.sub(r"\s", " ", name) for name, _ in (headings[0], headings[3])] == [expected, ""]
    assert "2020" in headings[2][0]
    oldest_first = run_script(body.replace(json.dumps(dates), json.dumps(dates[2::-1])), language)
    assert oldest_first == headings[:1]
    words = run_script(
        "return (await load('language')).monthHeadings(['May', 'Spring', 'Spring']);"
    )
    assert words == [["May", 1], ["Spring", 2]]
