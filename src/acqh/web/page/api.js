// Requests to the server.

import { HOME, showBlob } from "./dom.js";
import { ResponseError, titleOf } from "./errors.js";
import { t } from "./language.js";

const TOKEN = "acqh-token";

/** The address of an item's small image, or null where it has none; any id fits. */
export function thumbnailOf({ id, thumbnail }) {
  return thumbnail && at(`item/thumbnail?id=${encodeURIComponent(id)}`);
}

/** The address of an item's image as it was, or null where it is not served. */
export function originalOf({ id, original }) {
  return original && at(`item/original?id=${encodeURIComponent(id)}`);
}

/** The address of an item's image in the size of a tile, or null where the original is not served. */
export function previewOf({ id, original }) {
  return original && at(`item/preview?id=${encodeURIComponent(id)}`);
}

function at(path) {
  return new URL(path, HOME).href;
}

/** Keep a token for as long as this tab is open. */
export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

/** Whether a token is kept, right or wrong. */
export function hasToken() {
  return Boolean(sessionStorage.getItem(TOKEN));
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function request(path, options = {}) {
  let response;
  try {
    const all = { ...headers(), ...options.headers };
    response = await fetch(path, { ...options, headers: all });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ResponseError(0, t("error.noServer"), t("error.noServerHow"), 3);
  }
  if (response.ok) return response;
  throw await errorOf(response);
}

async function errorOf(response) {
  const body = await response.json().catch(() => ({}));
  const wait = Number(response.headers.get("Retry-After")) || 1;
  const { status } = response;
  const isBusy = status === 429 || status === 503;
  const detail = sentence(isBusy ? body.detail : body.detail ?? body.title);
  return Object.assign(new ResponseError(status, titleOf(status), detail, isBusy ? wait : null), { lang: "en" });
}

function sentence(text) {
  if (!text) return "";
  const trimmed = text.trim();
  return trimmed[0].toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

/** Facts about the collection and the server. */
export async function info() {
  return (await request(at("info"))).json();
}

/** All labels, suggested tags, kinds and months with their counts. */
export async function facets() {
  return (await request(at("labels"))).json();
}

/** One item. */
export async function item(id, signal) {
  return (await request(at(`item?id=${encodeURIComponent(id)}`), { signal })).json();
}

/** Where items lie on a plane. */
export async function map(signal) {
  return (await request(at("map"), { signal })).json();
}

/** Items without a query. */
export async function browse(query, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await request(at("browse"), { method: "POST", body: JSON.stringify(query), headers, signal })).json();
}

/** Search; `pictures` are Blobs, and go as they are, in a form. */
export async function search(query, pictures, signal) {
  const options = { method: "POST", signal };
  if (pictures.length) {
    options.body = new FormData();
    options.body.append("query", JSON.stringify(query));
    for (const picture of pictures) options.body.append("image", picture, "picture");
  } else {
    options.body = JSON.stringify(query);
    options.headers = { "Content-Type": "application/json" };
  }
  return (await request(at(pictures.length ? "search/images" : "search"), options)).json();
}

/** Set the text, labels or fields of an item; returns the item. */
export async function annotate(id, changes) {
  const options = { method: "PATCH", body: JSON.stringify(changes), headers: { "Content-Type": "application/json" } };
  return (await request(at(`item?id=${encodeURIComponent(id)}`), options)).json();
}

/** Remove an item, also while the page is being left. */
export async function remove(id) {
  await request(at(`item?id=${encodeURIComponent(id)}`), { method: "DELETE", keepalive: true });
}

/** Open a picture that needs a token in a tab of its own. */
export async function openPicture(address) {
  window.open(URL.createObjectURL(await (await request(address)).blob()), "_blank", "noopener");
}

/**
 * Show a small picture. An <img> cannot send a token, so with one the picture is fetched here and
 * the image gets an address of its own.
 */
export async function showPicture(image, address) {
  if (!hasToken() || address.startsWith("blob:")) image.src = address;
  else await showBlob(image, request(address).then((response) => response.blob()));
}
