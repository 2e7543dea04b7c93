// The web interface: handles events, queries the server and shows the answers.

import * as api from "./api.js";
import { fillFlags, fillParts, fillLabels, fillTimeline, hintMore } from "./controls.js";
import { addDetail, fillDetail } from "./detail.js";
import { make, sortedBy } from "./dom.js";
import { addEdit, closeEdit, openEdit } from "./edit.js";
import { addFiles } from "./files.js";
import { ResponseError } from "./errors.js";
import { addKeys, fillGrid, folded } from "./grid.js";
import { language, percent, t, translatePage } from "./language.js";
import { CollectionMap } from "./map.js";
import { dateColumnOf, dateOf, factsOf, hintsOf, nameOf, notesOf, summaryOf, titleOf, verdictOf, whyEmpty } from "./messages.js";
import { fillPanel } from "./panel.js";
import { addressOf, asks, bodyOf, browseOf, isMixed, isStart, nothing, picturesFrom, readAddress, whereOf, withPictures, writeAddress } from "./query.js";
import { findStart } from "./start.js";

const PAGE = 24; // hits at first, and more with each "Show more"
const TYPING_PAUSE = 140; // milliseconds without a key before a search
const EMPTY_PAUSE = 900; // without a key before an empty answer is shown
const HOVER_PAUSE = 90; // so that the panel stays while the mouse crosses other hits
const UNDO_PAUSE = 10_000; // milliseconds in which a change can be undone
const SPEAKING_PAUSE = 700; // so that a screen reader is not interrupted by each key
const CHECK_EVERY = 15_000; // milliseconds between checks whether the collection was rebuilt
const NEAR_END = 600; // pixels above the end at which more results are loaded

translatePage(document);
const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));

let query = nothing();
let facts = null; // about the collection, from /info
let facets = { labels: [], tags: [], kinds: [], months: [] }; // with their counts
let answer = null;
let latest = null; // as the server sent it
let hits = []; // as they are shown
const removed = new Set(); // ids of items that are removed, or will be soon
let explained = 0; // position of the hit in the panel
let isExplaining = false; // whether the panel is wanted
let k = PAGE;
let isTyping = false; // whether the newest history entry is a text being typed
let pending = null; // AbortController of the last search
let start = null; // items and phrases without a query
let dateColumn = null; // the field with the date of items
let mapped = null; // state of the collection that the map shows
let pendingRemoval = null; // id of the item that is removed once that can no longer be undone
let undo = null; // the work that undoes the last change
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
    return api.search(bodyOf(query, k, isExplaining), blobs, signal);
  }
  await loadStart(signal); // also which columns there are
  if (!isStart(query) || dateColumn) return api.browse(browseOf(query, k, dateColumn), signal);
  return null;
}

/** Load the items and phrases that are shown without a query. */
async function loadStart(signal) {
  if (start) return;
  start = await findStart(facets.labels, facts.n_items, signal);
  dateColumn = dateColumnOf(start.hits);
  if (facts.examples.length) start.phrases = facts.examples;
  for (const hit of start.hits) items.set(hit.id, hit);
}

/** Load facts about the collection. */
async function loadFacts() {
  [facts, facets] = await Promise.all([api.info(), api.facets()]);
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
  const names = new Set(facets.labels.map(({ name }) => name));
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
  // Without a query, items are sorted by date if they have one.
  page.order.hidden = !dateColumn;
  page.order.options[0].hidden = !asks(query);
  page.order.value = query.order || (asks(query) ? "" : "new");
  page["map-toggle"].ariaPressed = String(query.view === "map");
  page["map-box"].hidden = query.view !== "map";
  document.title = asks(query) ? `${titleOf(query, items)} · ${facts?.name ?? "acqh"}` : facts?.name ?? "acqh";
  fillFlags(page, query, facts?.flags, facets.kinds, asks(query) ? latest?.filters ?? [] : [], ask);
  fillLabels(page, query, facets.labels, ask);
}

