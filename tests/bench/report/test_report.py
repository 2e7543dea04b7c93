import json

import pytest

from acqh.bench import write_report
from acqh.cli import main
from acqh.errors import InvalidInputError

# Ninety runs are made for the report.
pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(bench_folder, tmp_path_factory):
    return write_report(bench_folder, tmp_path_factory.mktemp("report"))


@pytest.fixture
def without_figures(monkeypatch):
    """Make reports fast: drawing takes most of their time."""
    blank = b'<svg viewBox="0 0 1 1"></svg>'
    monkeypatch.setattr("acqh.bench.report.report.draw", lambda _: blank)


@pytest.fixture
def page(chromium, report):
    """Give the report in a browser that has no network; fail on errors and requests."""
    page, events = open_page(chromium, report.page)
    yield page
    page.close()
    assert events == []


def open_page(chromium, path, **options):
    events = []
    page = chromium.new_page(**options)
    address = path.as_uri()
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on(
        "console", lambda message: events.append(message.text) if message.type == "error" else None
    )
    page.on(
        "request", lambda request: events.append(request.url) if request.url != address else None
    )
    page.goto(address)
    return page, events


def column(page, table, number):
    return page.eval_on_selector_all(
        f"#{table} tbody tr",
        f"""rows => rows.map(({{cells}}) => {{
            const cell = cells[{number}].cloneNode(true);
            cell.querySelectorAll("sup").forEach(mark => mark.remove());
            return cell.dataset.value || cell.textContent;
        }})""",
    )


def test_all_files_are_written_next_to_the_report(report, bench_folder):
    assert {path.suffix for path in report.tables} == {".csv", ".tex", ".md"}
    for path in (report.page, *report.tables):
        assert path.stat().st_size > 0
    assert report.n_failed == 0
    assert report.n_runs == len(list((bench_folder / "runs").iterdir()))


def test_the_report_shows_a_table_per_protocol_with_both_trivial_baselines(page):
    for name in ("labelled", "unlabelled-single", "unlabelled-fused"):
        table = f"fair-tiny-{name}-map-all"
        labels = column(page, table, 0)
        assert set(labels) == {"acqh", "acqh-paper", "dch", "cvh", "label-ridge", "random"}
        notes = page.inner_text(f"section:has(> .scroll > #{table}) .notes")
        for phrase in ("ties in expectation", "cut-off all", "seeds 0, 1", "divided by"):
            assert phrase in notes
    assert page.locator("figure img:visible").count() == 3


def test_a_click_on_a_heading_sorts_by_it(page):
    table = "fair-tiny-unlabelled-single-map-all"
    heading = page.locator(f"#{table} thead tr:last-child th").nth(2)  # method, follows, values
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    values = [float(value) for value in column(page, table, 2)]
    assert values == sorted(values, reverse=True)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(page, table, 2)] == values[::-1]
    page.locator(f"#{table} thead tr:last-child th button").first.click()
    names = column(page, table, 0)
    assert names == sorted(names)
    assert heading.get_attribute("aria-sort") is None


def test_tabs_show_one_table_at_a_time_and_paper_shows_all(page):
    first, second = (page.locator(f"#fair-tiny-labelled-{name}") for name in ("map-all", "map-50"))
    assert first.is_visible()
    assert not second.is_visible()
    page.locator('label[for="fair-tiny-labelled-tab-1"]').click()
    assert not first.is_visible()
    assert second.is_visible()
    page.emulate_media(media="print")
    assert first.is_visible()


