// The map of the collection: a canvas to move about in.

import { showPicture, thumbnailOf } from "./api.js";
import { make } from "./dom.js";
import { t } from "./language.js";
import { shortOf } from "./messages.js";

const COLOURS = ["#0f7f77", "#c2691c", "#4567b7", "#b23a6f", "#6d8f1f", "#8a5bbd", "#b08a14", "#2b8fbf", "#c0483a", "#5a6b78"];
const OTHERS = "#9a968c";
const MOST_ZOOM = 60;
const NEAR = 14; // pixels within which the mouse finds a point
const STEP = 60; // pixels that an arrow key moves
const MARGIN = 0.06; // of the canvas, around all points
const MOST_STRETCH = 2; // of one side in relation to the other
const FEW = 8; // points that stay in sight at any zoom
const [SMALLEST, LARGEST] = [24, 120]; // pixels of a picture's side; below, points are dots
const HIT = 40; // pixels of a hit's at least
const MOST_PICTURES = 300; // drawn at once
const SAMPLE = 44; // pixels of a picture's side, of a sample of all items that shows the whole map
const HIT_ROOM = 28; // pixels between the pictures of two hits
const NAME_ROOM = [110, 22]; // pixels between two names
// A name stands where this share of its items, and this many, lie within this distance.
const [REGION_SHARE, REGION_ITEMS, REGION_RADIUS] = [0.5, 3, 0.12];

/** A map that draws points and opens the one that is clicked. */
export class CollectionMap {
  /**
   * @param {object} page elements by id
   * @param {(id: string) => void} open called with the item that is clicked
   * @param {(label: string) => void} filter called with the label that is clicked
   */
  constructor(page, open, filter) {
    this.canvas = page.map;
    this.tip = page["map-tip"];
    this.waiting = page["map-wait"];
    this.legend = page.legend;
    this.open = open;
    this.filter = filter;
    this.points = [];
    this.regions = [];
    this.pictures = new Map();
    this.hits = new Set();
    this.reset();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  reset() {
    this.zoom = 1;
    this.centre = [0.5, 0.5];
  }

  /** Show a text instead of the map. */
  wait(text) {
    this.waiting.textContent = text;
    this.waiting.hidden = !text;
  }

  /** Take the points of a collection, which may be a sample of its items. */
  show(points, n_items) {
    this.wait(points.length ? "" : t("map.empty"));
    const counts = new Map();
    for (const { label } of points) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
    const first = [...counts].sort((one, other) => other[1] - one[1]).slice(0, COLOURS.length);
    this.colours = new Map(first.map(([label], index) => [label, COLOURS[index]]));
    this.points = spread(points);
    this.regions = regionsOf(this.points);
    this.pictures.clear();
    this.reset();
    const entries = first.map(([label]) => this.entry(label));
    if (counts.size > first.length) entries.push(make("li", {}, dot(OTHERS), t("map.more", { n: counts.size - first.length })));
    const sample = points.length < n_items ? t("map.sample", { n: points.length, total: n_items }) : "";
    this.legend.replaceChildren(...entries, make("li", { className: "hint" }, `${t("map.hint")} ${sample}`));
    this.draw();
  }

  entry(label) {
    const button = make("button", { type: "button", className: "chip", title: label }, dot(this.colours.get(label)), shortOf(label));
    button.addEventListener("click", () => this.filter(label));
    return make("li", {}, button);
  }

  /** Mark the hits of a query; the others fade. */
  mark(ids) {
    this.hits = new Set(ids);
    this.draw();
  }

  /** Pixels from one end of the map to the other, both ways: it fills the canvas, within reason. */
  get scale() {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const most = MOST_STRETCH * Math.min(wide, high);
    return [wide, high].map((side) => Math.min(side, most) * (1 - 2 * MARGIN) * this.zoom);
  }

  place({ x, y }) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const [across, down] = this.scale;
    return [wide / 2 + (x - this.centre[0]) * across, high / 2 + (y - this.centre[1]) * down];
  }