function draw(found) {
  latest = found;
  answer = found && arranged(found);
  explained = 0;
  hits = answer?.hits ?? start.hits.filter(isShown);
  for (const hit of hits) items.set(hit.id, hit);
  document.body.classList.toggle("start", !found || !asks(query));
  document.body.classList.toggle("mapped", query.view === "map");
  drawExamples(isStart(query));
  drawQuery(); // with the filters of the answer
  fillTimeline(page, query, facets.months, isByDate() && !asks(query), ask);
  fillGrid(page.hits, hits, (hit) => addressOf({ ...query, open: hit.id }), isByDate());
  drawEmpty(found);
  page.more.hidden = !found || found.hits.length < k || k >= facts.limits.max_k;
  dateColumn ??= dateColumnOf(hits);
  page.order.hidden = !dateColumn;
  page["how-toggle"].hidden = !found?.hits.length || !asks(query);
  page.mode.hidden = !asks(query) || page.mode.length < 2 || page.text.disabled;
  map.mark(found && (asks(query) || whereOf(query)) ? hits.map(({ id }) => id) : []);
  drawPanel();
  drawDetail();
  const summary = found && summaryOf(query, items, found);
  // Of an item alone, the most similar ones are wanted, however similar they are.
  const isJudged = hits.length > 0 && Boolean(query.text.trim() || query.pictures.length);
  const verdict = [found && notesOf(found, facts), isJudged && verdictOf(hits)].filter(Boolean).join(" ");
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
  const hits = ordered(folded(found.hits.filter(isShown)));
  const explained = hits.map(({ id }) => found.explanation?.hits[places.get(id)]);
  return { ...found, hits, explanation: found.explanation && { ...found.explanation, hits: explained } };
}

/** Whether an item is neither removed nor, unless hidden ones are wanted, hidden. */
function isShown({ id, fields }) {
  return !removed.has(id) && (fields.hidden !== true || query.only === "hidden");
}

/** Hits of a search in the chosen order; the server sorts items that are only listed. */
function ordered(found) {
  return query.order && asks(query) ? sortedBy(found, dateOf, query.order === "new") : found;
}

/** Whether the hits are sorted by date. */
function isByDate() {
  return dateColumn !== null && Boolean(query.order || !asks(query));
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
  const addButton = (name, changes) => {
    const button = make("button", { type: "button" }, t(name));
    button.addEventListener("click", () => ask(changes));
    page.empty.append(button);
  };
  const [date] = found?.filters ?? [];
  if (date) addButton("empty.withoutDates", { text: query.text.replace(date.text, "").replace(/\s+/g, " ").trim() });
  if (whereOf(query)) addButton("filter.clear", { labels: [], only: "", kind: "", tag: "", period: "" });
}

