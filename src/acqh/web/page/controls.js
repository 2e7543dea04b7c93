// The images, items and labels of a query.

import { showPicture, thumbnailOf } from "./api.js";
import { make } from "./dom.js";
import { t } from "./language.js";
import { nameOf, shortOf } from "./messages.js";
import { asks } from "./query.js";

const LABEL_CHIPS = 7; // the others are in a menu

/** Show the images and items of a query, each with a button that removes it. */
export function fillParts(page, query, items, ask) {
  const without = (name, value) => ({ [name]: query[name].filter((other) => other !== value) });
  const remove = (changes) => {
    page.text.focus();
    // Items to avoid are no query by themselves.
    ask(asks({ ...query, ...changes }) ? changes : { ...changes, unlike: [] });
  };
  const parts = [
    ...query.pictures.map((picture) => part(picture.name, picture.address, "", () => remove(without("pictures", picture)))),
    ...["items", "unlike"].flatMap((name) =>
      query[name].map((id) => {
        const item = items.get(id) ?? { id, text: "" };
        const title = t(name === "items" ? "search.like" : "search.unlike", { name: nameOf(item, id) });
        return part(title, thumbnailOf(item), name, () => remove(without(name, id)));
      })),
  ];
  page.parts.hidden = !parts.length;
  page.parts.replaceChildren(...parts);
}

function part(name, address, kind, remove) {
  const button = make("button", { type: "button", className: "remove", ariaLabel: t("search.remove", { name }) }, "✕");
  button.addEventListener("click", remove);
  const element = make("li", { className: `part ${kind}`, title: name }, make("span", { className: "part-name" }, name), button);
  if (address) {
    const image = make("img", { alt: "", draggable: false });
    showPicture(image, address);
    element.prepend(image);
  }
  return element;
}

/** Show the labels: those chosen, the most frequent others, and the rest in a list. */
export function fillLabels(page, query, labels, ask) {
  page.filter.hidden = !labels.length;
  const others = labels.filter(({ name }) => !query.labels.includes(name));
  const toggle = (name, isOn) => {
    const rest = query.labels.filter((other) => other !== name);
    ask({ labels: isOn ? rest : [...rest, name] });
  };
  const chips = [
    ...query.labels.map((name) => chip(name, true, toggle)),
    ...others.slice(0, LABEL_CHIPS).map(({ name }) => chip(name, false, toggle)),
  ];
  const rest = others.slice(LABEL_CHIPS);
  const select = page["more-labels"];
  const focused = page.filter.contains(document.activeElement) && document.activeElement;
  const target = focused === select ? query.labels.at(-1) : focused && focused.value;
  select.hidden = !rest.length;
  select.replaceChildren(
    make("option", { value: "" }, t("filter.more", { n: rest.length })),
    ...rest.map(({ name, count: n }) => make("option", { value: name }, t("filter.option", { name: shortOf(name), n }))),
  );
  page.labels.replaceChildren(...chips, select);
  if (focused) chips.find(({ value }) => value === target)?.focus();
}

/** Fade the end of a row of chips that can be scrolled. */
export function hintMore(row) {
  const update = () => row.classList.toggle("goes-on", row.scrollWidth - row.clientWidth - row.scrollLeft > 4);
  row.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(row);
  new MutationObserver(update).observe(row, { childList: true });
}

function chip(name, isOn, toggle) {
  const properties = { type: "button", className: "chip", value: name, title: name, ariaPressed: String(isOn) };
  const button = make("button", properties, shortOf(name));
  button.addEventListener("click", () => toggle(name, isOn));
  return button;
}
