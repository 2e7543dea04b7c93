// The page: takes what people do, asks the service, shows what it says.

import * as api from "./api.js";
import { count, make, several } from "./dom.js";
import { addFiles } from "./files.js";
import { addKeys, fillGrid } from "./grid.js";
import { fillPanel } from "./panel.js";
import { addressOf, asks, bodyOf, isMixed, nothing, pictureFrom, readAddress, wordsOf, writeAddress } from "./query.js";
import { findStart } from "./start.js";
import { nameOf, summaryOf, titleOf, whyEmpty } from "./words.js";

const PAGE = 24; // hits at first, and more with each "Show more"
const TYPING_PAUSE = 140; // milliseconds without a key before a search
const HOVER_PAUSE = 90; // so that the panel stays while the mouse crosses other hits
const SPEAKING_PAUSE = 700; // so that a screen reader is not interrupted by each key
const LOOK_EVERY = 15_000; // milliseconds between looks whether the collection was built anew
const LABEL_CHIPS = 7; // the others are in a list

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((each) => [each.id, each]));

let query = nothing();
let facts = null; // of the collection, from /stats
let labels = [];
let answer = null;
let explained = 0; // position of the hit in the panel
let k = PAGE;
let isTyping = false; // whether the newest history entry is a text being typed
let underway = null; // AbortController of the search whose answer is awaited
let start = null; // what the start page shows, once it is known
const items = new Map(); // items seen, to name them in the query
const timers = {};

function later(name, milliseconds, work) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(work, milliseconds);
}

// --- asking ------------------------------------------------------------------------------------

/** Change the query; `anew` says whether the back button should come back to the one before. */
function ask(changes, { anew = true, pause = 0 } = {}) {
  query = { ...query, ...changes };
  k = PAGE;
  isTyping = pause > 0;
  writeAddress(query, anew);
  drawQuery();
  if (pause) {
    later("search", pause, search);
  } else {
    search();
  }
}

async function search() {
  clearTimeout(timers.search);
  clearTimeout(timers.retry);
  underway?.abort();
  const mine = (underway = new AbortController());
  page.results.setAttribute("aria-busy", "true");
  try {
    const found = await find(mine.signal);
    if (mine !== underway) return;
    hideProblem();
    draw(found);
  } catch (error) {
    if (mine !== underway || error.name === "AbortError") return;
    showProblem(error, search);
  } finally {
    if (mine === underway) page.results.removeAttribute("aria-busy");
  }
}

/** Return the answer to the query, or null for the start page. */
async function find(signal) {
  if (!facts) await learn();
  if (query.item && !items.has(query.item)) {
    items.set(query.item, await api.item(query.item, signal));
    drawQuery();
  }
  let asked = query;
  if (!asks(query)) {
    const { text } = facts.encoders;
    if (!query.labels.length || !text) {
      start ??= text ? await findStart(labels, signal) : { hits: [], phrases: [] };
      return null;
    }
    // A label alone: its items, those first that its name describes best.
    asked = { ...query, text: query.labels.map(wordsOf).join(" ") };
  }
  return api.search(bodyOf(asked, k, page.how.open), query.picture?.blob, signal);
}

/** Learn what the collection is. */
async function learn() {
  [facts, labels] = await Promise.all([api.stats(), api.labels()]);
  start = null;
  drawFacts();
  drawQuery();
}

/** See whether the collection was changed or built anew. */
async function look() {
  if (document.hidden || !facts) return;
  let now;
  try {
    now = await api.stats();
  } catch {
    return; // the next search will say what is wrong
  }
  const isAnew = now.generation !== facts.generation;
  if (!isAnew && now.change === facts.change) return;
  await learn().catch(() => {});
  if (!isAnew) return;
  items.clear();
  const known = new Set(labels.map(({ name }) => name));
  say("The collection was built anew.");
  ask({ labels: query.labels.filter((name) => known.has(name)) }, { anew: false });
}

// --- showing -----------------------------------------------------------------------------------

