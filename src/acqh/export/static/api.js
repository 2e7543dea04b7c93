// The functions of the server's api.js, answered from files.

import { showBlob } from "./dom.js";
import { fetchBytes, fetchJson } from "./load.js";
import { ResponseError, titleOf } from "./errors.js";
import { t } from "./language.js";
import { Engine, pictureOf } from "./search.js";

const MODES = ["hybrid", "keyword", "semantic"];
const LIMITS = { max_k: 1000, max_text_chars: 2000, max_body_bytes: 0 };

/** A site has no tokens. */
export function keepToken() {}

/** See `keepToken`. */
export function hasToken() {
  return false;
}

let opened = null;

/** The search engine of the site, once its facts are fetched. */
function site() {
  opened ??= fetchJson(document.querySelector('meta[name="acqh-site"]').content).then((facts) => new Engine(facts));
  return opened;
}

/** Answer, and load missing files again next time. */
async function answering(work) {
  try {
    return await work(await site());
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ResponseError) throw error;
    if (!(error instanceof TypeError)) throw error; // a bug
    (await opened?.catch(() => null))?.forget();
    opened = null;
    throw new ResponseError(0, t("error.noSite"), t("error.noSiteHow"), 3);
  }
}

/** Facts about the collection. */
export function info() {
  return answering(({ facts }) => ({
    n_items: facts.codes.n_items,
    name: facts.name,
    is_site: true,
    code_bytes: facts.codes.n_codebooks,
    size_on_disk: facts.n_bytes,
    encoders: { text: facts.text || facts.words ? "table" : null, image: null },
    modes: facts.text ? MODES : [],
    examples: facts.examples,
    limits: LIMITS,
    generation: facts.generation,
    revision: 0,
  }));
}

/** All labels, suggested tags, kinds and months with their counts. */
export function facets() {
  return answering(({ facts }) => ({ labels: facts.labels.all, ...facts.facets }));
}

/** One item. */
export function item(id) {
  return answering(async (engine) => {
    const place = await engine.placeOf(id);
    if (place === null) throw new ResponseError(404, titleOf(404), t("error.noItem"));
    return engine.item(place);
  });
}

/** Where items lie on a plane. */
export function map() {
  return answering(async ({ facts }) => {
    const points = await fetchJson(facts.map);
    return {
      n_items: facts.codes.n_items,
      points: points.map(([image, id, x, y, label, name, tag]) => ({ id, x, y, label, tag, name, thumbnail: pictureOf(image) })),
    };
  });
}

/** Items without a query. */
export function browse(query, signal) {
  return answering((engine) => engine.browse(query, signal));
}

/** Search. */
export function search(query, pictures, signal) {
  return answering((engine) => engine.search(query, signal));
}

/** A site cannot be changed. */
export function annotate() {
  throw new ResponseError(405, titleOf(405));
}

/** See `annotate`. */
export const remove = annotate;

/** The address of an item's small image, or null where it has none. */
export function thumbnailOf({ thumbnail }) {
  return thumbnail || null;
}

/** The address of an item's image as it was, or null where it is not published. */
export function originalOf({ original }) {
  return original ?? null;
}

/** Sites have no images between thumbnails and originals. */
export function previewOf() {
  return null;
}

/** Originals lie elsewhere and need no token. */
export function openPicture(address) {
  window.open(address, "_blank", "noopener");
}

/** Show a picture; small ones lie many in a file. */
export async function showPicture(image, address) {
  const [, number] = /^images:(\d+)$/.exec(address) ?? [];
  if (number === undefined) image.src = address;
  else await showBlob(image, thumbnail(Number(number)));
}

async function thumbnail(number) {
  const { files, per_file: n } = (await site()).facts.images;
  const bytes = await fetchBytes((await fetchJson(files))[Math.floor(number / n)]);
  const [start, end] = new Uint32Array(bytes, 4 * (number % n), 2); // where it begins, and the next one
  return new Blob([bytes.slice(start, end)], { type: "image/webp" });
}
