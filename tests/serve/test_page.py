"""The web interface in a real browser, against a real server."""

import base64
import json
import re
from dataclasses import replace

import pytest

from acqh.collection import Collection, Item

pytest.importorskip("playwright")

from playwright.sync_api import expect

pytestmark = pytest.mark.slow

# Milliseconds; far more than anything takes, for machines that do much else.
PATIENCE = 120_000

# Makes a DataTransfer with one file, as dragging and pasting do.
CARRY = """([content, name, type]) => {
  const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, { type }));
  return carried;
}"""
NAMELESS = """() => [...document.querySelectorAll("button, input, select, a, summary")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.ariaLabel && !each.textContent.trim() && !each.labels?.length)
  .map((each) => each.outerHTML)"""
FACTS = "^{} items$"
# Notes what the summary says from now on where it finds nothing.
WATCH = """() => {
  window.seen = [];
  const find = (name) => document.querySelector(name);
  const look = () => {
    const text = find("#summary").textContent;
    if (text.startsWith("No results") || !find("#empty").hidden) window.seen.push(text);
  };
  const all = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(find("main"), all);
}"""
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def visit(chromium):
    """Return a function that opens the page; scripts must not fail, nor anything be blocked."""
    problems, opened = [], []

    def note(message):
        # The browser also logs requests that the server rejects; the tests check those.
        if message.type == "error" and "Failed to load resource" not in message.text:
            problems.append(message.text)

    def open_page(client, path="/", **options):
        context = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
        )
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: foreign(request.url, str(client.base_url)))
        page.goto(f"{str(client.base_url).rstrip('/')}{path}")
        return page

    def foreign(url, home):
        if not url.startswith((home, "blob:")):
            problems.append(f"the browser requested {url}")

    expect.set_options(timeout=PATIENCE)
    yield open_page
    for context in opened:
        context.close()
    assert problems == []


def carry(page, content, name="picture.png", kind="image/png"):
    return page.evaluate_handle(CARRY, [base64.b64encode(content).decode(), name, kind])


def hits(page):
    return page.locator("#hits a")


def labels(page):
    return page.locator("#hits .names").all_inner_texts()


def ending(address):
    """Return what the address of a page must look like to end so; it may change a little later."""
    return re.compile(re.escape(address) + "$")


