"use strict";

// Sort a table by a column: numbers from large to small first, names from A to Z first.
function valueOf(row, column) {
  const cell = row.cells[column];
  return cell && "value" in cell.dataset ? Number(cell.dataset.value) : cell ? cell.textContent.trim() : "";
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortBy(heading) {
  const table = heading.closest("table");
  const body = table.tBodies[0];
  const column = Number(heading.dataset.column);
  const isText = heading.classList.contains("text");
  const before = heading.getAttribute("aria-sort");
  const ascending = before ? before === "descending" : isText;
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const rows = Array.from(body.rows, (row) => ({ row, value: valueOf(row, column) }));
  const isEmpty = (entry) => !isText && typeof entry.value !== "number";
  rows.sort((a, b) => {
    // Rows without a figure stay below, whichever way the others go.
    if (isEmpty(a) !== isEmpty(b)) return isEmpty(a) ? 1 : -1;
    return ascending ? compare(a.value, b.value) : compare(b.value, a.value);
  });
  body.append(...rows.map((entry) => entry.row));
}

async function copyText(button) {
  const text = document.getElementById(button.dataset.copy).textContent;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // A page opened from a file may not be allowed to: show the text, selected, instead.
    const shown = document.getElementById(button.dataset.copy);
    shown.hidden = false;
    getSelection().selectAllChildren(shown);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

function changeTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy) copyText(button);
  else if (button.classList.contains("theme")) changeTheme();
  else if (button.closest("th")) sortBy(button.closest("th"));
});

// On a narrow screen the list of sections would push the results off it.
if (matchMedia("(max-width: 1199px)").matches) document.querySelector("nav details").open = false;
