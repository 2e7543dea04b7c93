// What the start page shows: a few items and phrases from all over the collection.

import { search } from "./api.js";
import { wordsOf } from "./query.js";

const LABELS = 12;
const ITEMS_EACH = 2;
const PHRASES = 6;

/** Find some items of labels from the most frequent to the rarest. */
export async function findStart(labels, signal) {
  const names = spread(labels, LABELS).map(({ name }) => name);
  const ask = (name) => search({ text: wordsOf(name), where: { label: name }, k: ITEMS_EACH }, null, signal).catch(passOver);
  const rows = (await Promise.all(names.map(ask))).map(({ hits }) => hits);
  const found = new Map();
  for (let turn = 0; turn < ITEMS_EACH; turn += 1) {
    for (const row of rows) if (row[turn]) found.set(row[turn].id, row[turn]);
  }
  const answered = names.filter((_, index) => rows[index].length).map(wordsOf);
  return { hits: [...found.values()], phrases: spread(answered, PHRASES) };
}

/** A label that cannot be asked for is left out; anything else that goes wrong is told. */
function passOver(error) {
  if (error.status !== 422) throw error;
  return { hits: [] };
}

/** Some of many, evenly spaced. */
function spread(many, n) {
  if (many.length <= n) return many;
  return Array.from({ length: n }, (_, index) => many[Math.floor(((index + 0.5) * many.length) / n)]);
}
