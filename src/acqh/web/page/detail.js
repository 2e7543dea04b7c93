// One item, large: what it shows and says, and what to do with it.

import { breakable, make, size } from "./dom.js";
import * as api from "./api.js";
import { whyOf } from "./grid.js";
import { captionOf, matchOf, shortOf, texts } from "./words.js";

/**
 * Make the large view work.
 *
 * @param {object} page the page's elements by id
 * @param {{close, step, like, unlike, label}} on what to do when something is pressed
 */
export function addDetail(page, on) {
  page.close.addEventListener("click", () => page.detail.close());
  page.detail.addEventListener("close", on.close);
  page.detail.addEventListener("click", ({ target }) => {
    if (target === page.detail) page.detail.close(); // beside the sheet
  });
  page.previous.addEventListener("click", () => on.step(-1));
  page.next.addEventListener("click", () => on.step(1));
  page.like.addEventListener("click", on.like);
  page.unlike.addEventListener("click", on.unlike);
  page["detail-labels"].addEventListener("click", ({ target }) => {
    if (target.value) on.label(target.value);
  });
  page.original.addEventListener("click", (event) => {
    if (!api.hasToken()) return; // a link cannot send a token
    event.preventDefault();
    api.openPicture(page.original.href);
  });
  document.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (page.detail.open && event.key in steps && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      on.step(steps[event.key]);
    }
  });
}

/** Show an item; `at` is its place among the hits, or -1, and `n` how many there are. */
export function fillDetail(page, item, at, n, canSubtract) {
  page["detail-name"].replaceChildren(...breakable(captionOf(item) || texts.noCaption));
  page["detail-file"].replaceChildren(...breakable(item.file ?? ""));
  page["detail-why"].textContent = whyOf(item) && texts.foundBy(whyOf(item), matchOf(item));
  page["detail-labels"].replaceChildren(
    ...item.labels.map((name) => make("button", { type: "button", className: "chip", value: name, title: name }, shortOf(name))),
  );
  page["detail-columns"].replaceChildren(
    ...columnsOf(item).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...breakable(value)))),
  );
  page.unlike.hidden = !canSubtract;
  page.original.hidden = !item.original;
  if (item.original) page.original.href = api.originalOf(item);
  page.previous.disabled = at <= 0;
  page.next.disabled = at < 0 || at >= n - 1;
  const image = page["detail-image"];
  const address = api.originalOf(item) ?? api.thumbnailOf(item);
  page["detail-frame"].hidden = !address;
  image.removeAttribute("src");
  image.alt = item.text;
  image.classList.toggle("thumbnail", !item.original);
  if (address) api.showPicture(image, address);
  image.onerror = () => {
    image.onerror = null;
    image.classList.add("thumbnail");
    if (item.thumbnail) api.showPicture(image, api.thumbnailOf(item)); // the file is gone
  };
  if (!page.detail.open) page.detail.showModal();
}

/** The columns of an item as texts; of those that `acqh sync` keeps for itself, what people can read. */
function columnsOf({ columns, file, copies = [] }) {
  const isOfFolder = file !== null && columns.file === file && "sha256" in columns;
  const toMinute = (time) => time.slice(0, 16).replace("T", " ");
  const read = { sha256: () => null, bytes: size, modified: toMinute, date: toMinute };
  return [...Object.entries(columns), ["copies", copies.join(", ") || null]]
    .filter(([, value]) => value !== null && value !== file)
    .map(([name, value]) => [name, isOfFolder && name in read ? read[name](value) : String(value)])
    .filter(([, value]) => value !== null);
}
