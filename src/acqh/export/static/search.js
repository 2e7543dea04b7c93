// Search as on the server: keywords, semantic similarity, and one ranking of both.

import { Codes } from "./codes.js";
import { sortedBy } from "./dom.js";
import { FastTextEncoder } from "./encoder.js";
import { fetchBytes, fetchJson } from "./load.js";
import { findFiles, isFileName, isTelling, Lookup, readWords } from "./lookup.js";
import { conditionsOf, findPeriod } from "./periods.js";
import { compare, fuse, lengthOf, matchOf, matchOfBoth, noPhotos, withDetected, withFiles } from "./rank.js";
import { ResponseError, titleOf } from "./errors.js";
import { t } from "./language.js";
import { Spelling } from "./spelling.js";
import { isSign } from "./tokens.js";

const POOL = 100; // both rankings are read this far at least
const SOME_POOL = 30; // items with some of the words
const UNLIKE_WEIGHT = 0.5;
const NEGATED_WEIGHT = 0.65; // of what follows "-" or "not"
// Reasons, by columns of the full-text indexes.
const COLUMNS = [["keywords", [0, 1, 3]], ["labels", [2]]];
const DETECTED_COLUMNS = [["tags", [0]], ["text in image", [1]]];
const CONFIDENT = 0.5;

/** A site, searched by the visitor's browser. */
export class Engine {
  constructor(facts) {
    this.facts = facts;
  }

  // --- files that are fetched when they are first needed ------------------------------------------

  async codes() {
    const { codes } = this.facts;
    return (this.loadedCodes ??= Promise.all(["codes", "codebooks", "likeness"].map((name) => fetchBytes(codes[name])))
      .then((files) => new Codes(codes, ...files)));
  }

  /** The full-text index of what people wrote, and that of detected metadata. */
  async indexes() {
    return (this.lookups ??= Promise.all([Lookup.load(this.facts.words), Lookup.load(this.facts.detected, true)]));
  }

  async encoder() {
    return this.facts.text && (this.loadedEncoder ??= FastTextEncoder.load(this.facts.text));
  }

  /** Lists of words of a text encoder. */
  async spelling(encoder) {
    return (this.loadedSpelling ??= Spelling.load(this.facts.text.spelling, encoder.tokens));
  }

  /** Fetch missing files again. */
  forget() {
    this.loadedCodes = this.loadedSpelling = this.lookups = this.loadedEncoder = undefined;
  }

  /** An item with the fields of the server's. */
  async item(place) {
    const { files, per_file: n } = this.facts.items;
    const row = (await fetchJson(files[Math.floor(place / n)]))[place % n];
    return { file: null, original: null, name: "", ...row, thumbnail: pictureOf(row.image) };
  }

  /** The place of an item by its id, or null. */
  async placeOf(id) {
    const { ids, id_length: n } = this.facts.items;
    const all = new TextDecoder().decode(await fetchBytes(ids));
    for (let at = all.indexOf(id); at >= 0; at = all.indexOf(id, at + 1)) if (at % n === 0) return at / n;
    return null;
  }

  // --- answers -----------------------------------------------------------------------------------

