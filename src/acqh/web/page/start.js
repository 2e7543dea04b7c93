// Items and phrases from all over the collection, for a start without a query.

import { browse } from "./api.js";
import { folded } from "./grid.js";
import { nameOf } from "./messages.js";

const LABELS = 12;
const ITEMS_EACH = 2;
const PHRASES = 6;

/** Find some items of labels from the most frequent to the rarest, or the first items. */
export async function findStart(labels, signal) {
  const queries = labels.length
    ? spread(labels, LABELS).map(({ name }) => ({ where: { label: name }, k: ITEMS_EACH }))
    : [{ k: LABELS * ITEMS_EACH }];
  const load = (query) => browse(query, signal).catch(skip);
  const rows = (await Promise.all(queries.map(load))).map(({ hits }) => hits);
  const items = new Map();
  for (let turn = 0; turn < LABELS * ITEMS_EACH; turn += 1) {
    for (const row of rows) if (row[turn]) items.set(row[turn].id, row[turn]);
  }
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
