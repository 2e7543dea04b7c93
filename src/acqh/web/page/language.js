// The visitor's language: its strings, and numbers and dates as it writes them.

import { strings } from "./strings.js";

const FALLBACK = "en";
const DAY_CHARS = 10; // of the day in a date
const MONTH = { year: "numeric", month: "long" };
const ROW = 4; // images that about fill a row
const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

/** The first preferred locale whose language has strings. */
export function localeFor(preferred) {
  return preferred.find((locale) => languageOf(locale) in strings) ?? FALLBACK;
}

function languageOf(locale) {
  return locale.toLowerCase().split("-")[0];
}

const locale = localeFor(globalThis.navigator?.languages ?? []);
export const language = languageOf(locale);
const plurals = new Intl.PluralRules(locale);

/** The string of a key; numbers are written as the language does, and {n} chooses the plural. */
export function t(key, values = {}) {
  const entry = strings[language][key];
  const text = typeof entry === "string" ? entry : entry[plurals.select(values.n)] ?? entry.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? number(values[name]) : values[name]));
}

/** Whether there is a string. */
export function hasString(key) {
  return key in strings[language];
}

/** Put the strings into elements: `data-text` names an element's text, `data-label` its name, `data-hint` its placeholder. */
export function translatePage(root) {
  root.documentElement.lang = language;
  for (const element of root.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of root.querySelectorAll("[data-hint]")) element.placeholder = t(element.dataset.hint);
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
}

function format(value, options) {
  return new Intl.NumberFormat(locale, options).format(value).replace("-", "−");
}

/** A whole number with separators. */
export function number(value) {
  return format(value, { maximumFractionDigits: 0 });
}

/** A number with this many digits after the point, and a true minus sign. */
export function decimal(value, digits = 3) {
  return format(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A share from 0 to 1; less than 1 is at most 99%. */
export function percent(share) {
  return format(share < 1 ? Math.min(0.99, share) : 1, { style: "percent" });
}

/** Milliseconds with two digits. */
export function milliseconds(value) {
  const digits = value < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 };
  return format(value, { style: "unit", unit: "millisecond", ...digits });
}

/** A number of bytes in the unit in which it is easiest to read. */
export function size(bytes) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const value = bytes / 1000 ** power;
  const digits = value < 10 && !Number.isInteger(value) ? 1 : 0;
  const unitDisplay = power ? "short" : "long";
  return format(value, { style: "unit", unit: UNITS[power], unitDisplay, maximumFractionDigits: digits });
}

/** A date, and its time to the minute if it has one; what is no date stays as it is. */
export function minute(text) {
  if (text.length <= DAY_CHARS) return day(text);
  const date = new Date(text.slice(0, 16));
  const options = { dateStyle: "medium", timeStyle: "short" };
  return Number.isNaN(date.getTime()) ? text : new Intl.DateTimeFormat(locale, options).format(date);
}

/** The day of a stored date; what is no date stays as it is, and null is empty. */
export function day(text) {
  return dated(text, { dateStyle: "medium" });
}

/** The month of a stored date. */
export function month(text) {
  return dated(text, MONTH);
}

/** Headings of sorted dates, and of how many each is: a month or, of months in a row with few dates, their span. */
export function monthHeadings(dates) {
  const runs = [];
  for (const date of dates) {
    const name = month(date);
    if (runs.at(-1)?.name === name) runs.at(-1).dates.push(date);
    else runs.push({ name, dates: [date] });
  }
  const joined = [];
  for (const run of runs) {
    const last = joined.at(-1);
    const isFew = last && [last, run].every(({ dates: [first, ...others] }) => others.length + 1 < ROW && dateIn(first));
    if (isFew) last.dates.push(...run.dates);
    else joined.push(run);
  }
  return joined.map(({ name, dates: all }) => [month(all.at(-1)) === name ? name : span(all), all.length]);
}

function span(dates) {
  const [first, last] = [dates[0], dates.at(-1)].sort().map(dateIn);
  return new Intl.DateTimeFormat(locale, MONTH).formatRange(first, last);
}

/** A year or month as a filter: "2021", "2021-03". */
export function period(text) {
  return text.length < 7 ? text : month(`${text}-01`);
}

/** The short name of a month: "2021-03". */
export function shortMonth(text) {
  return dated(`${text}-01`, { month: "short" });
}

function dateIn(text) {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? [];
  return year ? new Date(year, month - 1, day) : null;
}

function dated(text, options) {
  const date = dateIn(text);
  return date ? new Intl.DateTimeFormat(locale, options).format(date) : text ?? "";
}

/** Names in a sentence: "a, b and c". */
export function listOf(names) {
  return new Intl.ListFormat(locale).format(names);
}
