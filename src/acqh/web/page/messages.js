// Names of items and sentences about results.

import { day, hasString, listOf, percent, period, t } from "./language.js";
import { asks } from "./query.js";

const LONGEST = 40;
const CONFIDENT = 0.5; // matches above are confident
// Matches up to here are faded: a clear gap. Of right hits of labels, 4 % are, on photos of COCO and of Flickr.
const FADED = 0.35;
const EXCLUSIONS = /^(-("[^"]*"|\S+)\s*)+$/; // only words to exclude
const DATES = /^(date|datetime|taken|created|time|timestamp|year)/i;

/** The name of an item: the first words of its caption, its file's name, its date, its place or its id. */
export function nameOf(item, id, place = null) {
  const caption = (item?.text ?? "").split(/[,;.:(]\s/)[0].trim() || item?.name || fileOf(item) || (item && day(dateOf(item)));
  const unnamed = place === null ? t("name.image") : t("tile.unnamed", { n: place + 1 });
  return shortOf(caption || (item?.thumbnail ? unnamed : id));
}

function fileOf(item) {
  return (item?.file ?? "").split(/[/\\]/).at(-1);
}

/** A text of any length, short enough for a button. */
export function shortOf(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** The caption of an item, or else the words in its file's name: hashes and counters are none. */
export function captionOf(item) {
  return item.text || item.name;
}

/** The caption of an item, or else its file's name, its date, its place or its id. */
export function titleOfItem(item, place = null) {
  return captionOf(item) || nameOf(item, item.id, place);
}

/** The date of an item as it is stored, or null. */
export function dateOf(item) {
  if (item.date || !item.fields) return item.date || null;
  const column = dateColumnOf([item]);
  return column && String(item.fields[column]);
}

/** Whether a hit is a confident match. */
export function isConfident({ match }) {
  return match > CONFIDENT;
}

/** Whether a hit is clearly weaker than confident ones. */
export function isFaded({ match }) {
  return match <= FADED;
}

/** Whether a hit shows the image of the query. */
export function isSame({ why }) {
  return why?.includes("same image") ?? false;
}

/** The confidence of a hit, as its tile shows it; empty if its reason is enough. */
export function confidenceOf(hit) {
  if (hit.match < 1) return percent(hit.match);
  if (isSame(hit)) return t("tile.same");
  return ["date", "file name"].includes(hit.why?.[0]) ? "" : t("tile.allWords");
}

/** Why a hit is a result; empty for items that were not searched for. */
export function reasonsOf({ why }) {
  return (why ?? []).map((name) => (hasString(`why.${name}`) ? t(`why.${name}`) : name)).join(", ");
}

/** The confidence of a hit and its reasons, in a line. */
export function matchLineOf(hit) {
  const values = { match: percent(hit.match), why: reasonsOf(hit) };
  if (!values.why) return "";
  if (hit.match === 1 && !isSame(hit)) return confidenceOf(hit) ? t("detail.allWords", values) : "";
  return t(isConfident(hit) ? "detail.confident" : "detail.weak", values);
}

/** How many hits are confident matches, unless all are. */
export function verdictOf(hits) {
  const n = hits.filter(isConfident).length;
  if (!n) return t("verdict.none");
  return n === hits.length ? "" : t("verdict.some", { n });
}

/** What was searched for instead of what was typed. */
export function notesOf({ corrected, unmatched_phrases: phrases, missing_extra: extra }, { is_site: isSite }) {
  const notes = [];
  if (corrected) notes.push(t("note.corrected", { query: corrected }));
  if (phrases?.length) notes.push(t("note.unmatched", { phrases: phrases.map((phrase) => t("note.phrase", { phrase })).join(", ") }));
  if (extra && isSite) notes.push(t("note.notEnglish"));
  else if (extra) notes.push(t("note.extra", { extra: `acqh[${extra}]` }));
  return notes.join(" ");
}

/** The name of items' dates, or null: "date", or a field. */
export function dateColumnOf(items) {
  if (items.some(({ date }) => date)) return "date";
  for (const { fields } of items) {
    for (const name of Object.keys(fields)) if (DATES.test(name) && fields[name] !== null) return name;
  }
  return null;
}

/** The query in a few words; `items` are the known ones by id. */
export function titleOf(query, items) {
  const names = (ids) => listOf(ids.map((id) => nameOf(items.get(id), id)));
  const parts = [query.text.trim(), ...query.pictures.map(({ name }) => name)];
  if (query.items.length) parts.push(t("search.moreLike", { names: names(query.items) }));
  const title = parts.filter(Boolean).join(" + ");
  return query.unlike.length ? `${title}, ${t("search.lessLike", { names: names(query.unlike) })}` : title;
}

/** The number of items, and whether retraining is recommended. */
export function factsOf({ n_items, drift }) {
  const items = t("facts.items", { n: n_items });
  return drift?.retraining_recommended ? t("facts.retrain", { items }) : items;
}

/** The number of results and the query. */
export function summaryOf(query, items, { hits, n_candidates }) {
  if (!hits.length) return t("results.none");
  const n_excluded = new Set([...query.items, ...query.unlike]).size; // an item is no result of its own query
  const isAll = hits.length + n_excluded >= n_candidates;
  const some = asks(query) ? "results.best" : "results.first";
  let results = isAll ? t("results.all", { n: hits.length }) : t(some, { shown: hits.length, n: n_candidates });
  const labels = [...query.labels.map(shortOf), query.tag].filter(Boolean);
  if (labels.length) results = t("results.labelled", { results, labels: listOf(labels) });
  const others = [query.kind && t(`kind.${query.kind}`), query.only && t(`flag.${query.only}`), query.period && period(query.period)];
  results = [results, ...others.filter(Boolean)].join(", ");
  return asks(query) ? t("results.query", { results, query: titleOf(query, items) }) : results;
}

/** Why there are no results, and what to do, as two sentences; `answer` is null at the start. */
export function whyEmpty(query, answer, facts) {
  if (!facts.n_items) return [t("empty.collection"), t("empty.collectionHow")];
  if (!answer) return [t("empty.start"), t(startOf(facts))];
  if (query.labels.length && !query.text.trim()) {
    return [t("empty.labels", { n: query.labels.length }), query.labels.map(shortOf).join(", ")];
  }
  if (answer.filters?.length) return [t("empty.dates"), t("empty.datesHow", { dates: listOf(answer.filters.map((filter) => filter.text)) })];
  const text = shortOf(query.text.trim() || query.labels.join(", "));
  if (EXCLUSIONS.test(query.text.trim())) return [t("empty.excluded", { text }), t("empty.excludedHow", { text })];
  return [t("empty.text", { text }), t(facts.encoders.image ? "empty.textHowImage" : "empty.textHow")];
}

/** The placeholder and the hint of the text field. */
export function hintsOf({ encoders: { text, image } }) {
  if (text && image) return [t("search.textOrImage"), t("search.hintImages")];
  if (text) return [t("search.text"), t("search.hint")];
  return image ? [t("search.imagesOnly"), t("search.imagesOnlyHow")] : [t("search.noText"), t("search.noTextHow")];
}

function startOf({ encoders: { text, image } }) {
  if (text) return image ? "empty.startBoth" : "empty.startText";
  return image ? "empty.startImage" : "empty.startItem";
}