  async search(asked, signal) {
    const started = performance.now();
    const period = await this.#period(asked);
    const filters = period ? [{ text: period.text, where: conditionsOf(period) }] : [];
    const body = period ? { ...asked, text: period.rest || undefined, period } : asked;
    if (period && !(body.text || body.item || body.unlike)) {
      const answer = await this.#newest(body);
      return { ...answer, filters, hits: answer.hits.map((hit) => ({ ...hit, match: 1, why: ["date"] })), n_confident: answer.hits.length };
    }
    const codes = await this.codes();
    const query = await this.#read(body, codes);
    const encoded = performance.now();
    const { allowed, n: n_candidates } = await this.#select(body, query.words);
    const pool = query.words ? Math.max(body.k, POOL) : body.k;
    const isOther = (place) => !query.excluded.has(place);
    const ranked = query.vector ? await codes.best(query.vector, pool + query.excluded.size, allowed, signal) : { items: [], scores: [] };
    const meaning = ranked.items.map((place, at) => [place, ranked.scores[at]]).filter(([place]) => isOther(place)).slice(0, pool);
    let match = this.#rate(query, new Map(meaning));
    let best = meaning.slice(0, body.k).map(([place, score]) => ({ place, score, parts: null }));
    const why = new Map();
    if (query.words) {
      const [n_most, n_some] = [pool + query.excluded.size, Math.max(body.k, SOME_POOL)];
      const [lookup, detectedLookup] = await this.indexes();
      const written = await findWords(lookup, query.words, n_most, n_some + query.excluded.size, allowed);
      const detected = await findWords(detectedLookup, query.words, n_most, n_some + query.excluded.size, allowed, true);
      const files = await this.#files(asked.text, (place) => isOther(place) && (!allowed || allowed[place]), pool);
      const withWritten = detected.hits.length ? withDetected(written.hits, detected.hits) : written.hits;
      const found = withFiles(withWritten, files).filter(({ place }) => isOther(place));
      const hits = found.slice(0, found.filter(({ complete }) => complete).length + n_some);
      const items = await Promise.all(hits.map(({ place }) => this.item(place)));
      const withWords = hits.map(({ place }) => place);
      const scores = query.vector ? codes.scores(query.vector, withWords) : [];
      match = this.#rate(query, new Map([...meaning, ...scores]));
      const isText = query.kinds.size === 1 && query.kinds.has("text");
      const demoted = isText ? noPhotos(await this.#others(), meaning.map(([place]) => place), withWords) : [];
      for (const place of demoted) if (match.get(place) <= CONFIDENT) match.set(place, match.get(place) / 2);
      best = fuse(match, withFiles(compare(query.words, hits, items), files), body.k, query.isText);
      for (const { place, parts } of best) match.set(place, matchOfBoth(...parts.map(([, part]) => part)));
      for (const { place } of best) {
        why.set(place, [...(files.has(place) ? ["file name"] : []), ...reasons(written.phrases, place, COLUMNS), ...reasons(detected.phrases, place, DETECTED_COLUMNS)]);
      }
    }
    if (query.kinds.size) for (const [place] of meaning) why.set(place, [...(why.get(place) ?? []), "semantic"]);
    const searched = performance.now();
    const hits = await Promise.all(best.map(async ({ place, score }) => ({
      ...(await this.item(place)),
      score,
      match: match.get(place) ?? 0,
      why: why.get(place) ?? [],
      code: [...codes.code(place)],
    })));
    const end = performance.now();
    const times = { encode: encoded - started, search: searched - encoded, items: end - searched, total: end - started };
    const explanation = body.explain ? explain(codes, query.vector, best) : null;
    const answer = this.#answer(hits, n_candidates, query.vector ? codes.n_items : 0, times, explanation);
    const { unmatched = [], corrections = new Map() } = query.words ?? {};
    const correctedText = corrections.size ? corrected(asked.text, corrections) : null;
    return { ...answer, filters, corrected: correctedText, unmatched_phrases: unmatched, missing_extra: query.isOther ? "languages" : null };
  }

  async browse({ k, where, order, descending }) {
    const started = performance.now();
    const { allowed, n } = await this.#select({ where }, null);
    const n_items = this.facts.codes.n_items;
    let places = Array.from({ length: n_items }, (_, place) => place).filter((place) => !allowed || allowed[place]);
    if (order) {
      const values = await fetchJson(this.facts.items.fields[order]);
      places = sortedBy(places, (place) => values[place], descending);
    }
    return this.#listed(places, k, n, started);
  }

  /** Items of a period, the newest first. */
  async #newest(body) {
    const started = performance.now();
    const { allowed, n } = await this.#select(body, null);
    const { places } = await fetchJson(this.facts.dates);
    return this.#listed(places.flat().filter((place) => allowed[place]), body.k, n, started);
  }

