// Files of the site, each fetched once.

import { HOME } from "./dom.js";

const cache = new Map();

/** The bytes of a file. */
export function fetchBytes(path) {
  return fetched(path, (response) => response.arrayBuffer());
}

/** The value of a JSON file. */
export function fetchJson(path) {
  return fetched(path, (response) => response.json());
}

/** A failed fetch is not kept, so that it can be tried again. */
function fetched(path, read) {
  if (!cache.has(path)) {
    const loading = fetch(new URL(path, HOME)).then((response) => {
      if (!response.ok) throw new TypeError(`${path}: ${response.status}`); // as what does not arrive at all
      return read(response);
    });
    loading.catch(() => cache.delete(path));
    cache.set(path, loading);
  }
  return cache.get(path);
}
