// "How it was found": why a hit is there, what its number is made of, and how its bytes give that.

import { draw, make, signed } from "./dom.js";
import { showPicture, thumbnailOf } from "./api.js";
import { captionOf, matchOf, percent, isConfident, texts } from "./words.js";

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
  const parts = [];
  if (explanation && hits.length) {
    const made = madeOf(answer, position);
    parts.push(which(hits, position, show), make("p", { className: "reason" }, reasonOf(hits[position], made)), tally(hits[position], made));
    if (explanation.query.length) {
      parts.push(
        step(texts.vector, texts.vectorOf(explanation.query.length), vector(explanation.query)),
        step(texts.tables, texts.tablesOf(explanation.tables.length, explanation.tables[0].length), lookup(answer, position)),
      );
    }
  }
  const focused = document.activeElement?.id;
  body.replaceChildren(...parts, figures(answer));
  if (focused === "before" || focused === "after") refocus(focused);
}

/**
 * What the number on a hit's tile is made of: how near it is by content, from which sum on a hit
 * stands out, how far this one does, and what words are worth; null for what was not looked at.
 */
function madeOf({ explanation, hits }, position) {
  const { entries, parts } = explanation.hits[position];
  const part = (name) => (explanation.names.includes(name) ? parts[explanation.names.indexOf(name)] : null);
  const near = entries.length ? entries.reduce((sum, each) => sum + each, 0) : null;
  const content = near === null ? null : part("content") ?? (isSame(hits[position]) ? null : hits[position].match);
  const level = content === null || near <= 0 ? 0 : content > 0.5 ? 2 * near * (1 - content) : (0.5 * near) / content;
  return { near, level, content, words: part("words") };
}

function isSame({ why }) {
  return why.includes("same image");
}

/** Why a hit is there, in a sentence. */
function reasonOf(hit, { words, content }) {
  if (isSame(hit)) return texts.same;
  if (words >= 1) return texts.allWords;
  const near = content > 0.5 ? texts.nearer : isConfident(hit) ? texts.nearBoth : texts.nearest;
  const said = content === null ? texts.someWords : (words ? texts.someWordsAnd : "") + near;
  return said[0].toUpperCase() + said.slice(1);
}

/** What was looked at and what it is worth, down to the number on the tile. */
function tally(hit, { near, level, content, words }) {
  const rows = [];
  if (words !== null) rows.push([texts.tally.words, percent(words >= 1 ? 1 : words / 2), texts.worthOf(words)]);
  if (isSame(hit)) rows.push([texts.tally.image, percent(1), texts.tally.same]);
  if (content !== null) rows.push([texts.tally.content, percent(content), texts.levelOf(near, level)]);
  const sum = words + (content ?? 0);
  rows.push([texts.tally.tile, matchOf(hit), words !== null && rows.length > 1 ? texts.sumOf(words, sum) : ""]);
  const cells = (row) => row.map((text, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, text));
  return make("table", { className: "tally" },
    make("caption", { className: "unseen" }, texts.tallyCaption),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))));
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

function figures({ n_scanned, n_candidates, milliseconds: times, hits, bytes_per_item }) {
  const bytes = hits.length ? hits[0].code.length : Math.round(bytes_per_item);
  // A search may score a code twice, once to find a first bound; it was looked at all the same.
  const looked = Math.min(n_scanned, n_candidates);
  const entries = texts.figuresOf(looked, n_candidates, times, bytes, bytes_per_item);
  const list = make("dl", { className: "figures" });
  for (const [figure, meaning] of entries) {
    list.append(make("div", {}, make("dt", {}, figure), make("dd", {}, meaning)));
  }
  return list;
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
  return picture(width, height, texts.vectorName(values.length, most), line, ...bars);
}

function picture(width, height, name, ...children) {
  const viewBox = `0 0 ${width} ${height}`;
  return draw("svg", { viewBox, role: "img", "aria-label": name, class: "drawing" }, ...children);
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
    move("before", texts.previous, position - 1, "m14.5 6-6 6 6 6"),
    move("after", texts.next, position + 1, "m9.5 6 6 6-6 6"),
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
  const total = line(signed(reached), 0, reached, "total", make("td", {}, texts.tableTotal), make("td", {}));
  const head = texts.tableHead.map((name) => make("th", { scope: "col" }, name));
  return make("table", { className: "lookup" },
    make("caption", { className: "unseen" }, texts.tableCaption),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows, total));
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