function drawFacts() {
  const bytes = several(facts.code_bytes, "byte");
  page.facts.textContent = `${several(facts.n_items, "item")}, ${bytes} each`;
  const { text, image } = facts.encoders;
  page.text.disabled = !text;
  page.pick.hidden = !image;
  page.text.maxLength = facts.limits.max_text_chars;
  page.text.placeholder = [text && "Words", image && "a picture"].filter(Boolean).join(" or ");
}

function drawQuery() {
  if (page.text.value.trim() !== query.text.trim()) page.text.value = query.text;
  const item = query.item && (items.get(query.item) ?? { text: query.item });
  page.given.hidden = !item && !query.picture;
  if (query.picture) {
    page["given-picture"].src = query.picture.address;
    page["given-name"].textContent = query.picture.name;
  } else if (item) {
    if (item.thumbnail) api.showPicture(page["given-picture"], item.thumbnail);
    page["given-name"].textContent = `like ${nameOf(item, query.item)}`;
  }
  page["given-picture"].hidden = Boolean(item && !item.thumbnail);
  page.balance.hidden = !isMixed(query);
  page.other.textContent = query.item ? "Item" : "Picture";
  page.weight.value = query.weight;
  const words = `${100 - query.weight} per cent words, ${query.weight} per cent ${query.item ? "item" : "picture"}`;
  page.weight.setAttribute("aria-valuetext", words);
  document.title = asks(query) ? `${titleOf(query, item)} · acqh` : "acqh";
  drawLabels();
}

function drawLabels() {
  page.filter.hidden = !labels.length;
  const others = labels.filter(({ name }) => !query.labels.includes(name));
  const chips = [
    ...query.labels.map((name) => chip(name, true)),
    ...others.slice(0, LABEL_CHIPS).map(({ name }) => chip(name, false)),
  ];
  const rest = others.slice(LABEL_CHIPS);
  const select = page["more-labels"];
  const focused = page.filter.contains(document.activeElement) && document.activeElement;
  const wanted = focused === select ? query.labels.at(-1) : focused && focused.value;
  select.hidden = !rest.length;
  select.replaceChildren(
    make("option", { value: "" }, `${several(rest.length, "more label")} …`),
    ...rest.map(({ name, count: n }) => make("option", { value: name }, `${name} (${count(n)})`)),
  );
  page.labels.replaceChildren(...chips, select);
  if (focused) chips.find(({ value }) => value === wanted)?.focus();
}

function chip(name, isOn) {
  const button = make("button", { type: "button", className: "chip", value: name, ariaPressed: String(isOn) }, name);
  button.addEventListener("click", () => {
    const rest = query.labels.filter((each) => each !== name);
    ask({ labels: isOn ? rest : [...rest, name] });
  });
  return button;
}

function draw(found) {
  answer = found;
  explained = 0;
  const hits = found ? found.hits : start.hits;
  for (const hit of hits) items.set(hit.id, hit);
  document.body.classList.toggle("start", !found);
  drawExamples(!found);
  fillGrid(page.hits, hits, (hit) => addressOf({ ...nothing(), item: hit.id, labels: query.labels }));
  drawEmpty(found, hits);
  page.more.hidden = !found || hits.length < k || k >= facts.limits.max_k;
  page.how.hidden = !found?.hits.length;
  drawPanel();
  const summary = found && summaryOf(query, items.get(query.item), found);
  page.summary.textContent = summary ?? (hits.length ? "Or start from one of these" : "");
  if (found) say(`${summary}${hits.length ? `. First: ${hits[0].text || hits[0].id}` : ""}`);
  if (found && found.n_items !== facts.n_items) look();
}

function drawExamples(areShown) {
  page.examples.hidden = !areShown || !start.phrases.length;
  if (page.examples.hidden) return;
  const chips = start.phrases.map((phrase) => {
    const button = make("button", { type: "button", className: "chip" }, phrase);
    button.addEventListener("click", () => ask({ text: phrase }));
    return button;
  });
  page.examples.replaceChildren(make("span", { className: "lead", ariaHidden: "true" }, "Try"), ...chips);
}

