// The form for the caption and labels of an item.

import { make } from "./dom.js";
import { t } from "./language.js";

let labels = []; // as they are in the form

/**
 * Make the form work.
 *
 * @param {object} page elements by id
 * @param {{open, save, hide, remove}} on handlers; `save` gets the new text and labels
 */
export function addEdit(page, on) {
  page["edit-toggle"].addEventListener("click", on.open);
  page.edit.addEventListener("submit", (event) => {
    event.preventDefault();
    add(page);
    on.save({ text: page["edit-text"].value.trim(), labels });
  });
  page["edit-label"].addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !page["edit-label"].value.trim()) return;
    event.preventDefault(); // Enter in an empty field saves
    add(page);
  });
  page.cancel.addEventListener("click", () => closeEdit(page));
  page.hide.addEventListener("click", on.hide);
  page.remove.addEventListener("click", on.remove);
}

/** Show the form for an item; `known`: labels to suggest. */
export function openEdit(page, item, known) {
  labels = [...item.labels];
  page["edit-text"].value = item.text;
  page.hide.textContent = t(item.fields.hidden ? "edit.show" : "edit.hide");
  page["known-labels"].replaceChildren(...known.map(({ name }) => make("option", { value: name })));
  page.edit.hidden = false;
  page["edit-toggle"].hidden = true;
  fill(page);
  page["edit-text"].focus();
}

/** Hide the form. */
export function closeEdit(page) {
  const isInside = page.edit.contains(document.activeElement);
  page.edit.hidden = true;
  page["edit-label"].value = "";
  page["edit-toggle"].hidden = false;
  if (isInside) page["edit-toggle"].focus();
}

function add(page) {
  const name = page["edit-label"].value.trim();
  page["edit-label"].value = "";
  if (name) labels = [...new Set([...labels, name])];
  fill(page);
}

function fill(page) {
  page["edit-labels"].replaceChildren(...labels.map((name) => {
    const button = make("button", { type: "button", className: "chip", ariaLabel: t("edit.removeLabel", { name }) }, `${name} ✕`);
    button.addEventListener("click", () => {
      labels = labels.filter((other) => other !== name);
      fill(page);
      page["edit-label"].focus();
    });
    return button;
  }));
}
