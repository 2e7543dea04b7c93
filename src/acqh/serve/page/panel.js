// "How it was found": query -> vector -> tables -> bytes of a hit -> score.

import { count, draw, make, milliseconds, several, signed } from "./dom.js";
import { showPicture, thumbnailOf } from "./api.js";
import { captionOf } from "./words.js";

/**
 * Fill the panel for one hit of an answer.
 *
 * @param {HTMLElement} body where to put it
 * @param {object} answer of /search, with its explanation
 * @param {number} position which hit
 * @param {(position: number) => void} show called when another hit is asked for
 */
export function fillPanel(body, answer, position, show) {
  const { explanation, hits } = answer;
  const parts = [figures(answer)];
  if (explanation && hits.length) {
    const isMeant = explanation.query.length > 0;
    if (isMeant) parts.push(step("The query becomes a vector", vectorText(explanation), vector(explanation.query)));
    parts.push(isMeant
      ? step("A hit’s bytes point into tables", tableText(explanation), which(hits, position, show), lookup(answer, position), sum(answer, position))
      : step("The words are looked up", "", which(hits, position, show), sum(answer, position)));
  }
  const focused = document.activeElement?.id;
  body.replaceChildren(...parts);
  if (focused === "before" || focused === "after") refocus(focused);
}

/** Keep the focus on the button that was pressed, or on its twin at either end. */
function refocus(id) {
  const button = document.getElementById(id);
  const twin = document.getElementById(id === "before" ? "after" : "before");
  (button.disabled ? twin : button).focus();
}

function step(title, text, ...content) {
  return make("section", { className: "step" }, make("h3", {}, title), make("p", {}, text), ...content);
}

function figures({ n_seen, n_candidates, milliseconds: times, hits, bytes_per_item }) {
  const bytes = hits.length ? hits[0].code.length : Math.round(bytes_per_item);
  // A search may score a code twice, once to find a first bound; it was looked at all the same.
  const looked = Math.min(n_seen, n_candidates);
  const entries = [
    [count(looked), `codes looked at, of ${several(n_candidates, "item")}`],
    [milliseconds(times.search), `to search, ${milliseconds(times.total)} in all`],
    [`${bytes} bytes`, `a code, ${bytes_per_item.toFixed(1)} an item in memory`],
  ];
  const list = make("dl", { className: "figures" });
  for (const [figure, meaning] of entries) {
    list.append(make("div", {}, make("dt", {}, figure), make("dd", {}, meaning)));
  }
  return list;
}

function vectorText({ query }) {
  return `${query.length} numbers, in one space for words and pictures.`;
}

function vector(values) {
  const [width, height, gap] = [320, 56, values.length > 80 ? 0.5 : 1.5];
  const most = Math.max(...values.map(Math.abs)) || 1;
  const wide = width / values.length;
  const bars = values.map((value, index) => {
    const tall = Math.max(0.5, (Math.abs(value) / most) * (height / 2 - 1));
    return draw("rect", {
      class: value < 0 ? "below" : "above",
      x: index * wide + gap / 2,
      y: value < 0 ? height / 2 : height / 2 - tall,
      width: wide - gap,
      height: tall,
      rx: Math.min(1, (wide - gap) / 2),
    });
  });
  const line = draw("line", { class: "axis", x1: 0, x2: width, y1: height / 2, y2: height / 2 });
  const name = `The query as ${values.length} numbers between ${signed(-most, 2)} and ${signed(most, 2)}`;
  return picture(width, height, name, line, ...bars);
}

function picture(width, height, name, ...children) {
  const viewBox = `0 0 ${width} ${height}`;
  return draw("svg", { viewBox, role: "img", "aria-label": name, class: "drawing" }, ...children);
}

function tableText({ tables }) {
  const [n, size] = [tables.length, tables[0].length];
  return `One table for each of ${n} codebooks: how well the query goes with each of its ${size} words. Each byte of the hit names a word; their entries add up.`;
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).match(/\w\w/g).map((part) => parseInt(part, 16));
  return { above: read("--above"), below: read("--below"), none: read("--none") };
}

