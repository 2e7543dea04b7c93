// What a query is made of, beside its words: pictures, items, labels.

import { showPicture, thumbnailOf } from "./api.js";
import { count, make } from "./dom.js";
import { asks } from "./query.js";
import { nameOf, shortOf, texts } from "./words.js";

const LABEL_CHIPS = 7; // the others are in a list

/** Show the pictures and items of a query, each with a way to take it out. */
export function fillGiven(page, query, items, ask) {
  const without = (name, value) => ({ [name]: query[name].filter((each) => each !== value) });
  const forget = (changes) => {
    page.text.focus();
    // What is not wanted is no query alone.
    ask(asks({ ...query, ...changes }) ? changes : { ...changes, unlike: [] });
  };
  const parts = [
    ...query.pictures.map((each) => part(each.name, each.address, "", () => forget(without("pictures", each)))),
    ...["items", "unlike"].flatMap((name) =>
      query[name].map((id) => {
        const item = items.get(id) ?? { id, text: "" };
        const title = texts.partOf(nameOf(item, id), name);
        return part(title, thumbnailOf(item), name, () => forget(without(name, id)));
      })),
  ];
  page.given.hidden = !parts.length;
  page.given.replaceChildren(...parts);
}

function part(name, address, kind, forget) {
  const button = make("button", { type: "button", className: "forget", ariaLabel: texts.forget(name) }, "✕");
  button.addEventListener("click", forget);
  const element = make("li", { className: `part ${kind}`, title: name }, make("span", { className: "given-name" }, name), button);
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
    const rest = query.labels.filter((each) => each !== name);
    ask({ labels: isOn ? rest : [...rest, name] });
  };
  const chips = [
    ...query.labels.map((name) => chip(name, true, toggle)),
    ...others.slice(0, LABEL_CHIPS).map(({ name }) => chip(name, false, toggle)),
  ];
  const rest = others.slice(LABEL_CHIPS);
  const select = page["more-labels"];
  const focused = page.filter.contains(document.activeElement) && document.activeElement;
  const wanted = focused === select ? query.labels.at(-1) : focused && focused.value;
  select.hidden = !rest.length;
  select.replaceChildren(
    make("option", { value: "" }, texts.moreLabels(rest.length)),
    ...rest.map(({ name, count: n }) => make("option", { value: name }, `${shortOf(name)} (${count(n)})`)),
  );
  page.labels.replaceChildren(...chips, select);
  if (focused) chips.find(({ value }) => value === wanted)?.focus();
}

/** Let a row of chips that goes on beyond its end fade there. */
export function hintMore(row) {
  const look = () => row.classList.toggle("goes-on", row.scrollWidth - row.clientWidth - row.scrollLeft > 4);
  row.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(row);
  new MutationObserver(look).observe(row, { childList: true });
}

function chip(name, isOn, toggle) {
  const properties = { type: "button", className: "chip", value: name, title: name, ariaPressed: String(isOn) };
  const button = make("button", properties, shortOf(name));
  button.addEventListener("click", () => toggle(name, isOn));
  return button;
}
