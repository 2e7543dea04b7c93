// The web interface: handles events, queries the server and shows the answers.

import * as api from "./api.js";
import { fillParts, fillLabels, hintMore } from "./controls.js";
import { addDetail, fillDetail } from "./detail.js";
import { make, sortedBy } from "./dom.js";
import { addFiles } from "./files.js";
import { ResponseError } from "./errors.js";
import { addKeys, fillGrid, folded } from "./grid.js";
import { language, percent, t, translatePage } from "./language.js";
import { CollectionMap } from "./map.js";
import { dateColumnOf, factsOf, hintsOf, nameOf, summaryOf, titleOf, verdictOf, whyEmpty } from "./messages.js";
import { fillPanel } from "./panel.js";
import { addressOf, asks, bodyOf, browseOf, isMixed, nothing, picturesFrom, readAddress, withPictures, writeAddress } from "./query.js";
import { findStart } from "./start.js";

const PAGE = 24; // hits at first, and more with each "Show more"
const TYPING_PAUSE = 140; // milliseconds without a key before a search
const EMPTY_PAUSE = 900; // without a key before an empty answer is shown
const HOVER_PAUSE = 90; // so that the panel stays while the mouse crosses other hits
const SPEAKING_PAUSE = 700; // so that a screen reader is not interrupted by each key
const CHECK_EVERY = 15_000; // milliseconds between checks whether the collection was rebuilt
const NEAR_END = 600; // pixels above the end at which more results are loaded

translatePage(document);
const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));

let query = nothing();
let facts = null; // about the collection, from /info
let labels = [];
let answer = null;
let hits = []; // as they are shown
let explained = 0; // position of the hit in the panel
let k = PAGE;
let isTyping = false; // whether the newest history entry is a text being typed
let pending = null; // AbortController of the last search
let start = null; // items and phrases without a query
let mapped = null; // state of the collection that the map shows
const items = new Map(); // items by id, to name them in the query
const timers = {};

function later(name, milliseconds, work) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(work, milliseconds);
}

// --- queries ------------------------------------------------------------------------------------

/** Change the query; with `isNew` the back button returns to the previous one. */
function ask(changes, { isNew = true, pause = 0 } = {}) {
  query = { ...query, open: null, ...changes };
  k = PAGE;
  isTyping = pause > 0;
  writeAddress(query, isNew);
  drawQuery();
  if (pause) {
    later("search", pause, search);
  } else {
    search();
  }
}

async function search() {
  for (const timer of ["search", "retry", "empty"]) clearTimeout(timers[timer]);
  pending?.abort();
  const current = (pending = new AbortController());
  page.results.setAttribute("aria-busy", "true");
  try {
    const found = await find(current.signal);
    if (current !== pending) return;
    hideError();
    // While somebody types, half a word finds nothing: wait before showing it.
    if (isTyping && found && !found.hits.length) later("empty", EMPTY_PAUSE, () => draw(found));
    else draw(found);
  } catch (error) {
    if (current !== pending || error.name === "AbortError") return;
    showError(error, search);
  } finally {
    if (current === pending) page.results.removeAttribute("aria-busy");
  }
}

/** Return the answer to the query, or null for the start page. */
async function find(signal) {
  if (!facts) await loadFacts();
  const named = [...query.items, ...query.unlike, ...(query.open === null ? [] : [query.open])];
  for (const id of named.filter((one) => !items.has(one))) items.set(id, await api.item(id, signal));
  drawQuery();
  if (query.view === "map") showMap(signal).catch((error) => error.name === "AbortError" || showError(error, search));
  if (asks(query)) {
    const blobs = query.pictures.map(({ blob }) => blob);
    return api.search(bodyOf(query, k, page.how.open), blobs, signal);
  }
  if (query.labels.length || query.order) {
    if (query.order && !dateColumnOf([...items.values()])) await loadStart(signal); // which columns there are
    return api.browse(browseOf(query, k, dateColumnOf([...items.values()])), signal);
  }
  await loadStart(signal);
  return null;
}

/** Load the items and phrases that are shown without a query. */
async function loadStart(signal) {
  start ??= await findStart(labels, signal);
  if (facts.examples.length) start.phrases = facts.examples;
  for (const hit of start.hits) items.set(hit.id, hit);
}

/** Load facts about the collection. */
async function loadFacts() {
  [facts, labels] = await Promise.all([api.info(), api.labels()]);
  start = null;
  drawFacts();
  drawQuery();
}