function drawEmpty(found, hits) {
  page.empty.hidden = hits.length > 0;
  if (hits.length) return;
  const [title, detail] = whyEmpty(query, found, facts);
  page.empty.replaceChildren(make("p", { className: "title" }, title), make("p", {}, detail));
  if (query.labels.length) {
    const clear = make("button", { type: "button" }, "Search all items");
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

function say(text) {
  later("say", SPEAKING_PAUSE, () => {
    page.said.textContent = text;
  });
}

// --- what goes wrong ---------------------------------------------------------------------------

function showProblem(problem, again) {
  if (problem.status === undefined) throw problem; // a mistake of ours: let the console show it
  page.token.hidden = problem.status !== 401;
  page.problem.hidden = problem.status === 401;
  page["problem-title"].textContent = problem.title;
  const soon = problem.retryAfter === null ? "" : ` Asking again in ${problem.retryAfter} s.`;
  page["problem-detail"].textContent = problem.message + soon;
  page.again.hidden = !soon;
  document.body.classList.toggle("failing", !page.problem.hidden);
  if (problem.status === 401) {
    page["token-why"].textContent = api.hasToken() ? "That is not the token." : "A token guards this collection.";
    page["token-text"].focus();
  }
  if (soon) later("retry", 1000 * problem.retryAfter, again);
}

function hideProblem() {
  page.problem.hidden = page.token.hidden = true;
  document.body.classList.remove("failing");
}

// --- what people do ----------------------------------------------------------------------------

async function take(files) {
  const file = files.find(({ type }) => type.startsWith("image/")) ?? files[0];
  if (!file) return;
  try {
    if (!facts) await learn();
    const picture = await pictureFrom(file, facts.limits.max_body_bytes);
    ask({ picture, item: null });
  } catch (error) {
    const detail = `“${file.name}” is not one that this browser can read.`;
    showProblem(error.status === undefined ? new api.Problem(422, "That is no picture.", detail) : error, search);
  }
}

page.text.addEventListener("input", () => ask({ text: page.text.value }, { anew: !isTyping, pause: TYPING_PAUSE }));
page.query.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
  isTyping = false; // what is typed from now on is another query
});
page.weight.addEventListener("input", () => {
  const wasTyping = isTyping;
  ask({ weight: Number(page.weight.value) }, { anew: false, pause: TYPING_PAUSE });
  isTyping = wasTyping;
});
addFiles(take, page.drop, page.pick, page.file);
page.forget.addEventListener("click", () => {
  page.text.focus();
  ask({ picture: null, item: null });
});
page["more-labels"].addEventListener("change", ({ target }) => {
  if (target.value) ask({ labels: [...query.labels, target.value] });
});
page.more.addEventListener("click", () => {
  k = Math.min(k + PAGE, facts.limits.max_k);
  search();
});
page.home.addEventListener("click", (event) => {
  if (isPlain(event)) {
    event.preventDefault();
    ask(nothing());
  }
});
page.hits.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || !isPlain(event)) return;
  event.preventDefault();
  ask({ text: "", picture: null, item: link.dataset.id });
  window.scrollTo({ top: 0 });
});
for (const kind of ["pointerover", "focusin"]) {
  page.hits.addEventListener(kind, (event) => {
    const position = Number(event.target.closest("a")?.dataset.position ?? -1);
    if (position < 0 || !answer) return;
    later("hover", kind === "focusin" ? 0 : HOVER_PAUSE, () => {
      explained = Math.min(position, answer.hits.length - 1);
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
  if (event.key === "/" && !isInField) {
    event.preventDefault();
    page.text.focus();
    page.text.select();
  } else if (event.key === "Escape" && event.target === page.text) {
    event.preventDefault();
    if (asks(query)) ask({ ...nothing(), labels: query.labels });
  } else if (event.key === "Escape") {
    page.text.focus();
  } else if (event.key === "ArrowDown" && event.target === page.text) {
    event.preventDefault();
    page.hits.querySelector("a")?.focus();
  }
});
function showAddress() {
  query = readAddress();
  k = PAGE;
  isTyping = false;
  drawQuery();
  search();
}

window.addEventListener("popstate", showAddress);
document.addEventListener("visibilitychange", look);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPanel);
setInterval(look, LOOK_EVERY);
page.how.open = matchMedia("(min-width: 64rem)").matches;
showAddress();
