// The images, items and labels of a query.

import { showPicture, thumbnailOf } from "./api.js";
import { make } from "./dom.js";
import { period, shortMonth, t } from "./language.js";
import { nameOf, shortOf } from "./messages.js";
import { FLAGS, KINDS, asks } from "./query.js";

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

/** Show the filters that can be removed, the marks that items have, and their kinds. */
export function fillFlags(page, query, counts, kinds, filters, ask) {
  const removable = (name, changes) => {
    const button = make("button", { type: "button", className: "chip", ariaPressed: "true", ariaLabel: t("filter.remove", { name }) }, `${name} ✕`);
    button.addEventListener("click", () => ask(changes));
    return button;
  };
  const chips = filters.map(({ text }) => removable(text, { dates: "words" }));
  if (query.period) chips.push(removable(period(query.period), { period: "" }));
  if (query.tag) chips.push(removable(query.tag, { tag: "" }));
  for (const name of FLAGS.filter((each) => counts?.[each] || query.only === each)) {
    const button = make("button", { type: "button", className: "chip", ariaPressed: String(query.only === name) }, t(`flag.${name}`));
    button.addEventListener("click", () => ask({ only: query.only === name ? "" : name }));
    chips.push(button);
  }
  page.flags.replaceChildren(...chips);
  page.kind.hidden = kinds.length < 2 && !query.kind;
  page.kind.replaceChildren(
    make("option", { value: "" }, t("kind.all")),
    ...KINDS.filter((name) => kinds.some((each) => each.name === name)).map((name) => make("option", { value: name }, t(`kind.${name}`))),
  );
  page.kind.value = query.kind;
}

/** Show years and, of the chosen one, months: each a filter, with bars for the number of items. */
export function fillTimeline(page, query, months, isShown, ask) {
  page.timeline.hidden = !isShown || months.length < 2;
  if (page.timeline.hidden) return;
  const most = Math.max(...months.map(({ count }) => count));
  const years = [...new Set(months.map(({ name }) => name.slice(0, 4)))];
  if (query.order !== "old") years.reverse();
  const button = (value, name, ...content) => {
    const isOn = query.period === value;
    const element = make("button", { type: "button", className: "chip", ariaPressed: String(isOn), ariaLabel: name, value }, ...content);
    element.addEventListener("click", () => ask({ period: isOn ? "" : value }));
    return element;
  };
  const counted = (value) => months.filter(({ name }) => name.startsWith(value)).reduce((sum, { count }) => sum + count, 0);
  const named = (value) => t("timeline.period", { period: period(value), n: counted(value) });
  const chips = years.flatMap((year) => {
    const bars = make("span", { className: "bars", ariaHidden: "true" });
    for (let number = 1; number <= 12; number += 1) {
      const bar = make("i");
      // Logarithms: one month of 500 images, such as that of a copy, would flatten all others.
      bar.style.height = `${(100 * Math.log1p(counted(`${year}-${String(number).padStart(2, "0")}`))) / Math.log1p(most)}%`;
      bars.append(bar);
    }
    const ofYear = months.filter(({ name }) => query.period.startsWith(year) && name.startsWith(year));
    return [button(year, named(year), year, bars), ...ofYear.map(({ name }) => button(name, named(name), shortMonth(name)))];
  });
  const focused = page.timeline.contains(document.activeElement) && document.activeElement.value;
  page.timeline.replaceChildren(...chips);
  if (focused) chips.find(({ value }) => value === focused)?.focus();
}

/** Show the labels: those chosen, the most frequent others, and the rest in a list. */
export function fillLabels(page, query, labels, ask) {
  page.filter.hidden = !labels.length && !page.flags.children.length && page.kind.hidden;
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
  new MutationObserver(update).observe(row, { childList: true, subtree: true, attributeFilter: ["hidden"] });
}

function chip(name, isOn, toggle) {
  const properties = { type: "button", className: "chip", value: name, title: name, ariaPressed: String(isOn) };
  const button = make("button", properties, shortOf(name));
  button.addEventListener("click", () => toggle(name, isOn));
  return button;
}
