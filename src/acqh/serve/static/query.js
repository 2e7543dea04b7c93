// What is asked for: kept in the address, so that it can be shared and the back button works.

const EVEN = 50;
// What the service reads; anything else is drawn anew as JPEG, as is what is too long to send.
const TAKEN = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"];
const DRAWN_SIDE = 1024;

/** Pictures cannot be part of an address; the history holds their numbers, this holds them. */
const pictures = [];

/** A query for nothing. */
export function nothing() {
  return { text: "", item: null, picture: null, labels: [], weight: EVEN };
}

/** Whether there is anything to search by, filters aside. */
export function asks(query) {
  return Boolean(query.text.trim() || query.item || query.picture);
}

/** Whether words are weighed against a picture or an item. */
export function isMixed(query) {
  return Boolean(query.text.trim() && (query.item || query.picture));
}

/** The address of a query. */
export function addressOf(query) {
  const fields = new URLSearchParams();
  if (query.text.trim()) fields.set("q", query.text.trim());
  if (query.item) fields.set("item", query.item);
  for (const label of query.labels) fields.append("label", label);
  if (isMixed(query) && query.weight !== EVEN) fields.set("weight", query.weight);
  const text = fields.toString();
  return text ? `/?${text}` : "/";
}

/** The query of the address that the browser shows. */
export function readAddress() {
  const fields = new URLSearchParams(location.search);
  const weight = Number(fields.get("weight") ?? EVEN);
  return {
    text: fields.get("q") ?? "",
    item: fields.get("item"),
    picture: pictures[history.state?.picture] ?? null,
    labels: [...new Set(fields.getAll("label"))],
    weight: weight >= 0 && weight <= 100 ? weight : EVEN,
  };
}

/** Have the browser show the address of a query; as a new entry, or in place of the last one. */
export function writeAddress(query, anew) {
  const state = { picture: query.picture ? pictures.indexOf(query.picture) : null };
  if (anew) history.pushState(state, "", addressOf(query));
  else history.replaceState(state, "", addressOf(query));
}

/** The query as the service takes it. */
export function bodyOf(query, k, explain) {
  const body = { k, explain };
  const share = query.weight / 100;
  const other = query.item ? "item" : "image";
  if (query.text.trim()) body.text = query.text.trim();
  if (query.item) body.item = query.item;
  if (isMixed(query)) body.weights = { text: 1 - share, [other]: share };
  if (query.labels.length) body.where = { label: query.labels };
  return body;
}

/** The words of a label, as somebody would type them. */
export function wordsOf(label) {
  return label.replace(/[_-]+/g, " ");
}

/** Make a picture from a file; rejects where the browser cannot read it. */
export async function pictureFrom(file, maxBytes) {
  const blob = TAKEN.includes(file.type) && file.size < 0.9 * maxBytes ? file : await drawn(file);
  const picture = { blob, name: file.name || "picture", address: URL.createObjectURL(blob) };
  pictures.push(picture);
  return picture;
}

async function drawn(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, DRAWN_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
}