function drawPanel() {
  const isShown = isExplaining && !page["how-toggle"].hidden;
  page["how-toggle"].ariaPressed = String(isShown);
  page.how.hidden = !isShown;
  for (const link of page.hits.querySelectorAll("a")) {
    link.classList.toggle("explained", isShown && Number(link.dataset.position) === explained);
  }
  if (!isShown) return;
  fillPanel(page.how, answer, explained, (position) => {
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
  page.favourite.hidden = !facts.writable;
  page.favourite.ariaPressed = String(item.fields.favourite === true);
  page["edit-toggle"].hidden = !facts.writable || !page.edit.hidden;
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
    closeEdit(page);
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
  tag: (tag) => ask({ ...nothing(), tag }),
});

// --- changes ------------------------------------------------------------------------------------

/** Change the open item, and offer to undo it. */
async function change(changes, done) {
  const before = items.get(query.open);
  const fields = Object.fromEntries(Object.keys(changes.fields ?? {}).map((name) => [name, before.fields[name] ?? null]));
  const { text, labels } = before;
  if (await annotate(before.id, changes)) offerUndo(t(done), () => annotate(before.id, { text, labels, fields }));
}

/** Change an item; returns whether the server did. */
async function annotate(id, changes) {
  try {
    const item = await api.annotate(id, changes);
    items.set(id, { ...items.get(id), ...item });
    for (const { hits: all } of [latest, start].filter(Boolean)) {
      const at = all.findIndex((hit) => hit.id === id);
      if (at >= 0) all[at] = { ...all[at], ...item };
    }
    closeEdit(page);
    draw(latest);
    [facts, facets] = await Promise.all([api.info(), api.facets()]);
    drawQuery();
    return true;
  } catch (error) {
    refused(error);
    return false;
  }
}

/** Remove the open item once it can no longer be undone. */
function remove() {
  const id = query.open;
  finishRemoving();
  removed.add(id);
  pendingRemoval = id;
  open(null);
  draw(latest);
  offerUndo(t("edit.removed"), () => {
    pendingRemoval = null;
    removed.delete(id);
    draw(latest);
  });
}

function finishRemoving() {
  const id = pendingRemoval;
  pendingRemoval = null;
  if (id === null) return;
  api.remove(id).catch((error) => {
    removed.delete(id);
    refused(error);
  });
}

function offerUndo(text, work) {
  (page.detail.open ? page.detail : document.body).append(page.toast); // others cannot be clicked
  page["toast-text"].textContent = text;
  page.toast.hidden = false;
  undo = work;
  later("toast", UNDO_PAUSE, hideToast);
}

function hideToast() {
  page.toast.hidden = true;
  undo = null;
  finishRemoving();
}

/** Show why a change failed; ask for the token that permits it. */
function refused(error) {
  page.detail.close();
  showError(error, search);
  if (error.status === 401) page["token-why"].textContent = t("token.write");
}

addEdit(page, {
  open: () => {
    if (api.hasToken()) openEdit(page, items.get(query.open), facets.labels);
    else refused(new ResponseError(401, ""));
  },
  save: (changes) => change(changes, "edit.saved"),
  hide: () => {
    const isHidden = items.get(query.open).fields.hidden === true;
    change({ fields: { hidden: isHidden ? null : true } }, isHidden ? "edit.shown" : "edit.hidden");
  },
  remove,
});
page.favourite.addEventListener("click", () => {
  const isMarked = items.get(query.open).fields.favourite === true;
  change({ fields: { favourite: isMarked ? null : true } }, isMarked ? "edit.unmarked" : "edit.marked");
});
page.undo.addEventListener("click", () => {
  const work = undo;
  page.toast.hidden = true;
  undo = null;
  clearTimeout(timers.toast);
  work?.();
});
window.addEventListener("pagehide", finishRemoving);

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
    if (!facts.encoders.image) throw new ResponseError(422, t("error.noImageSearch"), t("error.noImageSearchHow"));
    const more = await picturesFrom(files, facts.limits.max_body_bytes);
    ask({ pictures: withPictures(query, more) });
  } catch (error) {
    const unreadable = new ResponseError(422, t("error.noImage"), t("error.noImageHow", { name: files[0].name }));
    showError(error.status === undefined ? unreadable : error, search);
  }
}

page.text.addEventListener("input", () => ask({ text: page.text.value, dates: "" }, { isNew: !isTyping, pause: TYPING_PAUSE }));
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
page.kind.addEventListener("change", () => ask({ kind: page.kind.value }));
page.order.addEventListener("change", () => ask({ order: page.order.value }));
page["map-toggle"].addEventListener("click", () => ask({ view: query.view ? "" : "map" }));
for (const row of [page.controls, page.examples, page.labels, page.timeline]) hintMore(row);
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
page["how-toggle"].addEventListener("click", () => {
  isExplaining = !isExplaining;
  if (isExplaining && answer && !answer.explanation) search();
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

/** Keep the token of a link such as `#token=...`, and hide it. */
function readToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  api.keepToken(token);
  writeAddress(readAddress(), false);
}

window.addEventListener("popstate", showAddress);
window.addEventListener("hashchange", readToken);
document.addEventListener("visibilitychange", checkCollection);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPanel);
setInterval(checkCollection, CHECK_EVERY);
readToken();
showAddress();
