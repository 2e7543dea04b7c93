// "Why this result": the reason, the parts of the confidence score, and how its bytes give the similarity.

import { draw, make } from "./dom.js";
import { showPicture, thumbnailOf } from "./api.js";
import { decimal, milliseconds, number, percent, size, t } from "./language.js";
import { confidenceOf, isConfident, isSame, titleOfItem } from "./messages.js";

const DETECTED_WORDS = 0.6; // score of all words, if suggested tags or text in the image are needed for some

/**
 * Fill the panel for one hit of an answer.
 *
 * @param {HTMLElement} body where to put it
 * @param {object} answer of /search, with its explanation
 * @param {number} position which hit
 * @param {(position: number) => void} show called to explain another hit
 */
export function fillPanel(body, answer, position, show) {
  const { explanation, hits } = answer;
  const parts = [];
  if (explanation && hits.length) {
    const scores = scoresOf(answer, position);
    const reason = make("p", { className: "reason" }, t(reasonOf(hits[position], scores)));
    parts.push(stepper(hits, position, show), reason, tally(hits[position], scores));
    const { tables } = explanation;
    if (tables.length) {
      parts.push(
        step(t("panel.vector"), t("panel.vectorText", { n: explanation.query.length }), vector(explanation.query)),
        step(t("panel.tables"), t("panel.tablesText", { n: tables.length, size: tables[0].length }), lookup(answer, position)),
      );
    }
  }
  const focused = document.activeElement?.id;
  body.replaceChildren(...parts, statistics(answer));
  if (focused === "before" || focused === "after") refocus(focused);
}

/** The scores of a hit: similarity, its confidence threshold, and keywords; null if not computed. */
function scoresOf({ explanation, hits }, position) {
  const { entries, parts } = explanation.hits[position];
  const part = (name) => (explanation.names.includes(name) ? parts[explanation.names.indexOf(name)] : null);
  const similarity = entries.length ? entries.reduce((sum, entry) => sum + entry, 0) : null;
  const semantic = similarity === null ? null : part("semantic") ?? (isSame(hits[position]) ? null : hits[position].match);
  return { similarity, level: levelOf(similarity, semantic), semantic, keywords: part("keywords") };
}

/** The similarity at which the confidence is one half. */
function levelOf(similarity, semantic) {
  if (semantic === null || similarity <= 0) return 0;
  return semantic > 0.5 ? 2 * similarity * (1 - semantic) : (0.5 * similarity) / semantic;
}

/** The key of the sentence that gives the reason for a hit, by its scores. */
export function reasonOf(hit, { keywords, semantic }) {
  if (isSame(hit)) return "panel.same";
  if (keywords >= 1) return "panel.allWords";
  if (keywords >= DETECTED_WORDS) return "panel.allDetected";
  if (semantic === null) return "panel.someWords";
  if (semantic > 0.5) return keywords ? "panel.similarSome" : "panel.similar";
  if (isConfident(hit)) return "panel.both";
  return keywords ? "panel.closestSome" : "panel.closest";
}

/** The parts of the confidence on a tile, and their sum. */
function tally(hit, { similarity, level, semantic, keywords }) {
  const rows = [];
  if (keywords !== null) rows.push([t("panel.keywords"), percent(keywords >= 1 ? 1 : keywords / 2), keywordsText(keywords)]);
  if (isSame(hit)) rows.push([t("panel.image"), percent(1), t("panel.identical")]);
  if (semantic !== null) {
    const score = { score: decimal(similarity), level: decimal(level) };
    rows.push([t("panel.similarity"), percent(semantic), t(level ? "panel.level" : "panel.score", score)]);
  }
  const sum = { score: decimal(keywords + (semantic ?? 0), 2) };
  const isSum = keywords !== null && rows.length > 1;
  rows.push([t("panel.confidence"), confidenceOf(hit), isSum ? t(keywords >= 1 ? "panel.sumRank" : "panel.sum", sum) : ""]);
  const cells = (row) => row.map((text, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, text));
  return make("table", { className: "tally" },
    make("caption", { className: "unseen" }, t("panel.tally")),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))));
}