  /** The points that lie on the canvas, or near it. */
  inSight(around = 0) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    return this.points.filter((point) => {
      const [x, y] = this.place(point);
      return x >= -around && y >= -around && x <= wide + around && y <= high + around;
    });
  }

  /** The picture of a point, once it is loaded; until then null. */
  picture(point) {
    if (!point.thumbnail) return null;
    if (!this.pictures.has(point.id)) {
      const image = new Image();
      image.addEventListener("load", () => this.drawSoon());
      this.pictures.set(point.id, image);
      showPicture(image, thumbnailOf(point));
    }
    const image = this.pictures.get(point.id);
    return image.naturalWidth ? image : null;
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
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
    const isMarked = this.hits.size > 0;
    const shown = this.inSight(LARGEST / 2);
    const near = Math.min(LARGEST, 0.7 * Math.sqrt((this.scale[0] * this.scale[1]) / this.points.length));
    const isNear = near >= SMALLEST && shown.length <= MOST_PICTURES;
    // Of a query, only hits are pictures, the best first: all of them would be a heap.
    const candidates = isMarked ? this.hitsAmong(shown) : shown;
    const pictured = isNear ? new Set(candidates) : this.apart(candidates, isMarked ? HIT_ROOM : SAMPLE);
    // Pictures last, so that they lie on top, and hits over the others.
    const height = (point) => (pictured.has(point) ? 2 : 0) + (this.hits.has(point.id) ? 1 : 0);
    shown.sort((one, other) => height(one) - height(other));
    let drawn = 0;
    for (const point of shown) {
      const [x, y] = this.place(point);
      const isHit = this.hits.has(point.id);
      const image = pictured.has(point) && this.picture(point);
      const side = isHit ? Math.max(HIT, near) : isNear ? near : SAMPLE - 4;
      context.globalAlpha = isMarked && !isHit ? 0.25 : image ? 1 : 0.85;
      context.fillStyle = this.colours.get(point.label) ?? OTHERS;
      context.beginPath();
      if (image) {
        const shrink = side / Math.max(image.naturalWidth, image.naturalHeight);
        const [w, h] = [image.naturalWidth * shrink, image.naturalHeight * shrink];
        if (point.label !== null) context.fillRect(x - w / 2 - 2, y - h / 2 - 2, w + 4, h + 4);
        context.drawImage(image, x - w / 2, y - h / 2, w, h);
        drawn += 1;
      } else {
        context.arc(x, y, isHit ? 1.6 * size : size, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    this.name(context);
    this.canvas.dataset.pictures = drawn;
    this.reach = isNear ? near / 2 : NEAR;
  }

  /** The points that are hits, in the order of the hits. */
  hitsAmong(points) {
    const found = new Map(points.map((point) => [point.id, point]));
    return [...this.hits].map((id) => found.get(id)).filter(Boolean);
  }

  /** The first points of some that lie this many pixels apart, so that their pictures are no heap. */
  apart(points, pixels) {
    const places = new Map();
    for (const point of points) {
      if (places.size >= MOST_PICTURES) break;
      const [x, y] = this.place(point);
      const isFree = [...places.values()].every(([otherX, otherY]) => Math.max(Math.abs(otherX - x), Math.abs(otherY - y)) >= pixels);
      if (isFree) places.set(point, [x, y]);
    }
    return new Set(places.keys());
  }

  /** Write the names of regions, the largest first, where there is room. */
  name(context) {
    const style = getComputedStyle(this.canvas);
    Object.assign(context, { font: `600 13px ${style.fontFamily}`, textAlign: "center", lineWidth: 4, lineJoin: "round" });
    context.strokeStyle = style.backgroundColor;
    context.fillStyle = style.color;
    const taken = [];
    for (const { name, ...at } of this.regions) {
      const [middle, y] = this.place(at);
      const room = context.measureText(shortOf(name)).width / 2 + 4;
      // At the edges, names of points in sight stay whole.
      const isInSight = middle >= 0 && middle <= this.canvas.clientWidth;
      const x = isInSight ? Math.max(room, Math.min(middle, this.canvas.clientWidth - room)) : middle;
      if (taken.some(([otherX, otherY]) => Math.abs(otherX - x) < NAME_ROOM[0] && Math.abs(otherY - y) < NAME_ROOM[1])) continue;
      taken.push([x, y]);
      context.strokeText(shortOf(name), x, y);
      context.fillText(shortOf(name), x, y);
    }
    this.canvas.dataset.names = taken.length;
  }

  /** The point nearest to a place on the canvas, within reach. */
  nearest(x, y, within = this.reach) {
    let best = null;
    let least = within;
    for (const point of this.points) {
      const [px, py] = this.place(point);
      const away = Math.hypot(px - x, py - y);
      if (away < least) [best, least] = [point, away];
    }
    return best;
  }

  /** Move by some pixels; there is always a point near the middle. */
  move(dx, dy) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const [across, down] = this.scale;
    this.centre = [this.centre[0] - dx / across, this.centre[1] - dy / down];
    const nearest = this.nearest(wide / 2, high / 2, Infinity);
    if (nearest) {
      const [x, y] = this.place(nearest);
      const away = Math.hypot(x - wide / 2, y - high / 2);
      const missing = Math.max(0, 1 - Math.min(wide, high) / 3 / away);
      this.centre = [this.centre[0] + (missing * (x - wide / 2)) / across, this.centre[1] + (missing * (y - high / 2)) / down];
    }
    this.draw();
  }

  /** Zoom about a place on the canvas, which stays where it is. */
  zoomAt(factor, x, y) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const { zoom, centre } = this;
    this.zoom = Math.max(1, Math.min(MOST_ZOOM, zoom * factor));
    const change = this.zoom / zoom;
    if (this.zoom === 1) { // all points, also where none is near the middle
      this.reset();
      this.draw();
      return;
    }
    this.move((x - wide / 2) * (1 - change), (y - high / 2) * (1 - change));
    if (change <= 1 || this.inSight().length >= Math.min(FEW, this.points.length)) return;
    [this.zoom, this.centre] = [zoom, centre]; // next to nothing would be in sight
    this.draw();
  }

  showTip(point, x, y) {
    this.canvas.style.cursor = point ? "pointer" : "grab";
    this.tip.textContent = point ? [point.name, point.label].filter(Boolean).join(" · ") : "";
    this.tip.hidden = !this.tip.textContent;
    if (!point) return;
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
        this.showTip(this.nearest(x, y), x, y);
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
    this.canvas.addEventListener("pointerleave", () => this.showTip(null));
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

/** Names of regions, the largest first: labels or suggested tags of items that lie together. */
function regionsOf(points) {
  const named = new Map();
  for (const point of points) {
    const name = point.label ?? point.tag;
    if (name) named.set(name, [...(named.get(name) ?? []), point]);
  }
  const middle = (values) => values.sort((one, other) => one - other)[values.length >> 1];
  const regions = [];
  for (const [name, all] of named) {
    const at = { x: middle(all.map(({ x }) => x)), y: middle(all.map(({ y }) => y)) };
    const n = all.filter(({ x, y }) => Math.hypot(x - at.x, y - at.y) < REGION_RADIUS).length;
    if (n >= REGION_ITEMS && n >= REGION_SHARE * all.length) regions.push({ name, n, ...at });
  }
  return regions.sort((one, other) => other.n - one.n);
}

/** Points from 0 to 1 both ways. */
function spread(points) {
  const [xs, ys] = ["x", "y"].map((name) => points.map((point) => point[name]));
  const within = (all) => {
    const low = all.reduce((one, other) => Math.min(one, other), 1);
    const span = all.reduce((one, other) => Math.max(one, other), 0) - low;
    return (value) => (span > 0 ? (value - low) / span : 0.5);
  };
  const [across, down] = [within(xs), within(ys)];
  return points.map((point) => ({ ...point, x: across(point.x), y: down(point.y) }));
}

function dot(colour) {
  const element = make("i", { className: "dot", ariaHidden: "true" });
  element.style.background = colour;
  return element;
}