  /** The first items as an answer. */
  async #listed(places, k, n_candidates, started) {
    const items = await Promise.all(places.slice(0, k).map((place) => this.item(place)));
    const total = performance.now() - started;
    const hits = items.map((item) => ({ ...item, score: 0, match: 0, why: [], code: [] }));
    return this.#answer(hits, n_candidates, 0, { encode: 0, search: 0, items: total, total }, null);
  }

  /** An answer with the fields of the server's. */
  #answer(hits, n_candidates, n_scanned, milliseconds, explanation) {
    const { n_items, n_codebooks: bytes_per_item } = this.facts.codes;
    const n_confident = hits.filter(({ match }) => match > 0.5).length;
    return { hits, n_confident, n_items, n_candidates, n_scanned, bytes_per_item, milliseconds, explanation, filters: [], corrected: null, unmatched_phrases: [], missing_extra: null };
  }

  // --- steps -------------------------------------------------------------------------------------

  /** The period that a text names, if items have dates: of a year alone, in this year. */
  async #period({ text, mode, dates = true }) {
    if (!text || !dates || mode === "semantic" || !this.facts.dates) return null;
    const period = findPeriod(text, await fetchJson(this.facts.periods));
    if (period && [...(await this.#files(text)).values()].includes(true)) return null;
    return period && (!period.isYear || (await this.#dated(period)).size) ? period : null;
  }

  /** At most k items whose files a text may name, whole names first, and whether it is the whole name. */
  async #files(text, isAllowed = () => true, k = Infinity) {
    if (!this.facts.files || !isFileName(text)) return new Map();
    const found = [...findFiles(await fetchJson(this.facts.files), text)].filter(([place]) => isAllowed(place));
    return new Map([...found.filter(([, isWhole]) => isWhole), ...found.filter(([, isWhole]) => !isWhole)].slice(0, k));
  }

  /** Items with a date in a period. */
  async #dated({ start, end }) {
    const { days, places } = await fetchJson(this.facts.dates);
    return new Set(days.flatMap((day, at) => (day >= start && (!end || day < end) ? places[at] : [])));
  }

  /** Parse a query: its keywords and its vector. */
  async #read({ text, item = [], unlike = [], weights = {}, mode = "hybrid" }, codes) {
    const encoder = text ? await this.encoder() : null;
    const parts = [];
    let words = text && mode !== "semantic" && weights.text !== 0 ? readWords(text) : null;
    const meantBy = (read) => (read ? read.said || read.terms.join(" ") : text);
    const isUnwanted = words && !meantBy(words) && words.phrases.length + words.without.length > 0;
    const typed = words ? [...words.phrases, ...words.terms].join("") : "";
    const isSymbols = typed && !/[\p{L}\p{N}]/u.test(typed);
    const isEncoded = text && encoder && mode !== "keyword" && !isUnwanted && !isSymbols;
    const isOther = isEncoded && !(await (await this.spelling(encoder)).isEnglish(meantBy(words) || text));
    if (isOther && !words) throw new ResponseError(422, titleOf(422), t("error.notEnglish"));
    if (words) {
      const spelling = mode === "hybrid" && encoder ? await this.spelling(encoder) : null;
      words = await this.#settled(words, isOther ? null : spelling);
      words.isWord = (term) => Boolean(spelling) && encoder.isWord(term);
      words.isForeign = (term) => Boolean(spelling) && spelling.isForeign(term);
    }
    if (isEncoded && !isOther) parts.push(["text", [encoder.vector(meantBy(words) || text)]]);
    const excluded = new Set();
    for (const [name, ids] of [["item", item], ["unlike", unlike]]) {
      const places = await Promise.all(ids.map((id) => this.placeOf(id)));
      for (const place of places) excluded.add(place);
      if (places.length) parts.push([name, places.map((place) => codes.queryOf(place))]);
    }
    const { vector, kinds } = mixed(parts, weights, codes.n_components);
    const unwanted = vector && kinds.has("text") && words?.unlike ? encoder.vector(words.unlike) : null;
    if (unwanted) {
      const length = NEGATED_WEIGHT * (Math.hypot(...vector) / Math.max(Math.hypot(...unwanted), 1e-9));
      for (let at = 0; at < vector.length; at += 1) vector[at] -= length * unwanted[at];
    }
    return { words, vector, excluded, kinds, isOther, isText: [...kinds].every((name) => name === "text") };
  }

  /**
   * A query with typos corrected, and without the phrases that no item has, whose words become terms.
   *
   * @param {object} words see `readWords`
   * @param {?Spelling} spelling null to correct nothing
   */
  async #settled(words, spelling) {
    const isMissing = async (phrase) => !(await this.#having(phrase)).size;
    const [lookup] = await this.indexes();
    const missing = await Promise.all(words.phrases.map(isMissing));
    const corrections = new Map();
    for (const term of spelling ? words.terms : []) {
      const word = (await isMissing(term)) ? await spelling.correct(term) : null;
      // Half a word at the end is none.
      const isLast = term === words.terms.at(-1) && words.said.endsWith(term) && word !== null;
      if (word === null || (isLast && spelling.beginsWord(term)) || (await lookup.begins(term, words.terms.length))) continue;
      corrections.set(term, word);
    }
    const unmatched = words.phrases.filter((_, at) => missing[at]);
    if (!unmatched.length && !corrections.size) return { ...words, unmatched, corrections };
    const added = unmatched.flatMap((phrase) => phrase.split(/\s+/u)).filter((word) => word && isTelling(word));
    const terms = [...new Set([...words.terms.map((term) => corrections.get(term) ?? term), ...added])];
    const phrases = words.phrases.filter((_, at) => !missing[at]);
    const spoken = terms.filter((term) => !isSign(term));
    return { ...words, unmatched, corrections, terms, spoken, phrases, said: corrected(words.said, corrections) };
  }

  /** 1 for each item that meets the filter, and their number; null for all. */
  async #select({ where, period }, words) {
    const n_items = this.facts.codes.n_items;
    const sets = period ? [await this.#dated(period)] : [];
    for (const label of [where?.label ?? []].flat()) sets.push(await this.#labelled(label));
    for (const [name, value] of Object.entries(where ?? {})) if (name !== "label") sets.push(await this.#valued(name, value));
    if (words?.phrases.length) sets.push(await this.#havingAll(words.phrases));
    const unwanted = await Promise.all((words?.without ?? []).map((phrase) => this.#having(phrase)));
    if (!sets.length && !unwanted.length) return { allowed: null, n: n_items };
    const allowed = new Uint8Array(n_items);
    let n = 0;
    for (let place = 0; place < n_items; place += 1) {
      const isMet = sets.every((set) => set.has(place)) && !unwanted.some((found) => found.has(place));
      if (isMet) n += allowed[place] = 1;
    }
    return { allowed, n };
  }

  /** Items with a date in a year or month, a kind or a suggested tag, where these are published. */
  async #valued(name, wanted) {
    const column = this.facts.items.fields[name === "tag" ? "tags" : name];
    const values = column ? await fetchJson(column) : [];
    const isMet = (value) => (name === "date" ? value?.startsWith(wanted) : name === "tag" ? value.includes(wanted) : value === wanted);
    return new Set(values.flatMap((value, place) => (isMet(value) ? [place] : [])));
  }

  /** Items that have a phrase, in what people wrote or in detected metadata. */
  async #having(phrase) {
    const found = await Promise.all((await this.indexes()).map((lookup) => lookup.phrase(phrase)));
    return new Set(found.flatMap((one) => [...one.keys()]));
  }

  /** Items that have all phrases, in what people wrote or in detected metadata. */
  async #havingAll(phrases) {
    const indexes = await this.indexes();
    const sets = await Promise.all(indexes.map(async (lookup) => {
      const [first, ...others] = await Promise.all(phrases.map((phrase) => lookup.phrase(phrase)));
      return [...first.keys()].filter((place) => others.every((found) => found.has(place)));
    }));
    return new Set(sets.flat());
  }

  /** Items that are screenshots, scans and drawings, where kinds are published. */
  async #others() {
    let place = 0;
    return (this.otherKinds ??= new Set(this.facts.others ? (await fetchJson(this.facts.others)).map((step) => (place += step)) : []));
  }

  async #labelled(label) {
    const { all, items } = this.facts.labels;
    const at = all.findIndex(({ name }) => name === label);
    let place = 0;
    return new Set(at < 0 ? [] : (await fetchJson(items))[at].map((step) => (place += step)));
  }

  /** Semantic confidence of items by their scores. */
  #rate({ vector, kinds }, scores) {
    if (!vector) return new Map();
    const { text, item, text_length: length, squares } = this.facts.levels;
    const isText = kinds.size === 1 && kinds.has("text");
    const limit = (isText ? text : item) * lengthOf(vector, squares, isText ? length : 0.5);
    return new Map([...scores].map(([place, score]) => [place, matchOf(score, limit)]));
  }
}