/** Reload if the collection was changed or rebuilt. */
async function checkCollection() {
  if (document.hidden || !facts) return;
  let now;
  try {
    now = await api.info();
  } catch {
    return; // the next search shows the error
  }
  const isRebuilt = now.generation !== facts.generation;
  if (!isRebuilt && now.revision === facts.revision) return;
  await loadFacts().catch(() => {});
  if (!isRebuilt) return;
  items.clear();
  const names = new Set(labels.map(({ name }) => name));
  announce(t("search.rebuilt"));
  ask({ labels: query.labels.filter((name) => names.has(name)) }, { isNew: false });
}

// --- drawing -----------------------------------------------------------------------------------

function drawFacts() {
  page.home.textContent = facts.name;
  page.facts.textContent = factsOf(facts);
  const { text, image } = facts.encoders;
  page.text.disabled = !text;
  page.pick.hidden = !image;
  page.text.maxLength = facts.limits.max_text_chars;
  [page.text.placeholder, page.hint.textContent] = hintsOf(facts);
  page.text.title = text ? "" : page.hint.textContent;
  page["map-toggle"].hidden = facts.n_items < 3;
  const modes = facts.modes ?? [];
  page.mode.hidden = !text || modes.length < 2;
  page.mode.replaceChildren(...modes.map((name) => make("option", { value: name === modes[0] ? "" : name }, t(`mode.${name}`))));
}

function drawQuery() {
  if (page.text.value.trim() !== query.text.trim()) page.text.value = query.text;
  fillParts(page, query, items, ask);
  page.balance.hidden = !isMixed(query);
  const other = query.pictures.length ? "image" : "item";
  page.other.textContent = t(`balance.${other}`);
  page.weight.value = query.weight;
  page.weight.setAttribute("aria-valuetext", t(`balance.${other}Value`, { text: percent(1 - query.weight / 100), other: percent(query.weight / 100) }));
  page.mode.value = query.mode;
  page.order.value = query.order;
  page.order.options[0].textContent = t(asks(query) ? "order.best" : "order.added");
  page["map-toggle"].ariaPressed = String(query.view === "map");
  page["map-box"].hidden = query.view !== "map";
  document.title = asks(query) ? `${titleOf(query, items)} · ${facts?.name ?? "acqh"}` : facts?.name ?? "acqh";
  fillLabels(page, query, labels, ask);
}

function draw(found) {
  answer = found && arranged(found);
  explained = 0;
  hits = (answer ?? start).hits;
  for (const hit of hits) items.set(hit.id, hit);
  document.body.classList.toggle("start", !found || !asks(query));
  document.body.classList.toggle("mapped", query.view === "map");
  drawExamples(!found);
  fillGrid(page.hits, hits, (hit) => addressOf({ ...query, open: hit.id }));
  drawEmpty(found);
  page.more.hidden = !found || found.hits.length < k || k >= facts.limits.max_k;
  page.order.hidden = !dateColumnOf(hits) && !query.order;
  page.how.hidden = !found?.hits.length || !asks(query);
  map.mark(found ? hits.map(({ id }) => id) : []);
  drawPanel();
  drawDetail();
  const summary = found && summaryOf(query, items, found);
  const verdict = hits.length && asks(query) ? verdictOf(hits) : "";
  page.verdict.textContent = verdict;
  page.summary.textContent = summary ?? (hits.length ? t("results.start") : "");
  const first = hits.length ? t("results.firstIs", { name: nameOf(hits[0], hits[0].id, 0) }) : "";
  if (found) announce([summary, verdict, first].filter(Boolean).join(". "));
  if (found && found.n_items !== facts.n_items) checkCollection();
  loadIfNear(0); // if the results do not fill the window
}

/** Fold copies, and put the hits of a search into the chosen order. */
function arranged(found) {
  const places = new Map(found.hits.map((hit, at) => [hit.id, at]));
  const hits = ordered(folded(found.hits));
  const explained = hits.map(({ id }) => found.explanation?.hits[places.get(id)]);
  return { ...found, hits, explanation: found.explanation && { ...found.explanation, hits: explained } };
}

/** Hits of a search in the chosen order; the server sorts items that are only listed. */
function ordered(found) {
  const column = query.order && asks(query) && dateColumnOf(found);
  if (!column) return found;
  return sortedBy(found, ({ fields }) => fields[column] ?? null, query.order === "new");
}