function keywordsText(score) {
  if (score >= 1) return t(score >= 2 ? "panel.exactName" : "panel.allPresent", { score: decimal(score, 2) });
  if (score >= DETECTED_WORDS) return t("panel.detectedPresent");
  return t(score ? "panel.somePresent" : "panel.nonePresent");
}

/** Keep the focus on the button that was pressed, or move it to the other one if it is disabled. */
function refocus(id) {
  const button = document.getElementById(id);
  const other = document.getElementById(id === "before" ? "after" : "before");
  (button.disabled ? other : button).focus();
}

function step(title, text, ...content) {
  return make("section", { className: "step" }, make("h3", {}, title), make("p", {}, text), ...content);
}

function statistics({ n_scanned, n_candidates, milliseconds: times, hits, bytes_per_item }) {
  const bytes = hits.length ? hits[0].code.length : Math.round(bytes_per_item);
  // A search may score a code twice, first for a bound; it counts once.
  const entries = [
    [number(Math.min(n_scanned, n_candidates)), t("panel.scanned", { n: n_candidates })],
    [milliseconds(times.search), t("panel.time", { total: milliseconds(times.total) })],
    [size(bytes), t("panel.memory", { bytes: decimal(bytes_per_item, 1) })],
  ];
  const list = make("dl", { className: "statistics" });
  for (const [value, text] of entries) list.append(make("div", {}, make("dt", {}, value), make("dd", {}, text)));
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
  return picture(width, height, t("panel.vectorLabel", { n: values.length, low: decimal(-most, 2), high: decimal(most, 2) }), line, ...bars);
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
    const share = Math.sqrt(Math.abs(value) / most); // most entries are small: keep them visible
    const mixed = none.map((part, channel) => part + (towards[channel] - part) * share);
    image.data.set([...mixed, 255], 4 * index);
  });
  context.putImageData(image, 0, 0);
}

/** The hit that is explained, and buttons to the previous and the next one. */
function stepper(hits, position, show) {
  const hit = hits[position];
  const move = (id, name, to, path) => {
    const icon = draw("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: path }));
    const isEnd = to < 0 || to >= hits.length;
    const button = make("button", { type: "button", id, ariaLabel: name, disabled: isEnd }, icon);
    button.addEventListener("click", () => show(to));
    return button;
  };
  const name = make("span", { className: "which" }, make("b", {}, `${position + 1}`), ` ${titleOfItem(hit, position)}`);
  const row = make("div", { className: "stepper" });
  if (hit.thumbnail) {
    const image = make("img", { alt: "", draggable: false });
    showPicture(image, thumbnailOf(hit));
    row.append(image);
  }
  row.append(
    name,
    move("before", t("panel.previous"), position - 1, "m14.5 6-6 6 6 6"),
    move("after", t("panel.next"), position + 1, "m9.5 6 6 6-6 6"),
  );
  return row;
}

/** One row per codebook: its table with the codeword marked, the byte, and the entry. */
function lookup({ explanation }, position) {
  const { tables } = explanation;
  const { codes, entries: parts } = explanation.hits[position];
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
    const shown = make("td", {}, strip(table, codes[index], most, colours));
    return line(decimal(parts[index]), from, reached, kind, shown, make("td", {}, make("b", {}, `${codes[index]}`)));
  });
  const total = line(decimal(reached), 0, reached, "total", make("td", {}, t("panel.total")), make("td", {}));
  const head = [t("panel.table"), t("panel.byte"), t("panel.adds"), ""].map((name) => make("th", { scope: "col" }, name));
  return make("table", { className: "lookup" },
    make("caption", { className: "unseen" }, t("panel.tablesLabel")),
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

/** Bars that each start where the previous one ends. */
function waterfall(parts) {
  let reached = 0;
  const ends = [0, ...parts.map((part) => (reached += part))];
  const low = Math.min(...ends);
  const span = Math.max(...ends) - low || 1;
  return (from, to) => {
    const bar = make("i", {});
    bar.style.left = `${((Math.min(from, to) - low) / span) * 100}%`;
    bar.style.width = `${(Math.abs(to - from) / span) * 100}%`;
    return make("div", { className: "track", ariaHidden: "true" }, bar);
  };
}
