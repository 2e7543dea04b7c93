// The results: tiles in rows of equal height, headings of months, and the keys that move among them.

import { breakable, make } from "./dom.js";
import { previewOf, showPicture, thumbnailOf } from "./api.js";
import { day, monthHeadings, t } from "./language.js";
import { captionOf, confidenceOf, dateOf, isConfident, isFaded, nameOf, reasonsOf, titleOfItem } from "./messages.js";

// Smaller pictures than this are drawings, shown with a margin.
const SMALL = 96;
// Milliseconds after which tiles that are still shown get sharper pictures: not at every letter typed.
const PAUSE = 300;

/** Width and height of pictures by id, so that a tile that comes back has its shape at once. */
const sizes = new Map();

/**
 * Fill the grid; hits that are shown already keep their elements, so nothing flickers.
 *
 * @param {HTMLElement} list
 * @param {object[]} hits
 * @param {(hit: object) => string} addressOf
 * @param {boolean} byMonth whether months, or several with few hits, get headings
 */
export function fillGrid(list, hits, addressOf, byMonth) {
  const shown = new Map([...list.children].map((element) => [element.dataset.key, element]));
  const elements = [];
  const starts = new Map();
  let at = 0;
  for (const [name, n] of byMonth ? monthHeadings(hits.map(dateOf)) : []) {
    starts.set(at, name || t("results.undated"));
    at += n;
  }
  hits.forEach((hit, index) => {
    if (index && starts.has(index)) elements.push(make("li", { className: "filler", role: "presentation" }));
    if (starts.has(index)) elements.push(heading(starts.get(index)));
    const key = JSON.stringify([hit.id, hit.text, hit.labels, hit.copies, hit.fields.favourite]);
    const element = shown.get(key) ?? card(hit, key, index);
    update(element, hit, index, addressOf(hit));
    elements.push(element);
  });
  const focused = list.contains(document.activeElement) && document.activeElement;
  list.replaceChildren(...elements);
  if (focused) (list.contains(focused) ? focused : list.querySelector("a"))?.focus();
}

function heading(name) {
  return make("li", { className: "month" }, make("h2", {}, name));
}

/** Make one hit of the copies of a file; it names the others. A site says which items are the same. */
export function folded(hits) {
  const copies = new Map();
  for (const hit of hits) {
    const digest = hit.fields.sha256 ?? hit.same ?? hit.id;
    if (copies.has(digest)) copies.get(digest).push(hit);
    else copies.set(digest, [hit]);
  }
  return [...copies.values()].map((same) => {
    const first = original(same);
    return { ...first, copies: same.filter((hit) => hit !== first).map(({ file }) => file ?? "") };
  });
}

/** Of copies that match equally well, the one with the shortest name: programs add words to names of copies. */
function original([first, ...others]) {
  const lengthOf = ({ file }) => (file ?? "").split("/").at(-1).length;
  const isBetter = (one, other) => other.match === one.match && lengthOf(other) < lengthOf(one);
  return others.reduce((one, other) => (isBetter(one, other) ? other : one), first);
}

function card(hit, key, index) {
  const element = make("li", { className: "tile" });
  const words = make("span", { className: "words" }, ...breakable(captionOf(hit)));
  const names = make("span", { className: "names" }, [day(dateOf(hit)), ...hit.labels].filter(Boolean).join(" · "));
  const meter = make("span", { className: "meter" }, make("i"));
  const found = make("span", { className: "found" }, make("span", { className: "match" }), " ", make("span", { className: "why" }));
  const parts = [frame(hit, index, (size) => shape(element, size)), meter, words, names, found];
  if (hit.fields.favourite === true) parts[0].append(make("span", { className: "star", ariaHidden: "true" }, "★"));
  const like = make("button", { type: "button", className: "like", tabIndex: -1 }, t("tile.like"));
  element.append(make("a", { className: "card" }, ...parts), like);
  element.dataset.key = key;
  shape(element, sizes.get(hit.id));
  return element;
}

/** Give a tile the shape of its picture. */
function shape(element, size) {
  if (!size) return;
  element.classList.toggle("small", Math.max(...size) <= SMALL);
  element.style.setProperty("--ratio", size[0] / size[1]);
}

