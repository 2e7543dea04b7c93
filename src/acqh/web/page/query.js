// The query: kept in the address, so it can be shared and the back button works.

import { HOME } from "./dom.js";
import { t } from "./language.js";

const EVEN = 50;
// Formats that the server reads; other and large images are converted to JPEG.
const ACCEPTED = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"];
const DRAWN_SIDE = 1024;
const LONG = 500_000; // bytes
const MOST_PICTURES = 8; // per query, as on the server

/** Marks that people give items: boolean fields. */
export const FLAGS = ["favourite", "hidden"];
export const KINDS = ["photo", "screenshot", "document", "drawing", "video"];

/** Images by number; the history holds the numbers, as an address cannot hold images. */
const pictures = [];

/** An empty query. */
export function nothing() {
  return { text: "", items: [], unlike: [], pictures: [], labels: [], only: "", kind: "", tag: "", period: "", dates: "", weight: EVEN, mode: "", order: "", view: "", open: null };
}

/** Whether there is a query, filters aside. */
export function asks(query) {
  return Boolean(query.text.trim() || query.items.length || query.pictures.length);
}

/** Whether the start page is shown: no query and no filter. */
export function isStart(query) {
  return !asks(query) && !whereOf(query);
}

/** Whether the text is weighted against images or items. */
export function isMixed(query) {
  return Boolean(query.text.trim() && (query.items.length || query.pictures.length));
}

/** The address of a query. */
export function addressOf(query) {
  const fields = new URLSearchParams();
  const lists = { item: query.items, unlike: query.unlike, label: query.labels };
  if (query.text.trim()) fields.set("q", query.text.trim());
  for (const [name, values] of Object.entries(lists)) for (const value of values) fields.append(name, value);
  if (isMixed(query) && query.weight !== EVEN) fields.set("weight", query.weight);
  for (const name of ["only", "kind", "tag", "period", "dates", "mode", "order", "view"]) if (query[name]) fields.set(name, query[name]);
  if (query.open !== null) fields.set("open", query.open);
  const text = fields.toString();
  return text ? `${HOME.pathname}?${text}` : HOME.pathname;
}

/** The query of the address that the browser shows. */
export function readAddress() {
  const fields = new URLSearchParams(location.search);
  const weight = Number(fields.get("weight") ?? EVEN);
  const all = (name) => [...new Set(fields.getAll(name))];
  return {
    text: fields.get("q") ?? "",
    items: all("item"),
    unlike: all("unlike"),
    pictures: (history.state?.pictures ?? []).map((number) => pictures[number]).filter(Boolean),
    labels: all("label"),
    weight: weight >= 0 && weight <= 100 ? weight : EVEN,
    only: FLAGS.find((name) => name === fields.get("only")) ?? "",
    kind: KINDS.find((name) => name === fields.get("kind")) ?? "",
    tag: fields.get("tag") ?? "",
    period: /^\d{4}(-\d\d)?$/.exec(fields.get("period"))?.[0] ?? "",
    dates: fields.get("dates") === "words" ? "words" : "",
    mode: fields.get("mode") ?? "",
    order: ["new", "old"].find((name) => name === fields.get("order")) ?? "",
    view: fields.get("view") ?? "",
    open: fields.get("open"),
  };
}

/** Show the address of a query, as a new entry of the history or instead of the last one. */
export function writeAddress(query, isNew) {
  const state = { pictures: query.pictures.map((picture) => pictures.indexOf(picture)) };
  if (isNew) history.pushState(state, "", addressOf(query));
  else history.replaceState(state, "", addressOf(query));
}

/** The query as a request body. */
export function bodyOf(query, k, explain) {
  const body = { k, explain };
  const share = query.weight / 100;
  if (query.text.trim()) body.text = query.text.trim();
  if (query.items.length) body.item = query.items;
  if (query.unlike.length) body.unlike = query.unlike;
  if (isMixed(query)) body.weights = { text: 1 - share, image: share, item: share };
  const where = whereOf(query);
  if (where) body.where = where;
  // Keyword search needs a text alone; with images or items only its vector counts.
  const isText = body.text && !body.item && !body.unlike && !query.pictures.length;
  if (query.dates) body.dates = false; // words of the text that could be a date are searched for
  if (query.mode && (isText || query.mode !== "keyword")) body.mode = query.mode;
  return body;
}

/** The filter of a query, or null. */
export function whereOf(query) {
  const where = {};
  if (query.labels.length) where.label = query.labels;
  if (query.only) where[query.only] = true;
  if (query.kind) where.kind = query.kind;
  if (query.tag) where.tag = query.tag;
  if (query.period) where.date = query.period;
  return Object.keys(where).length ? where : null;
}

/** The request body without a query: the items with some labels, or all. */
export function browseOf(query, k, dateColumn) {
  const where = whereOf(query);
  const body = where ? { k, where } : { k };
  if (dateColumn) Object.assign(body, { order: dateColumn, descending: query.order !== "old" });
  return body;
}

/** Read images from files, at most as many as a query may have; rejects if the browser cannot read one. */
export async function picturesFrom(files, maxBytes) {
  const added = [];
  for (const file of files.slice(0, MOST_PICTURES)) {
    const isSmall = ACCEPTED.includes(file.type) && file.size < Math.min(LONG, (0.9 * maxBytes) / MOST_PICTURES);
    const blob = isSmall ? file : await toJpeg(file);
    added.push({ blob, name: file.name || t("name.image"), address: URL.createObjectURL(blob) });
  }
  pictures.push(...added);
  return added;
}

/** Add images to those of a query; drop the oldest if there are too many. */
export function withPictures(query, more) {
  return [...query.pictures, ...more].slice(-MOST_PICTURES);
}

async function toJpeg(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, DRAWN_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#ffffff"; // behind transparent pixels, as on the server
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
}