def until_drawn(page, selector, width=1):
    """Wait until all images have a width; the page's policy forbids wait_for_function."""
    images = f"[...document.querySelectorAll('{selector}')]"
    for _ in range(PATIENCE // 50):
        if page.evaluate(f"{images}.length && {images}.every((i) => i.naturalWidth >= {width})"):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{selector} was not drawn")


def query(page, text):
    page.locator("#text").fill(text)
    expect(page.locator("#summary")).to_have_text(re.compile(f": {re.escape(text)}$"))


def test_results_come_while_typing_and_the_address_can_be_shared(client, visit):
    page = visit(client)
    expect(page.locator("#facts")).to_have_text(re.compile(FACTS.format(38)))
    expect(page.locator("#summary")).to_have_text("Or start with one of these")
    page.locator("#text").press_sequentially("blue sea")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: blue sea")
    expect(hits(page)).to_have_count(24)
    assert set(labels(page)[:12]) == {"sea"}
    expect(page.locator("#status")).to_contain_text("24 of 38 items: blue sea")
    expect(page).to_have_url(ending("/?q=blue+sea"))
    shared = visit(client, "/?q=blue+sea")
    expect(shared.locator("#text")).to_have_value("blue sea")
    expect(shared.locator("#summary")).to_have_text("Best 24 of 38 items: blue sea")
    assert labels(shared) == labels(page)
    # Not by a pointer: it scrolls there first, which brings more by itself and hides the button.
    shared.locator("#more").dispatch_event("click")
    expect(hits(shared)).to_have_count(38)
    page.go_back()
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#summary")).to_have_text("Or start with one of these")
    page.locator("#examples button", has_text="car").first.click()
    expect(page.locator("#summary")).to_have_text(re.compile("^Best 24 of 38 items: .*car"))
    assert labels(page)[0] == "car"


def test_the_page_offers_the_examples_of_its_settings(visit, built, start):
    with start(built, examples=["red car", "sea"]) as client:
        page = visit(client)
        expect(page.locator("#examples button")).to_have_text(["red car", "sea"])
        page.locator("#examples button", has_text="sea").click()
        expect(page.locator("#text")).to_have_value("sea")


def test_an_answer_to_what_is_no_longer_requested_is_dropped(client, visit):
    page = visit(client)
    expect(page.locator("#summary")).to_have_text("Or start with one of these")
    held = []

    def hold(route):
        if json.loads(route.request.post_data)["text"] == "cat":
            held.append(route)
        else:
            route.continue_()

    page.route("**/search", hold)
    with page.expect_request("**/search"):
        page.locator("#text").fill("cat")
    query(page, "fast red car")
    assert len(held) == 1
    assert held[0].request.failure  # it was given up
    expect(page).to_have_url(ending("/?q=fast+red+car"))
    assert labels(page)[0] == "car"


def test_an_image_finds_its_like_dropped_pasted_or_chosen(client, visit, make_picture):
    page = visit(client)
    content = make_picture((20, 60, 220))
    summary = page.locator("#summary")

    def drop():
        carried = carry(page, content)
        page.dispatch_event("body", "dragenter", {"dataTransfer": carried})
        expect(page.locator("#drop")).to_be_visible()
        page.dispatch_event("body", "drop", {"dataTransfer": carried})
        expect(page.locator("#drop")).to_be_hidden()

    def paste():
        event = "data => document.dispatchEvent(new ClipboardEvent('paste', data))"
        page.evaluate(event, {"clipboardData": carry(page, content)})

    def choose():
        file = {"name": "picture.png", "mimeType": "image/png", "buffer": content}
        page.locator("#file").set_input_files(file)

    for give in (drop, paste, choose):
        expect(summary).to_have_text("Or start with one of these")
        give()
        expect(summary).to_have_text("Best 24 of 38 items: picture.png")
        assert set(labels(page)[:6]) == {"sea"}
        page.get_by_role("button", name="Remove “picture.png” from the query").click()
        expect(page.locator("#parts")).to_be_hidden()
    page.go_back()
    expect(summary).to_have_text("Best 24 of 38 items: picture.png")


def test_words_are_weighed_against_a_picture(client, visit, make_picture):
    page = visit(client, "/?q=car")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: car")
    expect(page.locator("#balance")).to_be_hidden()
    file = {"name": "sea.png", "mimeType": "image/png", "buffer": make_picture((20, 60, 220))}
    page.locator("#file").set_input_files(file)
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: car + sea.png")
    slider = page.get_by_role("slider", name="Text")
    for value, first in (("0", "car"), ("100", "sea")):
        with page.expect_response("**/search/images"):
            slider.fill(value)
        expect(page.locator("#hits .names").first).to_have_text(first)
    expect(slider).to_have_attribute("aria-valuetext", "Text 0%, image 100%")


def test_several_images_make_one_query_and_each_can_be_taken_out(client, visit, make_picture):
    page = visit(client)
    expect(hits(page).first).to_be_visible()
    red, blue = make_picture((220, 30, 30)), make_picture((20, 60, 220))
    files = [
        {"name": f"{n}.png", "mimeType": "image/png", "buffer": b} for n, b in ((1, red), (2, blue))
    ]
    page.locator("#file").set_input_files(files)
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: 1.png + 2.png")
    upload = [("image", (file["name"], file["buffer"])) for file in files]
    expected = client.post("/search/images", files=upload, data={"query": '{"k": 24}'}).json()[
        "hits"
    ]
    assert page.locator("#hits a").first.get_attribute("data-id") == expected[0]["id"]
    page.get_by_role("button", name="Remove “1.png” from the query").click()
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: 2.png")
    assert labels(page)[0] == "sea"


def test_a_click_opens_a_hit_large_and_its_address_can_be_shared(client, visit):
    page = visit(client, "/?q=black+cat")
    page.locator("#hits a[data-id='odd/100%#?.jpg']").click()
    detail = page.locator("#detail")
    expect(detail).to_be_visible()
    expect(detail.locator("h2")).to_have_text("black cat")
    expect(detail.locator("#detail-labels button")).to_have_text(["cat"])
    until_drawn(page, "#detail-image")
    expect(page.locator("#original")).to_be_hidden()
    shared = visit(client, page.url[len(str(client.base_url).rstrip("/")) :])
    expect(shared.locator("#detail h2")).to_have_text("black cat")
    before = page.url
    page.keyboard.press("ArrowRight")
    expect(page).not_to_have_url(before)
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(before)
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    expect(page).to_have_url(ending("/?q=black+cat"))
    expect(page.locator("#hits a[data-id='odd/100%#?.jpg']")).to_be_focused()
    page.go_back()
    expect(detail).to_be_visible()
    detail.locator("#detail-labels button").click()
    expect(page.locator("#summary")).to_have_text("14 items with cat")
    expect(detail).to_be_hidden()


def test_more_and_less_like_a_hit_are_buttons_and_back_returns(client, visit):
    page = visit(client, "/?q=black+cat")
    strange = page.locator("#hits a[data-id='odd/100%#?.jpg']")
    strange.hover()
    strange.locator("xpath=following-sibling::button").click()
    expect(page.locator("#parts")).to_have_text("like black cat✕")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: more like black cat")
    expect(strange).to_have_count(0)
    expect(page.locator("#text")).to_have_value("")
    address = page.url
    hits(page).nth(2).click()
    unwanted = page.locator("#detail h2").inner_text()
    page.get_by_role("button", name="Less like this").click()
    expect(page.locator("#summary")).to_contain_text(f"more like black cat, less like {unwanted}")
    expect(page.locator(".part.unlike")).to_have_count(1)
    expect(page).to_have_url(re.compile("&unlike="))
    page.get_by_role("button", name="Remove “like black cat” from the query").click()
    expect(page.locator("#parts")).to_be_hidden()
    expect(page.locator("#summary")).to_have_text("Or start with one of these")
    again = visit(client, address[len(str(client.base_url).rstrip("/")) :])
    expect(again.locator("#parts")).to_have_text("like black cat✕")


def test_more_like_a_hit_that_words_alone_found_are_items_of_any_words(client, visit):
    page = visit(client, "/?q=black+cat&mode=keyword")
    expect(page.locator("#summary")).to_contain_text(": black cat")
    hits(page).first.hover()
    hits(page).first.locator("xpath=following-sibling::button").click()
    expect(page.locator("#summary")).to_contain_text(": more like")
    assert hits(page).count() > 1


def test_labels_filter_alone_together_and_say_when_nothing_is_left(client, visit):
    page = visit(client, "/?q=black")
    page.get_by_role("button", name="sea", exact=True).click()
    expect(page.locator("#summary")).to_have_text("12 items with sea: black")
    assert set(labels(page)) == {"sea"}
    page.get_by_role("button", name="car", exact=True).click()
    expect(page.locator("#summary")).to_have_text("No results")
    expect(page).to_have_url(ending("/?q=black&label=sea&label=car"))
    page.get_by_role("button", name="Search all items").click()
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: black")
    page.locator("#text").fill("xyzzy")
    expect(page.locator("#empty")).to_contain_text("No results for “xyzzy”.")
    page.goto(f"{client.base_url}?label=cat")
    expect(page.locator("#summary")).to_have_text("14 items with cat")
    page.goto(f"{client.base_url}?label=cat&label=sea")
    expect(page.locator("#empty")).to_contain_text("No item has all of these labels.")


def test_every_label_chip_shows_its_items_though_no_text_has_its_name(start, visit, tmp_path):
    names = {"plant_life": "green tree", "x" * 900: "fast car", "Ω/&?=%": "wide sea"}
    items = [
        Item(text=f"{text} {n}", labels=[name]) for n in range(4) for name, text in names.items()
    ]
    Collection.build(items, tmp_path / "a.acqh", n_components=2, n_codebooks=2).close()
    with start(tmp_path / "a.acqh") as client:
        page = visit(client, "/", viewport={"width": 360, "height": 740})
        expect(hits(page).first).to_be_visible()
        assert page.evaluate(FITS)
        for name, text in names.items():
            page.locator("#labels").get_by_title(name).click()
            expect(hits(page)).to_have_count(4)
            assert {words[: len(text)] for words in page.locator(".words").all_inner_texts()} == {
                text
            }
            page.locator("#labels [aria-pressed=true]").click()
            expect(page.locator("#summary")).to_have_text("Or start with one of these")


def test_nothing_found_is_not_said_while_somebody_types(client, visit):
    page = visit(client, "/?q=cat")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: cat")
    page.evaluate(WATCH)
    for letter in "xyzzy":
        with page.expect_response("**/search"):
            page.locator("#text").press_sequentially(letter)
        expect(page.locator("#results:not([aria-busy])")).to_be_visible()
        page.locator("#text").press("Backspace")
    page.locator("#text").fill("car")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: car")
    assert page.evaluate("window.seen") == []
    page.locator("#text").fill("xyzzy")
    page.locator("#text").press("Enter")
    expect(page.locator("#empty")).to_be_visible()


def test_scrolling_brings_more(client, visit):
    page = visit(client, "/?q=cat", viewport={"width": 900, "height": 600})
    expect(hits(page)).to_have_count(24)
    page.mouse.wheel(0, 4000)
    expect(hits(page)).to_have_count(38)
    expect(page.locator("#more")).to_be_hidden()


def test_dates_order_items_and_files_are_named(photographs, start, visit):
    path, folder = photographs
    with start(path, originals=folder) as client:
        page = visit(client, "/?label=sea")
        expect(hits(page)).to_have_count(4)
        days = lambda: [title.split("\n")[1] for title in titles(page)]  # noqa: E731
        page.locator("#order").select_option("old")
        expect(page.locator("#hits a").first).to_have_attribute("data-id", "sea 7.png")
        assert days() == [f"sea {n}.png" for n in (7, 5, 3, 1)]
        page.locator("#text").fill("sea")
        expect(page.locator("#summary")).to_contain_text(": sea")
        page.locator("#order").select_option("new")
        expect(page.locator("#hits a").first).to_have_attribute("data-id", "sea 1.png")
        hits(page).first.click()
        expect(page.locator("#detail-file")).to_have_text("sea 1.png")
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Original").click()
        opened.value.wait_for_load_state()
        assert opened.value.url.endswith("/item/original?id=sea%201.png")
        phone = visit(client, "/?order=new", viewport={"width": 360, "height": 800})
        expect(phone.locator("#order")).to_be_visible()
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360


def test_videos_have_a_play_sign_and_play_in_the_large_view(tmp_path, start, visit, make_video):
    folder = tmp_path / "photos"
    folder.mkdir()
    make_video(folder / "walk.webm", "libvpx-vp9")
    image = pytest.importorskip("PIL.Image")
    for number in range(2):
        image.new("RGB", (40, 30), (90 * number, 120, 60)).save(folder / f"{number}.png")
    settings = {"image_encoder": "hog", "text_encoder": "tfidf"}
    Collection.build(folder, tmp_path / "c.acqh", **settings).close()
    with start(tmp_path / "c.acqh", originals=folder) as client:
        page = visit(client, "/")
        expect(hits(page)).to_have_count(3)
        expect(page.locator(".play")).to_have_count(1)
        page.locator(".tile:has(.play) a").click()
        video = page.locator("#detail video")
        expect(video).to_be_visible()
        video.evaluate("v => { v.muted = true; return v.play(); }")
        assert video.evaluate("v => v.videoWidth") == 160
        page.keyboard.press("Escape")
        expect(video).to_have_count(0)


def titles(page):
    return [link.get_attribute("title") for link in page.locator("#hits a").all()]


def test_a_hit_says_why_it_is_there_where_the_server_says_so(client, visit):
    page = visit(client)
    expect(hits(page).first).to_be_visible()

    def explain(route):
        answer = route.fetch()
        body = answer.json()
        for hit in body["hits"]:
            hit.update(why=["keywords", "semantic"], match=1)
        route.fulfill(response=answer, json=body)

    page.route("**/search", explain)
    query(page, "car")
    expect(page.locator("#hits .why").first).to_have_text("keywords, similarity")
    hits(page).first.click()
    expect(page.locator("#detail-why")).to_have_text("Contains all words: keywords, similarity")


def test_the_map_can_be_moved_and_opens_items(client, visit):
    page = visit(client)
    page.get_by_role("button", name="Map").click()
    expect(page).to_have_url(ending("/?view=map"))
    expect(page.locator("#legend .chip")).to_have_text(["cat", "car", "sea"], use_inner_text=True)
    canvas = page.locator("#map")
    expect(canvas).to_have_attribute("data-pictures", "37")  # one item has none
    before = canvas.evaluate("each => each.toDataURL()")
    canvas.focus()
    for key in ("+", "+", "ArrowLeft"):
        page.keyboard.press(key)
    assert canvas.evaluate("each => each.toDataURL()") != before
    page.keyboard.press("0")
    assert canvas.evaluate("each => each.toDataURL()") == before
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#legend .chip", has_text="sea").click()
    expect(page.locator("#summary")).to_have_text("12 items with sea")
    assert canvas.evaluate("each => each.toDataURL()") != before  # the others fade
    assert page.evaluate(NAMELESS) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_the_page_works_under_a_path_of_a_proxy(built, start, visit, is_known):
    with start(built, **({"root_path": "/photos/all"} if is_known else {})) as client:
        home = str(client.base_url).rstrip("/")

        def strip(route):
            route.continue_(url=route.request.url.replace("/photos/all/", "/"))

        page = visit(client, "/healthz")
        if not is_known:  # a proxy that takes its path off
            page.route("**/photos/all/**", strip)
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{home}/photos/all/")
        query(page, "car")
        until_drawn(page, "#hits img")
        expect(page).to_have_url(f"{home}/photos/all/?q=car")
        hits(page).first.click()
        expect(page.locator("#detail")).to_be_visible()
        assert all(url.startswith(f"{home}/photos/all/") for url in requests), requests


def test_the_panel_is_folded_and_shows_how_the_score_comes_about(client, visit):
    page = visit(client, "/?q=blue+sea")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: blue sea")
    expect(page.locator("#how")).to_be_hidden()
    page.get_by_text("Why this result").click()
    answer = client.post("/search", json={"text": "blue sea", "k": 24, "explain": True}).json()
    expect(page.locator("#how dl")).to_contain_text("of 38 items scanned")
    expect(page.locator("#how svg.drawing rect")).to_have_count(4)
    for position in (0, 1):
        if position:
            page.get_by_role("button", name="Explain the next result").press("Enter")
        expect(page.locator(".which b")).to_have_text(str(position + 1))
        rows = page.locator(".lookup tbody tr").all()
        assert len(rows) == 3
        code = [int(row.locator("b").inner_text()) for row in rows[:-1]]
        assert code == answer["hits"][position]["code"]
        cells = [row.locator("td").last.inner_text().replace("−", "-") for row in rows]
        *parts, score = map(float, cells)
        assert sum(parts) == pytest.approx(score, abs=2e-3)
        expected = sum(answer["explanation"]["hits"][position]["entries"])
        assert score == pytest.approx(expected, abs=1e-3)
        shares = [text.split("\t")[1] for text in page.locator(".tally tr").all_inner_texts()]
        assert shares[-1] == page.locator("#hits .match").nth(position).inner_text() == "all words"
        assert max(int(share.rstrip("%")) for share in shares[:-1]) == 100
        expect(page.locator(".reason")).to_contain_text("all words of the query")
    expect(page.get_by_role("button", name="Explain the next result")).to_be_focused()
    hits(page).nth(5).hover()
    expect(page.locator(".which b")).to_have_text("6")


def test_everything_works_from_the_keyboard(client, visit):
    page = visit(client)
    expect(hits(page).first).to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("car")
    expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: car")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(hits(page).first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(hits(page).nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(hits(page).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    page.keyboard.press("Escape")
    expect(hits(page).nth(1)).to_be_focused()
    page.keyboard.press("m")
    expect(page.locator("#parts")).to_be_visible()
    page.keyboard.press("l")
    expect(page.locator(".part.unlike")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#summary")).to_have_text("Or start with one of these")
    assert page.evaluate(NAMELESS) == []


def test_a_busy_server_is_queried_again(client, visit):
    page = visit(client)
    expect(hits(page).first).to_be_visible()
    for status, text in ((429, "car"), (503, "cat")):
        problem = {"title": "Busy", "status": status, "detail": "try again soon"}
        refuse = {"status": status, "headers": {"Retry-After": "60"}, "json": problem}
        page.route("**/search", lambda route, _, refuse=refuse: route.fulfill(**refuse))
        page.locator("#text").fill(text)
        message = "The server is busy. Try again soon. Retrying in 60 s."
        expect(page.locator("#error")).to_be_visible()
        expect(page.locator("#error p")).to_have_text(message)
        page.unroute("**/search")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#summary")).to_have_text(f"Best 24 of 38 items: {text}")
        expect(page.locator("#error")).to_be_hidden()


def test_a_server_that_is_gone_and_comes_back(built, start, visit):
    with start(built) as client:
        page = visit(client, "/?q=cat")
        expect(hits(page)).to_have_count(24)
        port = client.address[1]
    page.locator("#text").fill("car")
    expect(page.locator("#error")).to_contain_text("The server is not responding.")
    expect(hits(page)).to_have_count(24)
    with start(built, port=port):  # it is asked again without anybody doing anything
        expect(page.locator("#summary")).to_have_text("Best 24 of 38 items: car")
        expect(page.locator("#error")).to_be_hidden()


def test_what_is_no_image_and_what_is_not_there_are_named(client, visit):
    page = visit(client, "/?item=nothing")
    expect(page.locator("#error")).to_contain_text("No item has the id 'nothing'.")
    page.dispatch_event("body", "drop", {"dataTransfer": carry(page, b"?", "a.txt", "text/plain")})
    expect(page.locator("#error")).to_contain_text(re.compile("not an image.*“a.txt”"))
    page.get_by_role("button", name="Remove “like nothing” from the query").click()
    expect(page.locator("#error")).to_be_hidden()
    broken = {"dataTransfer": carry(page, b"\x89PNG\r\n\x1a\nbut not really")}
    page.dispatch_event("body", "drop", broken)
    expect(page.locator("#error")).to_contain_text("This search is not possible.")


def test_a_collection_built_anew_is_taken_up_without_an_error(
    own_copy, start, visit, rebuild, make_items
):
    with start(own_copy, reload_seconds=0.02) as client:
        page = visit(client, "/?q=cat&label=sea")
        expect(page.locator("#facts")).to_have_text(re.compile(FACTS.format(38)))
        few = [item for item in make_items(n_rounds=1) if "sea" not in item.labels]
        rebuild(own_copy, few, overwrite=True)
        expect(page.locator("#facts")).to_have_text(re.compile(FACTS.format(38)))
        for text in ("a cat", "black cat", "a cat sleeps", "soft grey cat", "black car"):
            page.locator("#text").fill(text)
            expect(page.locator("#results:not([aria-busy])")).to_be_visible()
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#facts")).to_have_text(re.compile(FACTS.format(10)))
        expect(page.locator("#summary")).to_have_text("10 items: black car")
        expect(page.locator("#error")).to_be_hidden()
        expect(page.get_by_role("button", name="sea", exact=True)).to_have_count(0)
        expect(page).to_have_url(ending("/?q=black+car"))


def test_a_guarded_collection_asks_for_its_token(built, start, visit, token_files):
    with start(built, **token_files) as client:
        page = visit(client, "/?q=car")
        for token, why in (("wrong", "protected"), ("read-0123456789abcdef", "not valid")):
            expect(page.locator("#token-why")).to_contain_text(why)
            page.get_by_label("Token", exact=True).fill(token)
            page.get_by_role("button", name="Open").click()
        expect(hits(page)).to_have_count(24)
        expect(page.locator("#token")).to_be_hidden()
        until_drawn(page, "#hits img")


def test_a_link_may_carry_the_token(built, start, visit, token_files):
    with start(built, **token_files) as client:
        page = visit(client, "/?q=car#token=read-0123456789abcdef")
        expect(hits(page)).to_have_count(24)
        expect(page).to_have_url(ending("/?q=car"))


def test_with_a_token_the_picture_of_the_query_is_shown(
    built, start, visit, token_files, make_picture
):
    with start(built, **token_files) as client:
        page = visit(client, "/#token=read-0123456789abcdef")
        expect(hits(page).first).to_be_visible()
        file = {"name": "sea.png", "mimeType": "image/png", "buffer": make_picture((20, 60, 220))}
        page.locator("#file").set_input_files(file)
        picture = page.locator("#parts img")
        expect(picture).to_have_js_property("complete", True)
        expect(picture).to_have_attribute("src", re.compile("^blob:"))
        assert picture.evaluate("image => image.naturalWidth") > 0


@pytest.fixture(scope="module")
def detected(make_items, rebuild, tmp_path_factory):
    """Return a collection with dates, kinds and suggested tags."""
    items = []
    for number, item in enumerate(make_items()):
        metadata = {"kind": "screenshot" if number % 6 == 5 else "photo"}
        metadata |= {"date": f"{2019 + number // 13}-{number % 12 + 1:02}-14T18:03:29"}
        metadata |= {"date_source": "name"}
        if "cat" in item.labels:
            metadata["tags"] = {"tabby": 0.83}
        items.append(replace(item, detected=metadata))
    return rebuild(tmp_path_factory.mktemp("detected") / "a.acqh", items)


def test_items_are_sorted_by_date_under_months_with_a_timeline(detected, start, visit):
    with start(detected) as client:
        page = visit(client)
        expect(hits(page)).to_have_count(24)
        expect(page.locator("#order")).to_have_value("new")
        expect(page.locator(".month h2").first).to_have_text("September – December 2021")
        expect(page.locator("#hits .names").first).to_contain_text("14 Dec 2021")
        expect(page.locator("#timeline button")).to_have_text(["2021", "2020", "2019"])
        page.get_by_role("button", name="2020, 13 items").click()
        expect(page.locator("#summary")).to_have_text("13 items, 2020")
        expect(page).to_have_url(ending("/?period=2020"))
        page.get_by_role("button", name="February 2020, 2 items").click()
        expect(page.locator(".month h2")).to_have_text(["February 2020"])
        expect(hits(page)).to_have_count(2)
        page.get_by_role("button", name="Remove the filter “February 2020”").click()
        expect(hits(page)).to_have_count(24)
        page.locator("#order").select_option("old")
        expect(page.locator(".month h2").first).to_have_text(re.compile("January – .* 2019"))
        assert page.evaluate(NAMELESS) == []


def test_a_date_in_the_text_is_a_filter_that_can_be_removed(detected, start, visit):
    with start(detected) as client:
        page = visit(client)
        page.locator("#text").press_sequentially("cat in march 2020")
        chip = page.get_by_role("button", name="Remove the filter “in march 2020”")
        expect(chip).to_be_visible()
        dates = page.locator("#hits .names").all_inner_texts()
        assert all("14 Mar 2020" in text for text in dates)
        chip.click()
        expect(chip).to_have_count(0)
        expect(page).to_have_url(re.compile("dates=words"))
        expect(hits(page)).to_have_count(24)


def test_kinds_and_suggested_tags_filter(detected, start, visit):
    with start(detected) as client:
        page = visit(client)
        page.locator("#kind").select_option("screenshot")
        expect(page.locator("#summary")).to_have_text("6 items, Screenshots")
        page.goto(f"{client.base_url}?open=cat-0-0")
        expect(page.locator("#detail-tags")).to_have_text(re.compile("Suggested.*tabby"))
        expect(page.locator("#detail-labels button")).to_have_text(["cat"])
        expect(page.locator("#detail-fields")).to_contain_text("from the file name")
        page.locator("#detail-tags button").click()
        expect(page.locator("#summary")).to_have_text("14 items with tabby")
        assert set(labels(page)) == {text for text in labels(page) if "cat" in text}


WRITE_LINK = "#token=write-0123456789abcdef"


def test_captions_and_labels_are_edited_and_the_change_is_undone(
    own_copy, start, visit, token_files
):
    with start(own_copy, **token_files) as client:
        client.headers["Authorization"] = "Bearer write-0123456789abcdef"
        page = visit(client, f"/?open=cat-0-0{WRITE_LINK}")
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Caption").fill("our cat Mimi")
        page.get_by_label("Caption").press("ArrowLeft")  # moves in the text, not to another item
        page.get_by_role("button", name="Remove the label “cat”").click()
        for name in ("pet", "Mimi"):
            page.get_by_label("Labels", exact=True).fill(name)
            page.get_by_label("Labels", exact=True).press("Enter")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#toast-text")).to_have_text("Saved.")
        expect(page.locator("#detail-name")).to_have_text("our cat Mimi")
        expect(page.locator("#detail-labels button")).to_have_text(["pet", "Mimi"])
        expect(page.get_by_role("button", name="Edit")).to_be_focused()
        item = client.get("/item?id=cat-0-0").json()
        assert (item["text"], item["labels"]) == ("our cat Mimi", ["pet", "Mimi"])
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#detail-name")).to_have_text("soft grey cat")
        item = client.get("/item?id=cat-0-0").json()
        assert (item["text"], item["labels"]) == ("soft grey cat", ["cat"])
        assert page.evaluate(NAMELESS) == []


def test_favourites_are_marked_and_filtered(own_copy, start, visit, token_files):
    with start(own_copy, **token_files) as client:
        page = visit(client, f"/?q=cat{WRITE_LINK}")
        hits(page).nth(1).click()
        name = page.locator("#detail-name").inner_text()
        page.get_by_role("button", name="Favourite", exact=True).press("Enter")
        expect(page.locator("#favourite")).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Escape")
        expect(page.locator("#hits .star")).to_have_count(1)
        page.get_by_role("button", name="★ Favourites").click()
        expect(page.locator("#summary")).to_contain_text("1 item")
        expect(hits(page)).to_have_attribute("title", re.compile(f"^{name}"))
        expect(page).to_have_url(ending("/?q=cat&only=favourite"))


def test_hidden_items_are_shown_only_on_request(own_copy, start, visit, token_files):
    with start(own_copy, **token_files) as client:
        page = visit(client, f"/?label=sea{WRITE_LINK}")
        expect(hits(page)).to_have_count(12)
        hits(page).first.click()
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("button", name="Hide").click()
        expect(page.locator("#toast-text")).to_have_text("Hidden.")
        page.keyboard.press("Escape")
        expect(hits(page)).to_have_count(11)
        page.get_by_role("button", name="Hidden", exact=True).click()
        expect(hits(page)).to_have_count(1)
        hits(page).first.click()
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("button", name="Show again").click()
        page.keyboard.press("Escape")
        page.goto(f"{client.base_url}?label=sea")
        expect(hits(page)).to_have_count(12)


def test_a_removal_is_undone_or_done_when_the_page_is_left(own_copy, start, visit, token_files):
    with start(own_copy, **token_files) as client:
        client.headers["Authorization"] = "Bearer write-0123456789abcdef"
        page = visit(client, f"/?label=sea{WRITE_LINK}")
        for is_undone in (True, False):
            hits(page).first.click()
            page.get_by_role("button", name="Edit").click()
            page.get_by_role("button", name="Remove", exact=True).click()
            expect(hits(page)).to_have_count(11)
            assert client.get("/item?id=sea-0-0").status_code == 200
            if is_undone:
                page.get_by_role("button", name="Undo").click()
                expect(hits(page)).to_have_count(12)
        page.goto("about:blank")
        for _ in range(100):
            if client.get("/item?id=sea-0-0").status_code == 404:
                break
            page.wait_for_timeout(50)
        assert client.get("/info").json()["n_items"] == 37


def test_without_the_right_token_nothing_is_changed_and_it_is_asked_for(
    own_copy, start, visit, token_files
):
    with start(own_copy, **token_files) as client:
        page = visit(client, "/?open=cat-0-0#token=read-0123456789abcdef")
        page.get_by_role("button", name="Favourite", exact=True).click()
        expect(page.locator("#token-why")).to_contain_text("permits changes")
        expect(page.locator("#detail")).to_be_hidden()
        page.get_by_label("Token", exact=True).fill("write-0123456789abcdef")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#token")).to_be_hidden()
        page.locator("#hits a[data-id='cat-0-0']").click()
        page.get_by_role("button", name="Favourite", exact=True).click()
        expect(page.locator("#favourite")).to_have_attribute("aria-pressed", "true")


def test_a_server_that_cannot_be_written_to_offers_no_changes(client, visit):
    page = visit(client, "/?open=cat-0-0")
    expect(page.locator("#detail-name")).to_be_visible()
    expect(page.locator("#favourite")).to_be_hidden()
    expect(page.locator("#edit-toggle")).to_be_hidden()


def test_a_collection_without_texts_is_searched_by_pictures(
    tmp_path, start, visit, rebuild, make_items, make_picture
):
    pictures = [replace(item, text="") for item in make_items(n_rounds=1) if item.image]
    with start(rebuild(tmp_path / "pictures.acqh", pictures)) as client:
        page = visit(client, "/?label=sea")
        expect(page.locator("#summary")).to_have_text("4 items with sea")
        expect(page.locator("#text")).to_be_disabled()
        expect(page.locator("#hint")).to_contain_text("no captions")
        file = {"name": "a.png", "mimeType": "image/png", "buffer": make_picture((20, 60, 220))}
        page.locator("#file").set_input_files(file)
        expect(page.locator("#summary")).to_have_text("4 items with sea: a.png")
        hits(page).first.focus()
        page.keyboard.press("m")
        expect(page.locator("#summary")).to_contain_text("3 items with sea: more like sea 0 ")


@pytest.mark.parametrize(
    ("locale", "results"),
    [
        ("de-AT", "Die besten 24 von 38 Einträgen: cat"),
        ("fr", "Les 24 meilleurs sur 38 éléments\xa0: cat"),
    ],
)
def test_the_web_interface_speaks_the_language_of_the_browser(client, visit, locale, results):
    page = visit(client, "/?q=cat", locale=locale, viewport={"width": 390, "height": 800})
    expect(page.locator("html")).to_have_attribute("lang", locale[:2])
    expect(page.locator("#summary")).to_have_text(results)
    expect(page.locator("#status")).to_contain_text("24")  # the count is announced
    page.locator("#how-toggle").click()
    expect(page.locator(".tally")).to_be_visible()
    assert page.evaluate(FITS)
    assert page.evaluate(NAMELESS) == []


def test_nothing_sticks_out_at_the_width_of_a_phone(client, visit):
    page = visit(client, "/", viewport={"width": 360, "height": 740}, color_scheme="dark")
    expect(hits(page).first).to_be_visible()
    assert page.evaluate(FITS)
    page.goto(f"{client.base_url}?q=cat&item=car-0-0&label=sea")
    expect(hits(page)).to_have_count(12)
    page.get_by_text("Why this result").click()
    expect(page.locator(".lookup")).to_be_visible()
    assert page.evaluate(FITS)


def test_a_long_file_name_is_cut_on_cards_and_broken_at_its_separators(
    start, visit, make_picture, tmp_path
):
    name = f"holidays/IMG_20190804_{'verylong' * 12}_edited_copy.png"
    facts = {"file": name, "sha256": "0" * 64, "bytes": 6763, "date": "2019-08-04T15:30:12"}
    items = [Item(image=make_picture((20, 60, n * 9)), fields={**facts, "n": n}) for n in range(12)]
    Collection.build(items, tmp_path / "a.acqh", image_encoder="hog", n_codebooks=2).close()
    with start(tmp_path / "a.acqh") as client:
        for width in (360, 1280):
            page = visit(client, "/", viewport={"width": width, "height": 740})
            words = f"{'verylong' * 12} edited copy"
            expect(page.locator(".words").first).to_have_text(words)
            hits(page).first.click()
            expect(page.locator("#detail-name")).to_have_text(words)
            expect(page.locator("#detail-file")).to_have_text(name)
            assert page.locator("#detail-file wbr").count() == 5
            fields = page.locator("#detail-fields")
            expect(fields).to_contain_text("6.8 kB")
            expect(fields).to_contain_text("4 Aug 2019, 15:30")
            expect(fields).not_to_contain_text("sha256")
            assert page.evaluate(FITS)


def test_what_is_clearly_weaker_is_faded_and_said_to_be_merely_the_nearest(client, visit):
    page = visit(client)
    expect(page.locator("#home")).to_have_text("things")
    matches = [1, 0.72, 0.5, 0.1]

    def rate(route):
        answer = route.fetch()
        body = answer.json()
        for hit, match in zip(body["hits"], matches, strict=False):
            hit["match"] = match
        body.update(hits=body["hits"][:4], n_confident=sum(match > 0.5 for match in matches))
        route.fulfill(response=answer, json=body)

    page.route("**/search", rate)
    query(page, "car")
    expect(page.locator("#hits .match")).to_have_text(["all words", "72%", "50%", "10%"])
    expect(page.locator("#verdict")).to_contain_text("2 confident matches")
    expect(page.locator("#hits .weak")).to_have_count(2)
    expect(page.locator("#hits .faint")).to_have_count(1)
    matches[:] = [0.4, 0.3, 0.2, 0.1]
    query(page, "cat")
    expect(page.locator("#verdict")).to_have_text("No strong matches. Closest results:")
    expect(page.locator("#hits .faint")).to_have_count(3)
    expect(page.locator("#status")).to_contain_text("No strong matches")
    assert page.title() == "cat · things"
    hits(page).first.click()
    page.get_by_role("button", name="More like this", exact=True).click()
    expect(page.locator("#summary")).to_contain_text("more like")
    expect(page.locator("#hits .faint")).to_have_count(3)
    expect(page.locator("#verdict")).to_be_empty()  # like one item
    page.locator("#parts .remove").click()
    query(page, "cat")
    page.get_by_role("button", name="sea", exact=True).click()
    page.locator("#text").fill("")
    expect(page.locator("#summary")).to_have_text("12 items with sea")
    expect(page.locator("#verdict")).to_be_empty()  # nothing was searched for


@pytest.mark.parametrize("mode", ["", "&mode=keyword", "&mode=semantic"])
def test_the_panel_ends_with_the_number_on_the_tile(client, visit, mode):
    page = visit(client, f"/?q=quiet+blue+road{mode}")
    page.get_by_text("Why this result").click()
    for position in range(4):
        hits(page).nth(position).hover()
        expect(page.locator(".which b")).to_have_text(str(position + 1))
        # While the page is laid out, the text of a row has no tabs: cells are read one by one.
        rows = page.locator(".tally tr").evaluate_all(
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        )
        shown = page.locator("#hits .match").nth(position).inner_text()
        assert rows[-1][:2] == ["Confidence", shown]
        added = sum(int(row[1].rstrip("%")) for row in rows[:-1])  # of rounded numbers
        assert abs(min(added, 99) - (100 if shown == "all words" else int(shown.rstrip("%")))) <= 1
        expect(page.locator(".reason")).to_have_text(re.compile(r"^It.*\.$"))


def test_words_to_leave_out_alone_explain_themselves(client, visit):
    page = visit(client, "/?q=-cat")
    expect(page.locator("#empty")).to_contain_text("“-cat” only says what to exclude.")
    expect(page.locator("#empty")).to_contain_text("“park -cat”")


def test_modes_are_named_by_what_they_do(client, visit):
    page = visit(client)
    names = ["Keywords and similarity", "Keywords only", "Similarity only"]
    expect(page.locator("#mode option")).to_have_text(names)


def test_a_shared_link_is_in_order(photographs, start, visit):
    with start(photographs[0]) as client:
        for order, first in (("new", "car 0.png"), ("old", "sea 7.png")):
            page = visit(client, f"/?order={order}")
            expect(hits(page).first).to_have_attribute("data-id", first)
        page = visit(client, "/?q=sea&order=old")
        expect(hits(page).first).to_have_attribute("data-id", "sea 7.png")
        page.get_by_text("Why this result").click()
        expect(page.locator(".reason")).to_be_visible()


def test_originals_of_a_folder_are_shown_and_hashes_are_no_captions(
    tmp_path, start, visit, make_picture
):
    folder = tmp_path / "photos"
    folder.mkdir()
    names = ["3385593926_be8621d17b.jpg", "IMG_20190812_0007.jpg", "garden party.jpg"]
    for number, name in enumerate([*names, *(f"{n:032x}.jpg" for n in range(9))]):
        (folder / name).write_bytes(make_picture((20, 60, number * 20), (600, 400)))
    encoders = {"image_encoder": "hog", "text_encoder": "tfidf", "n_codebooks": 2}
    Collection.build(folder, tmp_path / "a.acqh", **encoders).close()
    with start(tmp_path / "a.acqh") as client:
        page = visit(client, "/", color_scheme="dark")
        expect(hits(page)).to_have_count(12)
        assert sorted(page.locator(".words").all_inner_texts())[-2:] == ["", "garden party"]
        tiles = [link.get_attribute("aria-label") for link in hits(page).all()]
        assert len(set(tiles)) == 12
        assert {"garden party", *names[:2]} <= {tile.split(", ")[0] for tile in tiles}
        until_drawn(page, "#hits img", width=320)
        page.locator(f"#hits a[data-id='{names[0]}']").click()
        expect(page.locator("#detail-name")).to_have_text(names[0])
        expect(page.locator("#detail-file")).to_be_empty()
        until_drawn(page, "#detail-image")
        assert page.evaluate("document.querySelector('#detail-image').naturalWidth") == 400
        shade = "getComputedStyle(document.querySelector('#detail-frame')).backgroundColor"
        assert max(map(int, re.findall(r"\d+", page.evaluate(shade)))) < 64
        page.locator("#like").click()
        expect(page.locator("#summary")).to_have_text(f"11 items: more like {names[0]}")
    with start(tmp_path / "a.acqh", allowed_hosts=["photos.example.org"]) as client:
        item = client.get("/item", params={"id": names[0]}).json()
        assert item["original"] is None  # a proxy may hand it on to anybody


def test_the_box_ends_where_the_hits_end_and_chips_that_go_on_fade(client, visit):
    page = visit(client, "/?q=cat", viewport={"width": 1900, "height": 800})
    expect(hits(page).first).to_be_visible()
    ends = "all => Math.max(...all.map((each) => each.getBoundingClientRect().right))"
    box, grid = (page.locator(selector).evaluate_all(ends) for selector in (".box", "#hits .frame"))
    assert box == pytest.approx(grid, abs=3)
    phone = visit(client, "/", viewport={"width": 390, "height": 800})
    expect(phone.locator("#controls")).to_have_class(re.compile("goes-on"))
    phone.locator("#controls").evaluate("each => each.scrollTo(9999, 0)")
    expect(phone.locator("#controls")).not_to_have_class(re.compile("goes-on"))


def test_controls_are_in_one_line_on_a_phone(photographs, start, visit):
    with start(photographs[0]) as client:
        page = visit(client, "/?q=car", viewport={"width": 390, "height": 800})
        expect(hits(page).first).to_be_visible()
        tops = "all => all.filter((each) => each.checkVisibility()).map((each) => each.offsetTop)"
        shown = page.locator("#controls :is(button, select)").evaluate_all(tops)
        assert len(shown) > 4
        assert max(shown) - min(shown) < 8


def test_photos_keep_their_shapes_in_rows_of_equal_height(tmp_path, start, visit, make_picture):
    folder = tmp_path / "photos"
    folder.mkdir()
    shapes = [(400, 600), (600, 400), (400, 400), (300, 900)] * 3  # height, width
    for number, shape in enumerate(shapes):
        (folder / f"{number:02}.png").write_bytes(make_picture((20, 60, number * 20), shape))
    Collection.build(folder, tmp_path / "a.acqh", image_encoder="hog", n_codebooks=2).close()
    with start(tmp_path / "a.acqh") as client:
        page = visit(client)
        expect(hits(page)).to_have_count(12)
        until_drawn(page, "#hits li:nth-child(12) img")
        boxes = [frame.bounding_box() for frame in page.locator("#hits .frame").all()]
        # Files of one second may come in any order.
        ratios = sorted(box["width"] / box["height"] for box in boxes)
        expected = sorted(width / height for height, width in shapes)
        assert ratios == pytest.approx(expected, rel=0.03)
        rows = {round(box["y"]): set() for box in boxes}
        for box in boxes:
            rows[round(box["y"])].add(round(box["height"]))
        assert len(rows) > 1
        assert all(max(heights) - min(heights) <= 1 for heights in rows.values())


def test_the_start_page_is_full_though_few_items_have_labels(
    tmp_path, start, visit, make_items, rebuild
):
    items = [replace(item, labels=["odd"] if n < 2 else []) for n, item in enumerate(make_items())]
    with start(rebuild(tmp_path / "a.acqh", items)) as client:
        expect(hits(visit(client))).to_have_count(24)


def test_the_map_names_regions_and_shows_only_hits_as_images_of_a_query(client, visit):
    page = visit(client, "/?view=map")
    canvas = page.locator("#map")
    expect(canvas).to_have_attribute("data-pictures", "37")
    assert 1 <= int(canvas.get_attribute("data-names")) <= 3  # labels whose items lie together
    page.goto(f"{client.base_url}?view=map&label=sea")
    expect(hits(page)).to_have_count(12)
    expect(canvas).to_have_attribute("data-pictures", "12")


def test_names_on_the_map_of_a_phone_are_whole(tmp_path, start, visit, make_items, rebuild):
    items = [
        replace(item, labels=[f"{label} {'m' * 14}" for label in item.labels])
        for item in make_items()
    ]
    with start(rebuild(tmp_path / "a.acqh", items)) as client:
        page = visit(client, viewport={"width": 390, "height": 844})
        page.evaluate(
            """() => {
              const write = CanvasRenderingContext2D.prototype.fillText;
              CanvasRenderingContext2D.prototype.fillText = function (name, x, y) {
                const half = this.measureText(name).width / 2;
                (window.spans ??= []).push(x - half, this.canvas.clientWidth - x - half);
                write.call(this, name, x, y);
              };
            }"""
        )
        page.get_by_role("button", name="Map").click()
        expect(page.locator("#map")).to_have_attribute("data-names", re.compile("[1-9]"))
        assert min(page.evaluate("window.spans")) >= 0


def test_the_map_says_what_it_does_and_never_shows_next_to_nothing(client, visit):
    page = visit(client)
    held = []
    page.route("**/map", lambda route: held.append(route))
    with page.expect_request("**/map"):
        page.get_by_role("button", name="Map").click()
    expect(page.locator("#map-wait")).to_contain_text("Arranging 38 items")
    held[0].continue_()
    canvas = page.locator("#map")
    expect(canvas).to_have_attribute("data-pictures", "37")
    expect(page.locator("#map-wait")).to_be_hidden()
    expect(page.locator("#legend .hint")).to_contain_text("Similar items are close together")
    box = canvas.bounding_box()
    for x, y in ((0.02, 0.02), (0.5, 0.5), (0.98, 0.4)):
        page.keyboard.press("0")
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        for _ in range(30):
            page.mouse.wheel(0, -400)
        page.wait_for_timeout(100)
        assert int(canvas.get_attribute("data-pictures")) >= 7
        for _ in range(9):
            page.keyboard.press("ArrowRight")
        assert int(canvas.get_attribute("data-pictures")) >= 1
        for _ in range(30):
            page.mouse.wheel(0, 400)
        expect(canvas).to_have_attribute("data-pictures", "37")


def test_copies_of_a_file_are_one_tile_that_counts_and_names_them(
    tmp_path, start, visit, make_picture
):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.png").write_bytes(make_picture((20, 60, number * 20)))
    for name in ("again.png", "once more.png"):
        (folder / name).write_bytes((folder / "3.png").read_bytes())
    Collection.build(folder, tmp_path / "a.acqh", image_encoder="hog", n_codebooks=2).close()
    with start(tmp_path / "a.acqh") as client:
        page = visit(client)
        expect(hits(page)).to_have_count(9)
        expect(page.locator(".copies")).to_have_text("3 copies")
        page.locator("#hits a", has=page.locator(".copies")).click()
        expect(page.locator("#detail-fields")).to_contain_text("Copies")
        expect(page.locator("#detail-fields")).to_contain_text("once more.png")
        expect(page.locator("#detail-fields")).to_contain_text("(of the file)")
        expect(page.locator("#detail-fields")).not_to_contain_text("Modified")
        page.goto(f"{client.base_url}?item=0.png")
        expect(page.locator("#summary")).to_contain_text("10 items: more like")
        expect(hits(page)).to_have_count(8)
        page.get_by_text("Why this result").click()
        page.locator("#hits a", has=page.locator(".copies")).hover()
        expect(page.locator(".tally")).to_be_visible()