function update(element, hit, index, address) {
  const [link, like] = element.children;
  link.href = address;
  link.tabIndex = index === 0 ? 0 : -1;
  like.dataset.id = link.dataset.id = hit.id;
  link.dataset.position = index;
  const name = titleOfItem(hit, index);
  link.title = [hit.text, hit.file, hit.labels.join(", ")].filter(Boolean).join("\n");
  link.classList.toggle("weak", !isConfident(hit));
  link.classList.toggle("faint", isFaded(hit));
  link.classList.toggle("listed", hit.why?.join() === "date");
  link.querySelector(".meter i").style.width = `${100 * hit.match}%`;
  link.querySelector(".match").textContent = confidenceOf(hit);
  link.querySelector(".why").textContent = reasonsOf(hit);
  const favourite = hit.fields.favourite === true && t("edit.favourite");
  const reasons = [confidenceOf(hit), reasonsOf(hit)].filter(Boolean).join(", ");
  const video = hit.kind === "video" && t("tile.video");
  link.setAttribute("aria-label", [name, video, favourite, day(dateOf(hit)), ...hit.labels, reasons].filter(Boolean).join(", "));
  like.setAttribute("aria-label", t("tile.likeNamed", { name }));
}

function frame(hit, index, onSize) {
  const box = make("span", { className: "frame" });
  const missing = () => {
    box.classList.add("missing");
    box.replaceChildren(nameOf(hit, hit.id, index).trim().slice(0, 1).toUpperCase());
    onSize([1, 1]);
  };
  if (!hit.thumbnail) {
    missing();
    return box;
  }
  const image = picture();
  image.addEventListener("error", missing);
  image.addEventListener("load", () => {
    const size = [image.naturalWidth, image.naturalHeight];
    sizes.set(hit.id, size);
    onSize(size);
    if (hit.kind !== "video") setTimeout(sharpen, PAUSE, image, previewOf(hit));
  });
  showPicture(image, thumbnailOf(hit));
  box.append(image);
  if (hit.kind === "video") box.append(make("span", { className: "play", title: t("tile.video") }));
  if (hit.copies.length) box.append(make("span", { className: "copies" }, t("tile.copies", { n: hit.copies.length + 1 })));
  return box;
}

function picture() {
  return make("img", { alt: "", draggable: false, decoding: "async" });
}

/** Replace a thumbnail that is shown enlarged by a larger picture of the original, if that can be read. */
function sharpen(image, address) {
  const isEnlarged = image.clientWidth * devicePixelRatio > image.naturalWidth;
  if (!address || !image.isConnected || !isEnlarged) return;
  const sharp = picture();
  sharp.addEventListener("load", () => image.replaceWith(sharp));
  showPicture(sharp, address);
}

/** Move among the hits with the arrow keys, Home and End; `leave` is called above the first row. */
export function addKeys(list, leave) {
  let column = null; // where moves up and down began, in pixels
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: links.length - 1 };
    const turns = { ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in steps || event.key in turns)) return;
    event.preventDefault();
    if (event.key in steps) {
      column = null;
      links[Math.max(0, Math.min(steps[event.key], links.length - 1))].focus();
      return;
    }
    column ??= middleOf(links[at]);
    const to = below(links, at, turns[event.key], column);
    if (to === null && event.key === "ArrowUp") leave();
    else (to ?? links.at(-1)).focus();
  });
  list.addEventListener("focusin", ({ target }) => {
    if (!target.matches("a")) return;
    for (const link of list.querySelectorAll("a")) link.tabIndex = link === target ? 0 : -1;
  });
  list.addEventListener("focusout", ({ relatedTarget }) => {
    if (!list.contains(relatedTarget)) column = null;
  });
}

/** The link nearest to a column in the next row down (1) or up (-1), or null. */
function below(links, at, turn, column) {
  const topOf = (link) => link.getBoundingClientRect().top;
  const others = (turn > 0 ? links.slice(at + 1) : links.slice(0, at).reverse()).map((link) => [link, topOf(link)]);
  const next = others.find(([, top]) => turn * (top - topOf(links[at])) > 1);
  if (!next) return null;
  const row = others.filter(([, top]) => Math.abs(top - next[1]) <= 1).map(([link]) => link);
  return row.reduce((one, other) => (away(other, column) < away(one, column) ? other : one));
}

function middleOf(link) {
  const { left, right } = link.getBoundingClientRect();
  return (left + right) / 2;
}

function away(link, column) {
  return Math.abs(middleOf(link) - column);
}
