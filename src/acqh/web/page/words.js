// What the page says about a query and its answer.

import { several } from "./dom.js";
import { asks } from "./query.js";

const LONGEST = 40;
const UNWANTED = /^(-("[^"]*"|\S+)\s*)+$/; // words to leave out, and no others
const DATES = /^(date|datetime|taken|created|time|timestamp|year)/i;

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
export function standsOut({ match }) {
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
  const n = hits.filter(standsOut).length;
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
