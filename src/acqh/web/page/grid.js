// The grid of results: tiles, and the keys that move among them.

import { breakable, make } from "./dom.js";
import { showPicture, thumbnailOf } from "./api.js";
import { t } from "./language.js";
import { captionOf, confidenceOf, isConfident, nameOf, reasonsOf, titleOfItem } from "./messages.js";

// Smaller pictures than this are drawings and shown whole; larger ones fill their card.
const SMALL = 96;

/** Fill the grid; hits that are shown already keep their elements, so nothing flickers. */
export function fillGrid(list, hits, addressOf) {
  const shown = new Map([...list.children].map((element) => [element.dataset.key, element]));
  const cards = hits.map((hit, index) => {
    const key = JSON.stringify([hit.id, hit.text, hit.labels, hit.copies]);
    const element = shown.get(key) ?? card(hit, key, index);
    update(element, hit, index, addressOf(hit));
    return element;
  });
  const focused = list.contains(document.activeElement) && document.activeElement;
  list.replaceChildren(...cards);
  if (focused) (list.contains(focused) ? focused : cards[0]?.firstChild)?.focus();
}

/** Make one hit of the copies of a file; it names the others. */
export function folded(hits) {
  const first = new Map();
  for (const hit of hits) {
    const digest = hit.fields.sha256 ?? hit.id;
    if (first.has(digest)) first.get(digest).copies.push(hit.file ?? hit.id);
    else first.set(digest, { ...hit, copies: [] });
  }
  return [...first.values()];
}

function card(hit, key, index) {
  const words = make("span", { className: "words" }, ...breakable(captionOf(hit)));
  const names = make("span", { className: "names" }, hit.labels.join(" · "));
  const meter = make("span", { className: "meter" }, make("i"));
  const parts = [frame(hit, index), meter, words, names, make("span", { className: "why" }), make("span", { className: "match" })];
  const like = make("button", { type: "button", className: "like", tabIndex: -1 }, t("tile.like"));
  const element = make("li", {}, make("a", { className: "card" }, ...parts), like);
  element.dataset.key = key;
  return element;
}

function update(element, hit, index, address) {
  const [link, like] = element.children;
  link.href = address;
  link.tabIndex = index === 0 ? 0 : -1;
  like.dataset.id = link.dataset.id = hit.id;
  link.dataset.position = index;
  const name = titleOfItem(hit, index);
  link.title = [hit.text, hit.file, hit.labels.join(", ")].filter(Boolean).join("\n");
  link.classList.toggle("faint", !isConfident(hit));
  link.querySelector(".meter i").style.width = `${100 * hit.match}%`;
  link.querySelector(".match").textContent = confidenceOf(hit);
  link.querySelector(".why").textContent = reasonsOf(hit);
  const reasons = reasonsOf(hit) && `${confidenceOf(hit)}, ${reasonsOf(hit)}`;
  link.setAttribute("aria-label", [name, ...hit.labels, reasons].filter(Boolean).join(", "));
  like.setAttribute("aria-label", t("tile.likeNamed", { name }));
}

function frame(hit, index) {
  const box = make("span", { className: "frame" });
  const missing = () => {
    box.classList.add("missing");
    box.replaceChildren(nameOf(hit, hit.id, index).trim().slice(0, 1).toUpperCase());
  };
  if (!hit.thumbnail) {
    missing();
    return box;
  }
  const image = make("img", { alt: "", draggable: false, decoding: "async" });
  image.addEventListener("error", missing);
  image.addEventListener("load", () => {
    box.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) <= SMALL);
  });
  showPicture(image, thumbnailOf(hit));
  box.append(image);
  if (hit.copies.length) box.append(make("span", { className: "copies" }, t("tile.copies", { n: hit.copies.length + 1 })));
  return box;
}

/** Move among the hits with the arrow keys, Home and End; `leave` is called above the first row. */
export function addKeys(list, leave) {
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(links), ArrowDown: columns(links) };
    let to = at + (steps[event.key] ?? 0);
    if (event.key === "Home") to = 0;
    else if (event.key === "End") to = links.length - 1;
    else if (!(event.key in steps)) return;
    event.preventDefault();
    if (to < 0 && event.key === "ArrowUp") leave();
    else links[Math.max(0, Math.min(to, links.length - 1))].focus();
  });
  list.addEventListener("focusin", ({ target }) => {
    if (!target.matches("a")) return;
    for (const link of list.querySelectorAll("a")) link.tabIndex = link === target ? 0 : -1;
  });
}

function columns(links) {
  const topOf = (link) => link.getBoundingClientRect().top;
  const top = topOf(links[0]);
  const beyond = links.findIndex((link) => Math.abs(topOf(link) - top) > 1);
  return beyond < 0 ? links.length : beyond;
}
