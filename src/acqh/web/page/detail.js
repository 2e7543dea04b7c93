// One item, large, with its metadata and actions.

import { breakable, make } from "./dom.js";
import * as api from "./api.js";
import { closeEdit } from "./edit.js";
import { minute, percent, size, t } from "./language.js";
import { matchLineOf, shortOf, titleOfItem } from "./messages.js";
import { FLAGS } from "./query.js";

/**
 * Make the large view work.
 *
 * @param {object} page elements by id
 * @param {{close, step, like, unlike, label, tag}} on handlers
 */
export function addDetail(page, on) {
  page.close.addEventListener("click", () => page.detail.close());
  page.detail.addEventListener("close", () => {
    showVideo(page["detail-frame"], page["detail-image"], null);
    on.close();
  });
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
  page["detail-tags"].addEventListener("click", ({ target }) => {
    if (target.value) on.tag(target.value);
  });
  page.original.addEventListener("click", (event) => {
    if (!api.hasToken()) return; // a link cannot send a token
    event.preventDefault();
    api.openPicture(page.original.href);
  });
  document.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (page.detail.open && !event.target.matches("input, textarea") && event.key in steps && !event.altKey && !event.ctrlKey && !event.metaKey) {
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
  const tags = Object.entries(item.tags ?? {});
  page["detail-tags"].replaceChildren(
    ...(tags.length ? [make("span", { className: "lead" }, t("detail.suggested"))] : []),
    ...tags.map(([name, share]) => make("button", { type: "button", className: "chip", value: name, title: percent(share) }, name)),
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
  const isVideo = item.kind === "video";
  showVideo(page["detail-frame"], image, isVideo && item.original && !api.hasToken() ? item : null);
  if (address) api.showPicture(image, isVideo && item.thumbnail ? api.thumbnailOf(item) : address);
  image.onerror = () => {
    image.onerror = null;
    image.classList.add("thumbnail");
    if (item.thumbnail) api.showPicture(image, api.thumbnailOf(item)); // the file is gone
  };
  if (page.detail.dataset.id !== item.id) closeEdit(page);
  page.detail.dataset.id = item.id;
  if (!page.detail.open) page.detail.showModal();
}

/** Play a video in place of its image; null to stop. An element cannot send a token. */
function showVideo(frame, image, item) {
  frame.querySelector("video")?.remove();
  image.hidden = Boolean(item);
  if (item) frame.append(make("video", { src: api.originalOf(item), poster: api.thumbnailOf(item) ?? "", controls: true, preload: "metadata" }));
}

/** The fields of an item as texts; of those of a tracked folder, the readable ones. */
function fieldsOf({ fields, file, date, date_source, kind, text_in_image, copies = [] }) {
  const isOfFolder = file !== null && fields.file === file && "sha256" in fields;
  const readable = { bytes: size, modified: minute, date: minute };
  const rows = [];
  if (date && !fields.date) rows.push([t("field.date"), t(`date.${date_source}`, { date: minute(date) })]);
  if (kind) rows.push([t("field.kind"), t(`one.${kind}`)]);
  const isRepeated = (name, value) => name === "modified" && date && minute(value) === minute(date);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === file || FLAGS.includes(name)) continue;
    if (isOfFolder && (name === "sha256" || isRepeated(name, value))) continue;
    rows.push(isOfFolder && name in readable ? [t(`field.${name}`), readable[name](value)] : [name, String(value)]);
  }
  if (text_in_image) rows.push([t("field.text"), text_in_image]);
  const files = copies.filter(Boolean);
  return files.length ? [...rows, [t("field.copies"), files.join(", ")]] : rows;
}
