// What the page says about a query and its answer.

import { several } from "./dom.js";
import { asks } from "./query.js";

const LONGEST = 40;

/** What to call an item: the first words of its text, up to a comma or the like. */
export function nameOf(item, id) {
  const name = (item?.text ?? "").split(/[,;.:(]\s/)[0].trim() || id;
  return name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
}

/** The query in a few words; `item` is the one it asks for more of, if any. */
export function titleOf(query, item) {
  const like = query.item ? `more like ${nameOf(item, query.item)}` : query.picture?.name;
  return [query.text.trim(), like].filter(Boolean).join(" + ");
}

/** The answer in a line. */
export function summaryOf(query, item, { hits, n_candidates }) {
  if (!hits.length) return "Nothing found";
  const isAll = hits.length + (query.item ? 1 : 0) >= n_candidates; // an item is not like itself
  const best = isAll ? several(hits.length, "item") : `Best ${hits.length} of ${several(n_candidates, "item")}`;
  const where = query.labels.length ? ` with ${query.labels.join(" and ")}` : "";
  return `${best}${where}${asks(query) ? ` for ${titleOf(query, item)}` : ""}`;
}

/** Why there is nothing to see, and what to do, as two sentences; `answer` is null at the start. */
export function whyEmpty(query, answer, facts) {
  if (!facts.n_items) {
    return ["The collection is empty.", "Add items with acqh add, or build it anew."];
  }
  if (!answer) {
    const { text, image } = facts.encoders;
    if (!text && !image) {
      return ["This collection was built from features.", "It can be searched by item: add ?item=ID to the address."];
    }
    const ways = [text && "type words", image && "drop, paste or choose a picture"].filter(Boolean).join(", or ");
    return ["Nothing is asked for yet.", `${ways[0].toUpperCase()}${ways.slice(1)}.`];
  }
  if (query.labels.length && !answer.n_candidates) {
    return ["No item has all of these labels.", query.labels.join(", ")];
  }
  const words = query.text.trim() || query.labels.join(", ");
  return [`Nothing in this collection says “${words}”.`, "None of these words occurs in its texts. Try others, or a picture."];
}