def test_light_and_dark_mode_follow_the_system_and_the_button(chromium, report):
    page, events = open_page(chromium, report.page, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.click("button.theme")
    assert page.evaluate(colour) != dark
    page.close()
    assert events == []


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_report_fits_the_width_of_the_screen(chromium, report, width):
    page, events = open_page(chromium, report.page, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
    assert events == []


def test_latex_is_copied_or_shown(page):
    page.locator('[data-copy="fair-tiny-labelled-map-all-tex"]').click()
    page.wait_for_function(
        "['Copied', 'Press Ctrl+C'].includes("
        "document.querySelector('[data-copy=\"fair-tiny-labelled-map-all-tex\"]').textContent)"
    )


def test_names_and_reasons_are_escaped_in_the_report(written, chromium, tmp_path, without_figures):
    written.add(HOSTILE, machine={HOSTILE: HOSTILE}, params={"n_bits": 32, HOSTILE: HOSTILE})
    written.add("dch", dataset=HOSTILE)
    written.add("cvh", status="failed", reason=HOSTILE)
    report = write_report(written.path, tmp_path / "report")
    text = report.page.read_text()
    assert HOSTILE not in text
    page, events = open_page(chromium, report.page)
    assert page.locator("img[onerror]").count() == 0
    assert page.locator(f"text={HOSTILE}").count() > 0
    page.close()
    assert events == []


def test_failed_runs_are_listed_with_reasons(written, tmp_path, without_figures):
    written.add("dch")
    for seed in (0, 3):
        written.add("ksh", status="failed", reason="MemoryError: too large", seed=seed)
    report = write_report(written.path, tmp_path / "report")
    text = report.page.read_text()
    assert report.n_failed == 2
    assert "MemoryError: too large" in text
    assert ">0, 3</td>" in text


@pytest.mark.parametrize(
    ("trivial", "first"), [(0.328, "label-ridge 0.328"), (0.323, "acqh and label-ridge 0.323")]
)
def test_trivial_baselines_are_in_the_list_of_winners(
    written, tmp_path, without_figures, trivial, first
):
    written.add("acqh", ap=[0.323])
    written.add("label-ridge", ap=[trivial])
    text = write_report(written.path, tmp_path / "report").page.read_text()
    winners = text[text.index("First of each column") :]
    winners = winners[: winners.index("</table>")]
    assert winners.count(f">{first}<") == 2


def test_a_store_of_failures_alone_is_reported(written, tmp_path, without_figures):
    written.add("dch", status="failed", reason="no luck")
    text = write_report(written.path, tmp_path / "report").page.read_text()
    assert "no luck" in text


def test_a_single_size_without_choice_is_a_table_too(written, tmp_path, without_figures):
    written.add("label-ridge", params={}, n_components_requested=None, bytes_requested=None)
    text = write_report(written.path, tmp_path / "report").page.read_text()
    assert "any size" in text


@pytest.fixture
def run(monkeypatch, capsys, without_figures):
    """Return what runs the command and gives its exit code and what it printed."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["acqh", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_command_prints_where_the_report_is(run, written, tmp_path):
    written.add("acqh-paper")
    out = tmp_path / "elsewhere"
    code, printed, _ = run(written.path, "--json", "--out", out)
    assert code == 0
    facts = json.loads(printed)
    assert facts["page"] == str(out / "index.html")
    assert str(out / "tables" / "fair-wiki-labelled-map-all.csv") in facts["tables"]
    code, printed, _ = run(written.path)
    assert str(written.path / "report" / "index.html") in printed


def test_an_empty_or_damaged_folder_is_reported_without_a_traceback(run, written, tmp_path):
    key = written.add("dch")
    (tmp_path / "empty").mkdir()
    (written.path / "runs" / f"{key}.json").write_text("{")
    for folder, message in ((tmp_path / "empty", "no results"), (written.path, f"{key}.json")):
        code, _, stderr = run(folder)
        assert code == 1
        assert message in stderr
        assert "Traceback" not in stderr
    with pytest.raises(InvalidInputError):
        write_report(tmp_path / "empty")


@pytest.mark.parametrize("protocol", ["label-free", "field"])
def test_every_protocol_has_separate_tables(written, without_figures, protocol):
    written.add("cvh", protocol=protocol, database="single")
    written.add("cmfh", protocol=protocol, database="single", ap=[0.25, 0.5])
    report = write_report(written.path)
    names = {path.stem for path in report.tables}
    assert f"fair-wiki-{protocol}-single-map-all" in names
    assert (f"fair-wiki-{protocol}-single-map-5000" in names) == (protocol == "field")
    text = report.page.read_text(encoding="utf-8")
    assert {"label-free": "no labels at all", "field": "the field&#x27;s protocol"}[
        protocol
    ] in text