/**
 * Items that have the words, those with all of them first; and the occurrences of words.
 *
 * @param {Lookup} lookup
 * @param {object} words see `readWords`
 * @param {number} k most items
 * @param {number} n_some most of those that have only some of the words
 * @param {?Uint8Array} allowed
 * @param {boolean} isDetected whether only the words as they are count
 */
async function findWords(lookup, words, k, n_some, allowed, isDetected = false) {
  const asIs = (term) => lookup.phrase(term).then((found) => [found]);
  const [resolved, phrases] = await Promise.all([
    isDetected ? Promise.all(words.terms.map(asIs)) : lookup.resolve(words.terms, words),
    Promise.all(words.phrases.map((phrase) => lookup.phrase(phrase))),
  ]);
  const terms = resolved.filter(Boolean);
  const all = [...phrases, ...terms.flat()];
  const hasTerm = (place) => (found) => found.some((postings) => postings.has(place));
  const isAllowed = (place) => (!allowed || allowed[place]) && phrases.every((found) => found.has(place));
  const places = [...new Set(all.flatMap((found) => [...found.keys()]))].filter(isAllowed);
  const ranks = lookup.ranks(all, places);
  const isComplete = (place) => terms.length === words.terms.length && terms.every(hasTerm(place));
  const some = places.filter((place) => !terms.length || terms.some(hasTerm(place)));
  const order = (one, other) => one.rank - other.rank || one.place - other.place;
  const hits = some.map((place) => ({ place, rank: ranks.get(place), complete: isComplete(place), isDetected })).sort(order);
  const first = hits.filter(({ complete }) => complete).slice(0, k);
  const others = hits.filter(({ complete }) => !complete).slice(0, Math.min(k - first.length, n_some));
  return { hits: [...first, ...others], phrases: all };
}

