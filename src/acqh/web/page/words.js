// All texts of the web interface but those of index.html.

import { count, milliseconds, several, signed, size } from "./dom.js";
import { asks } from "./query.js";

const LONGEST = 40;
const UNWANTED = /^(-("[^"]*"|\S+)\s*)+$/; // words to leave out, and no others
const DATES = /^(date|datetime|taken|created|time|timestamp|year)/i;

/** Texts by their use; functions have gaps to fill. */
export const texts = {
  modes: { auto: "Words and content", words: "Words only", meaning: "Content only" },
  orderOf: (asks) => (asks ? "Best first" : "As added"),
  placeholderOf: (hasImages) => (hasImages ? "Words or a picture" : "Words"),
  other: { picture: "Picture", item: "Item" },
  balanceOf: (weight, other) => `${100 - weight} per cent words, ${weight} per cent ${other}`,
  examples: "Try",
  start: "Or start from one of these",
  firstOf: (name) => `First: ${name}`,
  searchAll: "Search all items",
  like: "More like this",
  moreLike: (name) => `More like ${name}`,
  partOf: (name, kind) => `${kind === "items" ? "like" : "not like"} ${name}`,
  forget: (name) => `Take “${name}” out of the query`,
  moreLabels: (n) => `${several(n, "more label")} …`,
  copies: (n) => `${n} copies`,
  opens: (name) => `${name}: open`,
  noCaption: "No caption",
  foundBy: (why, match) => `Found ${why}, ${match}`,
  whyOf: (why) => `by ${why.join(", ")}`,
  rebuilt: "The collection was built again.",
  factsOf: ({ code_bytes, n_items, size_on_disk, drift }) =>
    `${several(n_items, "item")}, ${several(code_bytes, "byte")} of code each, ${size(size_on_disk)} on disk${drift?.retraining_recommended ? "; retraining is recommended" : ""}`,

  mapWaits: (n) => `Arranging ${several(n, "item")}, those that are alike near each other …`,
  mapFails: "The map could not be drawn.",
  mapEmpty: "There is nothing to put on a map.",
  mapMore: (n) => `${n} more`,
  mapHint: (n, n_items) =>
    "Alike lies near each other. Turn the wheel or pinch to come nearer, press to open." +
    (n < n_items ? ` ${count(n)} of ${count(n_items)} items.` : ""),

  noService: ["The service does not answer.", "Is it still running?"],
  noSite: ["The site does not answer.", "A file of it could not be fetched."],
  noItem: "The site has no such item.",
  titleOf: (status) =>
    ({ 401: "A token is needed.", 404: "It is not there.", 413: "That is too large.", 429: "The service is busy.", 503: "The service is busy." })[status] ??
    (status < 500 ? "That cannot be searched for." : "Something failed."),
  retryIn: (seconds) => ` Asking again in ${seconds} s.`,
  tokenOf: (isWrong) => (isWrong ? "That is not the token." : "A token guards this collection."),
  noPicture: (name) => ["That is not a picture.", `“${name}” is not one that this browser can read.`],

  same: "It shows the very image that was given.",
  allWords: "It has every word of the query in its caption, its name or its labels: that is certain.",
  someWords: "It has some of the words, not all.",
  someWordsAnd: "It has some of the words, and ",
  nearer: "it is nearer to the query than anything would be if there were nothing of the kind here: it stands out.",
  nearBoth: "it is near the query: with both it stands out.",
  nearest: "it is among the nearest, but a query for something that is not here finds hits as near: it does not stand out.",
  worthOf: (words) =>
    words >= 1 ? `${words >= 2 ? "it is called so" : "all are there"}, worth ${words.toFixed(2)}` : words ? "some are there, at half their worth" : "none is there",
  levelOf: (near, level) => (level ? `nearness ${signed(near)}; ${signed(level)} makes 50 %` : signed(near)),
  sumOf: (words, sum) => (words >= 1 ? `the sum, ${sum.toFixed(2)}, gives its place` : "the sum"),
  tally: { words: "Words", image: "Image", same: "the same", content: "Content", tile: "On the tile" },
  tallyCaption: "What the number on the tile is made of",
  previous: "Explain the hit before",
  next: "Explain the next hit",
  vector: "The query becomes a vector",
  vectorOf: (n) => `${n} numbers, in one space for words and pictures.`,
  vectorName: (n, most) => `The query as ${n} numbers between ${signed(-most, 2)} and ${signed(most, 2)}`,
  tables: "A hit’s bytes point into tables",
  tablesOf: (n, size) =>
    `One table for each of ${n} codebooks: how well the query goes with each of its ${size} words. Each byte of the hit names a word; their entries add up.`,
  tableHead: ["table", "byte", "adds", ""],
  tableTotal: "together",
  tableCaption: "How near the hit is by content",
  figuresOf: (n, n_candidates, times, bytes, bytes_per_item) => [
    [count(n), `codes looked at, of ${several(n_candidates, "item")}`],
    [milliseconds(times.search), `to search, ${milliseconds(times.total)} in all`],
    [`${bytes} bytes`, `a code, ${bytes_per_item.toFixed(1)} an item in memory`],
  ],
};

/** What to call an item: the first words of its text, up to a comma or the like, or its name. */
export function nameOf(item, id) {
  const unnamed = item?.thumbnail ? "this picture" : id;
  const name = (item?.text ?? "").split(/[,;.:(]\s/)[0].trim() || item?.name || unnamed;
  return name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
}

/** A text of any length, short enough for a button. */
export function shortOf(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** What an item says, or else the words in its file's name: hashes and counters are no caption. */
export function captionOf(item) {
  return item.text || item.name;
}

/** Whether a hit stands out of what queries about something absent get. */
export function isConfident({ match }) {
  return match > 0.5;
}

/** How far a hit stands out, in a word. */
export function matchOf({ match }) {
  return match === 1 ? "certain" : percent(match);
}

/** A share as people write it; what is not certain is not 100 %. */
export function percent(share) {
  return `${share < 1 ? Math.min(99, Math.round(100 * share)) : 100} %`;
}

/** What the hits are worth, where that must be said. */
export function verdictOf(hits) {
  const n = hits.filter(isConfident).length;
  if (!n) return "Nothing stands out; the nearest are:";
  if (n === hits.length) return "";
  return `${n === 1 ? "One hit stands" : `${n} hits stand`} out; the faded ones are merely the nearest.`;
}

/** The column that says when, among those of some items; null where there is none. */
export function dateColumnOf(items) {
  for (const { columns } of items) {
    for (const name of Object.keys(columns)) if (DATES.test(name) && columns[name] !== null) return name;
  }
  return null;
}

/** The query in a few words; `items` are those seen, by id. */
export function titleOf(query, items) {
  const names = (ids) => ids.map((id) => nameOf(items.get(id), id)).join(" and ");
  const parts = [query.text.trim(), ...query.pictures.map(({ name }) => name)];
  if (query.items.length) parts.push(`more like ${names(query.items)}`);
  const less = query.unlike.length ? `, less like ${names(query.unlike)}` : "";
  return parts.filter(Boolean).join(" + ") + less;
}

/** The answer in a line. */
export function summaryOf(query, items, { hits, n_candidates }) {
  if (!hits.length) return "Nothing found";
  const own = new Set([...query.items, ...query.unlike]).size; // an item is not like itself
  const isAll = hits.length + own >= n_candidates;
  const some = asks(query) ? "Best" : "First";
  const best = isAll ? several(hits.length, "item") : `${some} ${hits.length} of ${several(n_candidates, "item")}`;
  const where = query.labels.length ? ` with ${query.labels.map(shortOf).join(" and ")}` : "";
  return `${best}${where}${asks(query) ? ` for ${titleOf(query, items)}` : ""}`;
}

/** Why there is nothing to see, and what to do, as two sentences; `answer` is null at the start. */
export function whyEmpty(query, answer, facts) {
  if (!facts.n_items) {
    return ["The collection is empty.", "Add items with acqh add, or build it again."];
  }
  if (!answer) return ["Nothing is asked for yet.", waysOf(facts)];
  if (query.labels.length && (!answer.n_candidates || !asks(query))) {
    const both = query.labels.length > 1 ? "No item has all of these labels." : "No item has this label.";
    if (!asks(query) || !query.text.trim()) return [both, query.labels.map(shortOf).join(", ")];
  }
  const words = shortOf(query.text.trim() || query.labels.join(", "));
  if (UNWANTED.test(query.text.trim())) {
    const example = `Type what to look for as well, such as “park ${words}”.`;
    return [`“${words}” only says what to leave out.`, example];
  }
  return [`Nothing in this collection says “${words}”.`, "None of these words occurs in its texts. Try others, or a picture."];
}

/** Why words cannot be searched for; empty where they can. */
export function whyNoWords(facts) {
  const { text, image } = facts.encoders;
  if (text) return "";
  return image
    ? "No words here: the items have no texts. Drop, paste or choose a picture"
    : "No words here: the collection was built from features. Open an item to find more like it";
}

function waysOf({ encoders: { text, image } }) {
  const ways = [text && "type words", image && "drop, paste or choose a picture"].filter(Boolean).join(", or ");
  if (!ways) return "The collection was built from features: open an item to find more like it.";
  return `${ways[0].toUpperCase()}${ways.slice(1)}.`;
}
