// Files of the site, each fetched once.

import { HOME } from "./dom.js";

const kept = new Map();

/** The bytes of a file. */
export function fetchBytes(path) {
  return fetched(path, (response) => response.arrayBuffer());
}

/** What a JSON file says. */
export function fetchJson(path) {
  return fetched(path, (response) => response.json());
}

/** A failed fetch is not kept, so that it can be tried again. */
function fetched(path, read) {
  if (!kept.has(path)) {
    const made = fetch(new URL(path, HOME)).then((response) => {
      if (!response.ok) throw new TypeError(`${path}: ${response.status}`); // as what does not arrive at all
      return read(response);
    });
    made.catch(() => kept.delete(path));
    kept.set(path, made);
  }
  return kept.get(path);
}
