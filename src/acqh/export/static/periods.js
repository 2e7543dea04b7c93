// Dates in queries, as on the server: "march 2022", "last week". Words and patterns come from there.

const DAY = 86_400_000; // milliseconds
const DIGITS = /\p{Nd}{4}/u;
const QUOTED = /"[^"]*"/g;

/**
 * Find the first period of time that a query names; null if there is none.
 *
 * @param {string} text
 * @param {object} table words for periods: see `period_table` in Python
 * @param {Date} today
 * @returns {?{text: string, rest: string, start: string, end: string, isYear: boolean}}
 */
export function findPeriod(text, table, today = new Date()) {
  const lowered = text.toLowerCase();
  if (!table.hints.some((hint) => lowered.includes(hint)) && !DIGITS.test(text)) return null;
  const folded = [...text].map(foldLetter).join("").replaceAll("’", "'").replace(QUOTED, (quoted) => '"'.repeat(quoted.length));
  const now = dayOf(today.getFullYear(), today.getMonth() + 1, today.getDate());
  for (const match of folded.matchAll(new RegExp(table.pattern, "gu"))) {
    const found = Object.entries(match.groups).filter(([, part]) => part !== undefined);
    const parts = Object.fromEntries(found.map(([name, part]) => [name.replace(/[2-5]+$/, ""), part]));
    const range = rangeOf(parts, table, now);
    if (!range) continue; // such as 31 february
    let [start, end] = range.map(shortOf);
    if ("since" in parts) end = "";
    else if ("until" in parts) [start, end] = ["", start];
    else if ("after" in parts) [start, end] = [end, ""];
    const to = match.index + match[0].length;
    const rest = joined(`${text.slice(0, match.index)} ${text.slice(to)}`);
    const isPhotos = new RegExp(`^(?:${table.photos})$`, "u").test(rest.toLowerCase());
    return { text: joined(text.slice(match.index, to)), rest: isPhotos ? "" : rest, start, end, isYear: "year" in parts };
  }
  return null;
}

/** The conditions of a period, as filters name them. */
export function conditionsOf({ start, end }) {
  return { ...(start && { "date>=": start }), ...(end && { "date<": end }) };
}

const joined = (text) => text.trim().split(/\s+/u).join(" ");

/** A letter without case and mark, of the same length. */
function foldLetter(letter) {
  const [first] = letter.normalize("NFKD");
  const folded = first.toLowerCase();
  return folded.length === letter.length ? folded : letter;
}

/** The first day of a period and the first one after it, as milliseconds; null if it does not exist. */
function rangeOf(parts, table, now) {
  const number = (name) => Number(parts[name]);
  if (parts.iso) return days(...parts.iso.split("-").map(Number));
  if (parts.first) return bounds(days(number("first")), days(number("last")));
  if (parts.year) return days(number("year"));
  if (parts.number) return days(number("y"), number("number"), number("day"));
  if (parts.month) return days(number("y"), table.months[parts.month], parts.day && number("day"));
  const name = parts.season ?? parts.feast;
  if (name) return inYear(name, number("y"), table);
  if (parts.span) return relative(parts.span, table, now, ["this", "diese", "ce"].some((word) => parts.which.startsWith(word)));
  const start = now - (parts.yesterday ? DAY : 0);
  return [start, start + DAY];
}

const bounds = (first, last) => first && last && [first[0], last[1]];

/** This or the last weekend, week, month, year, season or feast, or the last March. */
function relative(span, table, now, isThis) {
  const [year, month] = [new Date(now).getUTCFullYear(), new Date(now).getUTCMonth()];
  const unit = table.units[span];
  if (!unit) {
    const yearly = [year + 1, year, year - 1, year - 2].map((one) => inYear(span, one, table));
    return yearly.find(([start, end]) => (isThis ? start : end) <= now);
  }
  const weekday = (new Date(now).getUTCDay() + 6) % 7; // 0 on Mondays
  if (unit === "weekend") {
    const saturday = now + DAY * (5 - weekday - (isThis ? 0 : 7));
    return [saturday, saturday + 2 * DAY];
  }
  if (unit === "week") {
    const start = now - DAY * (weekday + (isThis ? 0 : 7));
    return [start, start + 7 * DAY];
  }
  if (unit === "year") return days(year - (isThis ? 0 : 1));
  const months = 12 * year + month - (isThis ? 0 : 1);
  return days(Math.floor(months / 12), (months % 12) + 1);
}

/** A month, a season or a feast; the winter of a year begins in its December. */
function inYear(name, year, table) {
  if (name in table.months) return days(year, table.months[name]);
  if (name in table.feasts) {
    const [month, day, n] = table.feasts[name];
    const start = dayOf(year, month, day);
    return [start, start + n * DAY];
  }
  const month = table.seasons[name];
  return [dayOf(year, month, 1), dayOf(year, month + 3, 1)];
}

/** The bounds of a year, a month or a day; null if it does not exist. */
function days(year, month, day) {
  if (month === undefined) return [dayOf(year, 1, 1), dayOf(year + 1, 1, 1)];
  if (!(month >= 1 && month <= 12)) return null;
  if (day === undefined) return [dayOf(year, month, 1), dayOf(year, month + 1, 1)];
  const start = dayOf(year, month, day);
  return new Date(start).getUTCDate() === day ? [start, start + DAY] : null;
}

/** The beginning of a day, as if it were of universal time. */
function dayOf(year, month, day) {
  return Date.UTC(year, month - 1, day);
}

/** A day as the year or month that begins with it, if it does. */
function shortOf(moment) {
  return new Date(moment).toISOString().slice(0, 10).replace(/-01$/, "").replace(/-01$/, "");
}