/** A text with some of its words corrected. */
function corrected(text, corrections) {
  return text.trim().split(/\s+/u).map((word) => corrections.get(word) ?? word).join(" ");
}

/** The address of a thumbnail by its number; null if there is none. */
export function pictureOf(number) {
  return Number.isInteger(number) ? `images:${number}` : null;
}

/** The weighted mean of all parts; null if none has a vector. */
function mixed(parts, weights, n) {
  const vector = new Float32Array(n);
  const kinds = new Set();
  let total = 0;
  for (const [name, vectors] of parts) {
    kinds.add(name);
    const present = vectors.filter(Boolean);
    const weight = weights[name] ?? (name === "unlike" ? UNLIKE_WEIGHT : 1);
    for (const part of present) part.forEach((value, at) => (vector[at] += ((name === "unlike" ? -1 : 1) * weight * value) / present.length));
    if (present.length && name !== "unlike") total += weight;
  }
  return { vector: total ? vector.map((value) => value / total) : null, kinds };
}

function reasons(phrases, place, names) {
  const stands = (columns) => phrases.some((found) => columns.some((column) => found.get(place)?.[column]));
  return names.filter(([, columns]) => stands(columns)).map(([name]) => name);
}

/** The parts of the scores. */
function explain(codes, vector, best) {
  const { n_codebooks: n, codebook_size: size } = codes;
  const flat = vector ? codes.tables(vector) : new Float32Array(0);
  const tables = vector ? Array.from({ length: n }, (_, book) => [...flat.slice(book * size, (book + 1) * size)]) : [];
  const names = best[0]?.parts ? best[0].parts.map(([name]) => name) : tables.map((_, book) => `codebook ${book + 1}`);
  const hits = best.map(({ place, parts }) => {
    const code = vector ? [...codes.code(place)] : [];
    const entries = code.map((codeword, book) => tables[book][codeword]);
    return { codes: code, entries, parts: parts ? parts.map(([, part]) => part) : entries };
  });
  return { query: vector ? [...vector] : [], tables, names, hits };
}