function drawExamples(areShown) {
  page.examples.hidden = !areShown || !start.phrases.length || page.text.disabled;
  if (page.examples.hidden) return;
  const chips = start.phrases.map((phrase) => {
    const button = make("button", { type: "button", className: "chip" }, phrase);
    button.addEventListener("click", () => ask({ text: phrase }));
    return button;
  });
  page.examples.replaceChildren(make("span", { className: "lead", ariaHidden: "true" }, t("examples.lead")), ...chips);
}

function drawEmpty(found) {
  page.empty.hidden = hits.length > 0;
  if (hits.length) return;
  const [title, detail] = whyEmpty(query, found, facts);
  page.empty.replaceChildren(make("p", { className: "title" }, title), make("p", {}, detail));
  if (query.labels.length) {
    const clear = make("button", { type: "button" }, t("filter.clear"));
    clear.addEventListener("click", () => ask({ labels: [] }));
    page.empty.append(clear);
  }
}

function drawPanel() {
  const isShown = !page.how.hidden && page.how.open;
  for (const link of page.hits.querySelectorAll("a")) {
    link.classList.toggle("explained", isShown && Number(link.dataset.position) === explained);
  }
  if (!isShown) return;
  fillPanel(page["how-body"], answer, explained, (position) => {
    explained = position;
    drawPanel();
  });
}

/** Have screen readers read a text. */
function announce(text) {
  later("announce", SPEAKING_PAUSE, () => {
    page.status.textContent = text;
  });
}

// --- one item, and the map ---------------------------------------------------------------------

function drawDetail() {
  const item = query.open !== null && items.get(query.open);
  if (!item) {
    if (page.detail.open) page.detail.close();
    return;
  }
  const at = hits.findIndex(({ id }) => id === query.open);
  fillDetail(page, at < 0 ? item : hits[at], at, hits.length, asks(query));
}

/** Open an item, or none. */
async function open(id, isNew = true) {
  query = { ...query, open: id };
  writeAddress(query, isNew);
  if (id !== null && !items.has(id)) items.set(id, await api.item(id).catch(() => null));
  drawDetail();
}

/** Search for more like an item, without the text and images of the last query. */
function askLike(id) {
  ask({ text: "", pictures: [], items: [id], unlike: query.unlike.filter((other) => other !== id) });
  window.scrollTo({ top: 0 });
}

addDetail(page, {
  close: () => {
    if (query.open === null) return;
    const id = query.open;
    open(null);
    [...page.hits.querySelectorAll("a")].find((link) => link.dataset.id === id)?.focus();
  },
  step: (by) => {
    const at = hits.findIndex(({ id }) => id === query.open) + by;
    if (at >= 0 && at < hits.length) open(hits[at].id, false);
  },
  like: () => askLike(query.open),
  unlike: () => ask({ unlike: [...new Set([...query.unlike, query.open])], items: query.items.filter((id) => id !== query.open) }),
  label: (name) => ask({ ...nothing(), labels: [name] }),
});

const map = new CollectionMap(page, (id) => open(id), (label) => ask({ labels: [...new Set([...query.labels, label])] }));

async function showMap(signal) {
  const state = `${facts.generation} ${facts.revision}`;
  if (mapped === state) return;
  map.wait(t("map.wait", { n: facts.n_items }));
  try {
    const { points, n_items } = await api.map(signal);
    mapped = state;
    map.show(points, n_items);
  } catch (error) {
    if (error.name !== "AbortError") map.wait(t("map.failed"));
    throw error;
  }
}

// --- errors ---------------------------------------------------------------------------

function showError(error, again) {
  if (error.status === undefined) throw error; // a bug: let the console show it
  page.token.hidden = error.status !== 401;
  page.error.hidden = error.status === 401;
  page["error-title"].textContent = error.title;
  page["error-detail"].textContent = error.message;
  page["error-detail"].lang = error.lang ?? language;
  const retry = error.retryAfter === null ? "" : t("error.retryIn", { n: error.retryAfter });
  page["error-retry"].textContent = retry;
  page.again.hidden = !retry;
  document.body.classList.toggle("failing", !page.error.hidden);
  if (error.status === 401) {
    page["token-why"].textContent = t(api.hasToken() ? "token.wrong" : "token.needed");
    page["token-text"].focus();
  }
  if (retry) later("retry", 1000 * error.retryAfter, again);
}

function hideError() {
  page.error.hidden = page.token.hidden = true;
  document.body.classList.remove("failing");
}

// --- events ----------------------------------------------------------------------------

