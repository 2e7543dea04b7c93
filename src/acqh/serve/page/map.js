// The map of the collection: a canvas to move about in.

import { make } from "./dom.js";
import { shortOf } from "./words.js";

const COLOURS = ["#0f7f77", "#c2691c", "#4567b7", "#b23a6f", "#6d8f1f", "#8a5bbd", "#b08a14", "#2b8fbf", "#c0483a", "#5a6b78"];
const OTHERS = "#9a968c";
const MOST_ZOOM = 60;
const NEAR = 14; // pixels within which the mouse finds a point
const STEP = 60; // pixels that an arrow key moves
const MARGIN = 0.06; // of the canvas, around all points

/** A map that draws points and says which one is pressed. */
export class CollectionMap {
  /**
   * @param {object} page the page's elements by id
   * @param {(id: string) => void} open called with the item that is pressed
   * @param {(label: string) => void} filter called with the label that is pressed
   */
  constructor(page, open, filter) {
    this.canvas = page.map;
    this.tip = page["map-tip"];
    this.legend = page.legend;
    this.open = open;
    this.filter = filter;
    this.points = [];
    this.found = new Set();
    this.reset();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  reset() {
    this.zoom = 1;
    this.centre = [0.5, 0.5];
  }

  /** Take the points of a collection. */
  show(points) {
    const counts = new Map();
    for (const { label } of points) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
    const first = [...counts].sort((one, other) => other[1] - one[1]).slice(0, COLOURS.length);
    this.colours = new Map(first.map(([label], index) => [label, COLOURS[index]]));
    this.points = points;
    this.reset();
    const entries = first.map(([label]) => this.entry(label));
    if (counts.size > first.length) entries.push(make("li", {}, dot(OTHERS), `${counts.size - first.length} more`));
    this.legend.replaceChildren(...entries);
    this.draw();
  }

  entry(label) {
    const button = make("button", { type: "button", className: "chip", title: label }, dot(this.colours.get(label)), shortOf(label));
    button.addEventListener("click", () => this.filter(label));
    return make("li", {}, button);
  }

  /** Mark the hits of a query; the others fade. */
  mark(ids) {
    this.found = new Set(ids);
    this.draw();
  }

  place({ x, y }) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const scale = Math.min(wide, high) * (1 - 2 * MARGIN) * this.zoom;
    return [wide / 2 + (x - this.centre[0]) * scale, high / 2 + (y - this.centre[1]) * scale];
  }

  draw() {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    if (!wide || !this.points.length) return;
    const sharp = window.devicePixelRatio || 1;
    this.canvas.width = wide * sharp;
    this.canvas.height = high * sharp;
    const context = this.canvas.getContext("2d");
    context.scale(sharp, sharp);
    const size = Math.min(9, (this.points.length > 1500 ? 2.2 : 3.4) * Math.sqrt(this.zoom));
    const isMarked = this.found.size > 0;
    // Hits last, so that they lie on top.
    const ordered = isMarked ? [...this.points].sort((one, other) => this.found.has(one.id) - this.found.has(other.id)) : this.points;
    for (const point of ordered) {
      const [x, y] = this.place(point);
      if (x < -size || y < -size || x > wide + size || y > high + size) continue;
      const isFound = this.found.has(point.id);
      context.globalAlpha = isMarked && !isFound ? 0.18 : 0.85;
      context.fillStyle = this.colours.get(point.label) ?? OTHERS;
      context.beginPath();
      context.arc(x, y, isFound ? 1.6 * size : size, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  /** The point nearest to a place on the canvas, within reach. */
  nearest(x, y, within = NEAR) {
    let best = null;
    let least = within;
    for (const point of this.points) {
      const [px, py] = this.place(point);
      const away = Math.hypot(px - x, py - y);
      if (away < least) [best, least] = [point, away];
    }
    return best;
  }

  move(dx, dy) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const scale = Math.min(wide, high) * (1 - 2 * MARGIN) * this.zoom;
    const kept = (value) => Math.max(0, Math.min(1, value));
    this.centre = [kept(this.centre[0] - dx / scale), kept(this.centre[1] - dy / scale)];
    this.draw();
  }

  /** Zoom about a place on the canvas, which stays where it is. */
  zoomAt(factor, x, y) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const before = this.zoom;
    this.zoom = Math.max(1, Math.min(MOST_ZOOM, this.zoom * factor));
    const change = this.zoom / before;
    this.move((x - wide / 2) * (1 - change), (y - high / 2) * (1 - change));
  }

  say(point, x, y) {
    this.tip.hidden = !point;
    this.canvas.style.cursor = point ? "pointer" : "grab";
    if (!point) return;
    this.tip.textContent = [point.name, point.label].filter(Boolean).join(" · ");
    this.tip.style.left = `${Math.min(x, this.canvas.clientWidth - 160)}px`;
    this.tip.style.top = `${y}px`;
  }

  listen() {
    const pointers = new Map();
    let travelled = 0;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      travelled = 0;
    });
    this.canvas.addEventListener("pointermove", ({ pointerId, offsetX: x, offsetY: y }) => {
      const last = pointers.get(pointerId);
      if (!last) {
        this.say(this.nearest(x, y), x, y);
        return;
      }
      const spread = () => {
        const [one, other] = [...pointers.values()];
        return Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
      };
      const before = pointers.size === 2 ? spread() : 0;
      pointers.set(pointerId, [x, y]);
      travelled += Math.abs(x - last[0]) + Math.abs(y - last[1]);
      if (before) this.zoomAt(spread() / before, x, y);
      else this.move(x - last[0], y - last[1]);
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(kind, ({ pointerId, offsetX: x, offsetY: y }) => {
        const wasDown = pointers.delete(pointerId);
        const point = wasDown && kind === "pointerup" && travelled < 6 && this.nearest(x, y);
        if (point) this.open(point.id);
      });
    }
    this.canvas.addEventListener("pointerleave", () => this.say(null));
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [x, y] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const moves = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
    if (event.key in moves) this.move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoomAt(1.5, x, y);
    else if (event.key === "-") this.zoomAt(1 / 1.5, x, y);
    else if (event.key === "0") {
      this.reset();
      this.draw();
    } else if (event.key === "Enter") {
      const point = this.nearest(x, y, Infinity);
      if (point) this.open(point.id);
    } else return;
    event.preventDefault();
  }
}

function dot(colour) {
  const each = make("i", { className: "dot", ariaHidden: "true" });
  each.style.background = colour;
  return each;
}
