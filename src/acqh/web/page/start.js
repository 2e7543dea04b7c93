// Items and phrases for a start without a query.

import { browse } from "./api.js";
import { folded } from "./grid.js";
import { nameOf } from "./messages.js";

const LABELS = 12;
const ITEMS_EACH = 2;
const PHRASES = 6;
const ITEMS = 24;

/** Find the first items; if most items have labels, some of labels from the most frequent to the rarest first. */
export async function findStart(labels, n_items, signal) {
  const n_labels = labels.reduce((sum, { count }) => sum + count, 0);
  const chosen = n_labels < n_items / 2 ? [] : spread(labels, LABELS);
  const queries = [...chosen.map(({ name }) => ({ where: { label: name }, k: ITEMS_EACH })), { k: ITEMS }];
  const load = (query) => browse(query, signal).catch(skip);
  const rows = (await Promise.all(queries.map(load))).map(({ hits }) => hits);
  const others = rows.pop();
  const items = new Map();
  for (let turn = 0; turn < ITEMS_EACH; turn += 1) {
    for (const row of rows) if (row[turn]) items.set(row[turn].id, row[turn]);
  }
  for (const item of others) if (items.size < ITEMS) items.set(item.id, item);
  const hits = folded([...items.values()]);
  const names = new Set(hits.filter(({ text }) => text).map((hit) => nameOf(hit, "")));
  return { hits, phrases: spread([...names].filter((name) => !name.endsWith("…")), PHRASES) };
}

/** Skip a label that the server rejects; throw other errors. */
function skip(error) {
  if (error.status !== 422) throw error;
  return { hits: [] };
}

/** Some of many, evenly spaced. */
function spread(many, n) {
  if (many.length <= n) return many;
  return Array.from({ length: n }, (_, index) => many[Math.floor(((index + 0.5) * many.length) / n)]);
}