function paint(canvas, values, most, { above, below, none }) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(values.length, 1);
  values.forEach((value, index) => {
    const towards = value < 0 ? below : above;
    const share = Math.sqrt(Math.abs(value) / most); // small entries are many; let them be seen
    const mixed = none.map((part, channel) => part + (towards[channel] - part) * share);
    image.data.set([...mixed, 255], 4 * index);
  });
  context.putImageData(image, 0, 0);
}

/** Which hit is explained, and the way to the others. */
function which(hits, position, show) {
  const hit = hits[position];
  const move = (id, name, to, path) => {
    const icon = draw("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: path }));
    const isEnd = to < 0 || to >= hits.length;
    const button = make("button", { type: "button", id, ariaLabel: name, disabled: isEnd }, icon);
    button.addEventListener("click", () => show(to));
    return button;
  };
  const name = make("span", { className: "which" }, make("b", {}, `${position + 1}`), ` ${captionOf(hit)}`);
  const stepper = make("div", { className: "stepper" });
  if (hit.thumbnail) {
    const image = make("img", { alt: "", draggable: false });
    showPicture(image, thumbnailOf(hit));
    stepper.append(image);
  }
  stepper.append(
    name,
    move("before", "Explain the hit before", position - 1, "m14.5 6-6 6 6 6"),
    move("after", "Explain the next hit", position + 1, "m9.5 6 6 6-6 6"),
  );
  return stepper;
}

/** A line a codebook: its table with the word marked, the byte, and what that adds. */
function lookup({ explanation }, position) {
  const { tables } = explanation;
  const { words, entries: parts } = explanation.hits[position];
  const most = Math.max(...tables.flat().map(Math.abs)) || 1;
  const colours = palette();
  const bar = waterfall(parts);
  const line = (name, from, to, kind, ...cells) =>
    make("tr", { className: kind }, ...cells, make("td", {}, bar(from, to)), make("td", {}, name));
  let reached = 0;
  const rows = tables.map((table, index) => {
    const from = reached;
    reached += parts[index];
    const kind = parts[index] < 0 ? "below" : "above";
    const shown = make("td", {}, strip(table, words[index], most, colours));
    return line(signed(parts[index]), from, reached, kind, shown, make("td", {}, make("b", {}, `${words[index]}`)));
  });
  const total = line(signed(reached), 0, reached, "total", make("td", {}, "by meaning"), make("td", {}));
  const head = ["table", "byte", "adds", ""].map((name) => make("th", { scope: "col" }, name));
  return make("table", { className: "lookup" },
    make("caption", { className: "unseen" }, "How the hit’s score comes about"),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows, total));
}

/** What beside its code a hit's score is the sum of. */
function sum({ explanation, hits }, position) {
  const { parts } = explanation.hits[position];
  const others = explanation.names.map((name, index) => [name, parts[index]])
    .filter(([name, part]) => !name.startsWith("codebook") && part !== 0);
  if (!others.length) return "";
  const meaning = explanation.names[0].startsWith("codebook") ? "by meaning + " : "";
  const said = others.map(([name, part]) => `${name} ${signed(part)}`).join(" + ");
  return make("p", { className: "sum" }, `Score ${signed(hits[position].score)} = ${meaning}${said}`);
}

/** A column a codeword, as an image that the browser stretches. */
function strip(table, word, most, colours) {
  const canvas = make("canvas", { width: table.length, height: 1 });
  paint(canvas, table, most, colours);
  const mark = make("i", {});
  mark.style.left = `${((word + 0.5) / table.length) * 100}%`;
  return make("div", { className: "strip", ariaHidden: "true" }, canvas, mark);
}

/** Bars of which each starts where the one before it ended. */
function waterfall(parts) {
  let reached = 0;
  const ends = [0, ...parts.map((part) => (reached += part))];
  const low = Math.min(...ends);
  const span = Math.max(...ends) - low || 1;
  return (from, to) => {
    const each = make("i", {});
    each.style.left = `${((Math.min(from, to) - low) / span) * 100}%`;
    each.style.width = `${(Math.abs(to - from) / span) * 100}%`;
    return make("div", { className: "track", ariaHidden: "true" }, each);
  };
}
