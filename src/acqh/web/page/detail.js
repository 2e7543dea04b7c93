// One item, large, with its metadata and actions.

import { breakable, make } from "./dom.js";
import * as api from "./api.js";
import { minute, size, t } from "./language.js";
import { matchLineOf, shortOf, titleOfItem } from "./messages.js";

/**
 * Make the large view work.
 *
 * @param {object} page elements by id
 * @param {{close, step, like, unlike, label}} on handlers
 */
export function addDetail(page, on) {
  page.close.addEventListener("click", () => page.detail.close());
  page.detail.addEventListener("close", on.close);
  page.detail.addEventListener("click", ({ target }) => {
    if (target === page.detail) page.detail.close(); // outside the sheet
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
  const title = titleOfItem(item, at < 0 ? null : at);
  page["detail-name"].replaceChildren(...breakable(title));
  page["detail-file"].replaceChildren(...breakable(item.file === title ? "" : item.file ?? ""));
  page["detail-why"].textContent = matchLineOf(item);
  page["detail-labels"].replaceChildren(
    ...item.labels.map((name) => make("button", { type: "button", className: "chip", value: name, title: name }, shortOf(name))),
  );
  page["detail-fields"].replaceChildren(
    ...fieldsOf(item).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...breakable(value)))),
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
  image.alt = title;
  image.classList.toggle("thumbnail", !item.original);
  if (address) api.showPicture(image, address);
  image.onerror = () => {
    image.onerror = null;
    image.classList.add("thumbnail");
    if (item.thumbnail) api.showPicture(image, api.thumbnailOf(item)); // the file is gone
  };
  if (!page.detail.open) page.detail.showModal();
}

/** The fields of an item as texts; of those of a tracked folder, the readable ones. */
function fieldsOf({ fields, file, copies = [] }) {
  const isOfFolder = file !== null && fields.file === file && "sha256" in fields;
  const readable = { bytes: size, modified: minute, date: minute };
  const rows = Object.entries(fields)
    .filter(([name, value]) => value !== null && value !== file && !(isOfFolder && name === "sha256"))
    .map(([name, value]) => (isOfFolder && name in readable ? [t(`field.${name}`), readable[name](value)] : [name, String(value)]));
  return copies.length ? [...rows, [t("field.copies"), copies.join(", ")]] : rows;
}