async function addImages(files) {
  if (!files.length) return;
  try {
    if (!facts) await loadFacts();
    if (!facts.encoders.image) throw new ResponseError(422, t("error.noImageSearch"));
    const more = await picturesFrom(files, facts.limits.max_body_bytes);
    ask({ pictures: withPictures(query, more) });
  } catch (error) {
    const unreadable = new ResponseError(422, t("error.noImage"), t("error.noImageHow", { name: files[0].name }));
    showError(error.status === undefined ? unreadable : error, search);
  }
}

page.text.addEventListener("input", () => ask({ text: page.text.value }, { isNew: !isTyping, pause: TYPING_PAUSE }));
page.query.addEventListener("submit", (event) => {
  event.preventDefault();
  isTyping = false; // further typing is another query
  search();
});
page.weight.addEventListener("input", () => {
  const wasTyping = isTyping;
  ask({ weight: Number(page.weight.value) }, { isNew: false, pause: TYPING_PAUSE });
  isTyping = wasTyping;
});
page.mode.addEventListener("change", () => ask({ mode: page.mode.value }));
page.order.addEventListener("change", () => ask({ order: page.order.value }));
page["map-toggle"].addEventListener("click", () => ask({ view: query.view ? "" : "map" }));
for (const row of [page.examples, page.labels]) hintMore(row);
addFiles(addImages, page.drop, page.pick, page.file);
page["more-labels"].addEventListener("change", ({ target }) => {
  if (target.value) ask({ labels: [...query.labels, target.value] });
});
function more() {
  k = Math.min(k + PAGE, facts.limits.max_k);
  isTyping = false;
  search();
}
page.more.addEventListener("click", more);
function loadIfNear(pixels) {
  const left = document.documentElement.scrollHeight - window.scrollY - window.innerHeight;
  if (left <= pixels && !page.more.hidden) more();
}
window.addEventListener("scroll", () => page.results.ariaBusy || loadIfNear(NEAR_END), { passive: true });
page.home.addEventListener("click", (event) => {
  if (isPlain(event)) {
    event.preventDefault();
    ask(nothing());
  }
});
page.hits.addEventListener("click", (event) => {
  const like = event.target.closest("button.like");
  const link = event.target.closest("a");
  if (like) askLike(like.dataset.id);
  if (!link || !isPlain(event)) return;
  event.preventDefault();
  open(link.dataset.id);
});
for (const kind of ["pointerover", "focusin"]) {
  page.hits.addEventListener(kind, (event) => {
    const position = Number(event.target.closest("a")?.dataset.position ?? -1);
    if (position < 0 || !answer) return;
    later("hover", kind === "focusin" ? 0 : HOVER_PAUSE, () => {
      explained = Math.min(position, hits.length - 1);
      drawPanel();
    });
  });
}
page.hits.addEventListener("pointerleave", () => clearTimeout(timers.hover));
addKeys(page.hits, () => page.text.focus());
page.how.addEventListener("toggle", () => {
  if (page.how.open && answer && !answer.explanation) search();
  else drawPanel();
});
page.again.addEventListener("click", search);
page.token.addEventListener("submit", (event) => {
  event.preventDefault();
  api.keepToken(page["token-text"].value.trim());
  page["token-text"].value = "";
  search();
});

function isPlain(event) {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

document.addEventListener("keydown", (event) => {
  const isInField = event.target.matches("input, select, textarea");
  if (page.detail.open || event.altKey || event.ctrlKey || event.metaKey) return;
  const card = event.target.closest?.("#hits a");
  if (event.key === "/" && !isInField) {
    event.preventDefault();
    page.text.focus();
    page.text.select();
  } else if (event.key === "m" && card) {
    askLike(card.dataset.id);
  } else if (event.key === "l" && card && asks(query)) {
    ask({ unlike: [...new Set([...query.unlike, card.dataset.id])] });
  } else if (event.key === "Escape" && event.target === page.text) {
    event.preventDefault();
    if (asks(query)) ask({ ...nothing(), labels: query.labels, view: query.view });
  } else if (event.key === "Escape") {
    page.text.focus();
  } else if (event.key === "ArrowDown" && event.target === page.text) {
    event.preventDefault();
    page.hits.querySelector("a")?.focus();
  }
});
function showAddress() {
  const before = query;
  query = readAddress();
  k = Math.max(PAGE, before.open !== query.open ? k : PAGE);
  isTyping = false;
  drawQuery();
  search();
}

window.addEventListener("popstate", showAddress);
document.addEventListener("visibilitychange", checkCollection);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPanel);
setInterval(checkCollection, CHECK_EVERY);
showAddress();
