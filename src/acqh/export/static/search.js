// A query becomes an answer, as in the service: words are looked up, meaning is searched for, and
// one ranking is made of both.

import { Codes } from "./codes.js";
import { sortedBy } from "./dom.js";
import { fetchBytes, fetchJson } from "./load.js";
import { Lookup, readWords } from "./lookup.js";
import { Pieces } from "./pieces.js";
import { compare, fuse, lengthOf, matchOf, matchOfBoth } from "./rank.js";

const POOL = 100; // both rankings are read this far at least
const SOME_POOL = 30; // of items that have some of the words
const UNLIKE_WEIGHT = 0.5;
const COLUMNS = [["keywords", [0, 1, 3]], ["labels", [2]]]; // where a word may stand, and what that is called

/** A site, searched by the visitor's browser. */
export class Engine {
  constructor(facts) {
    this.facts = facts;
  }

  // --- what is fetched when it is first needed ---------------------------------------------------

  async codes() {
    const { codes } = this.facts;
    return (this.kept ??= Promise.all(["codes", "codebooks", "likeness"].map((name) => fetchBytes(codes[name])))
      .then((files) => new Codes(codes, ...files)));
  }

  async words() {
    return this.facts.words && (this.lookup ??= Lookup.load(this.facts.words));
  }

  async pieces() {
    return this.facts.text && (this.tower ??= Pieces.load(this.facts.text));
  }

  /** Forget what could not be fetched, so that it is tried again. */
  forget() {
    this.kept = this.lookup = this.tower = undefined;
  }

  /** An item as the page shows it. */
  async item(place) {
    const { files, per_file: n } = this.facts.items;
    const row = (await fetchJson(files[Math.floor(place / n)]))[place % n];
    return { file: null, original: null, name: "", ...row, thumbnail: pictureOf(row.image) };
  }

  /** The place of the item that has an id, or null. */
  async placeOf(id) {
    const { ids, id_length: n } = this.facts.items;
    const all = new TextDecoder().decode(await fetchBytes(ids));
    for (let at = all.indexOf(id); at >= 0; at = all.indexOf(id, at + 1)) if (at % n === 0) return at / n;
    return null;
  }

  // --- answers -----------------------------------------------------------------------------------

  async search(body, signal) {
    const started = performance.now();
    const codes = await this.codes();
    const asked = await this.#read(body, codes);
    const encoded = performance.now();
    const { allowed, n: n_candidates } = await this.#select(body.where, asked.words);
    const pool = asked.words ? Math.max(body.k, POOL) : body.k;
    const isOther = (place) => !asked.own.has(place);
    const ranked = asked.vector ? await codes.best(asked.vector, pool + asked.own.size, allowed, signal) : { items: [], scores: [] };
    const meaning = ranked.items.map((place, at) => [place, ranked.scores[at]]).filter(([place]) => isOther(place)).slice(0, pool);
    let match = this.#rate(asked, new Map(meaning));
    let best = meaning.slice(0, body.k).map(([place, score]) => ({ place, score, parts: null }));
    const why = new Map();
    if (asked.words) {
      const found = await this.#findWords(asked.words, pool + asked.own.size, allowed);
      const own = found.hits.filter(({ place }) => isOther(place));
      const others = own.slice(0, own.filter(({ complete }) => complete).length + Math.max(body.k, SOME_POOL));
      const items = await Promise.all(others.map(({ place }) => this.item(place)));
      const byWords = compare(asked.words, others, items);
      const scores = asked.vector ? codes.scores(asked.vector, others.map(({ place }) => place)) : [];
      match = this.#rate(asked, new Map([...meaning, ...scores]));
      best = fuse(match, byWords, body.k, asked.isText);
      for (const { place, parts } of best) match.set(place, matchOfBoth(...parts.map(([, worth]) => worth)));
      for (const { place } of best) why.set(place, reasons(found.phrases, place));
    }
    if (asked.given.size) for (const [place] of meaning) why.set(place, [...(why.get(place) ?? []), "semantic"]);
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
    const explanation = body.explain ? explain(codes, asked.vector, best) : null;
    return this.#answer(hits, n_candidates, asked.vector ? codes.n_items : 0, times, explanation);
  }

  async browse({ k, where, order, descending }) {
    const started = performance.now();
    const { allowed, n } = await this.#select(where, null);
    const n_items = this.facts.codes.n_items;
    let places = Array.from({ length: n_items }, (_, place) => place).filter((place) => !allowed || allowed[place]);
    if (order) {
      const values = await fetchJson(this.facts.items.fields[order]);
      places = sortedBy(places, (place) => values[place], descending);
    }
    const items = await Promise.all(places.slice(0, k).map((place) => this.item(place)));
    const total = performance.now() - started;
    const hits = items.map((item) => ({ ...item, score: 0, match: 0, why: [], code: [] }));
    return this.#answer(hits, n, 0, { encode: 0, search: 0, items: total, total }, null);
  }

  /** An answer with the fields of the server's. */
  #answer(hits, n_candidates, n_scanned, milliseconds, explanation) {
    const { n_items, n_codebooks: bytes_per_item } = this.facts.codes;
    const n_confident = hits.filter(({ match }) => match > 0.5).length;
    return { hits, n_confident, n_items, n_candidates, n_scanned, bytes_per_item, milliseconds, explanation };
  }

  // --- steps -------------------------------------------------------------------------------------

  /** What is searched for: words to look up, and a vector. */
  async #read({ text, item = [], unlike = [], weights = {}, mode = "hybrid" }, codes) {
    const [lookup, pieces] = text ? await Promise.all([this.words(), this.pieces()]) : [];
    const parts = [];
    let words = null;
    if (text && lookup && mode !== "semantic" && weights.text !== 0) {
      words = readWords(text);
      words.isWord = (term) => mode === "hybrid" && Boolean(pieces?.isWord(term));
    }
    const said = words ? words.said || words.terms.join(" ") : text;
    const isUnwanted = words && !said && words.phrases.length + words.without.length > 0;
    const asked = words ? [...words.phrases, ...words.terms].join("") : "";
    const isSymbols = asked && !/[\p{L}\p{N}]/u.test(asked);
    if (text && pieces && mode !== "keyword" && !isUnwanted && !isSymbols) parts.push(["text", [pieces.vector(said || text)]]);
    const own = new Set();
    for (const [name, ids] of [["item", item], ["unlike", unlike]]) {
      const places = await Promise.all(ids.map((id) => this.placeOf(id)));
      for (const place of places) own.add(place);
      if (places.length) parts.push([name, places.map((place) => codes.queryOf(place))]);
    }
    const { vector, given } = mixed(parts, weights, codes.n_components);
    return { words, vector, own, given, isText: [...given].every((name) => name === "text") };
  }

  /** One for each item that may be found, and how many; null for all. */
  async #select(where, words) {
    const n_items = this.facts.codes.n_items;
    const sets = [];
    for (const label of [where?.label ?? []].flat()) sets.push(await this.#having(label));
    const lookup = words && (words.phrases.length || words.without.length) ? await this.words() : null;
    for (const phrase of lookup ? words.phrases : []) sets.push(new Set((await lookup.phrase(phrase)).keys()));
    const unwanted = lookup ? await Promise.all(words.without.map((phrase) => lookup.phrase(phrase))) : [];
    if (!sets.length && !unwanted.length) return { allowed: null, n: n_items };
    const allowed = new Uint8Array(n_items);
    let n = 0;
    for (let place = 0; place < n_items; place += 1) {
      const isMet = sets.every((set) => set.has(place)) && !unwanted.some((found) => found.has(place));
      if (isMet) n += allowed[place] = 1;
    }
    return { allowed, n };
  }

  async #having(label) {
    const { all, items } = this.facts.labels;
    const at = all.findIndex(({ name }) => name === label);
    let place = 0;
    return new Set(at < 0 ? [] : (await fetchJson(items))[at].map((step) => (place += step)));
  }

  /** Items that have the words, those that have all of them first; and where words stand. */
  async #findWords(words, k, allowed) {
    const lookup = await this.words();
    const [known, phrases] = await Promise.all([
      lookup.know(words.terms, words.isWord),
      Promise.all(words.phrases.map((phrase) => lookup.phrase(phrase))),
    ]);
    const terms = known.filter(Boolean);
    const all = [...phrases, ...terms.flat()];
    if (!all.length) return { hits: [], phrases: [] };
    const hasTerm = (place) => (found) => found.some((each) => each.has(place));
    const isAllowed = (place) => (!allowed || allowed[place]) && phrases.every((found) => found.has(place));
    const places = [...new Set(all.flatMap((found) => [...found.keys()]))].filter(isAllowed);
    const ranks = lookup.ranks(all, places);
    const isComplete = (place) => terms.length === words.terms.length && terms.every(hasTerm(place));
    const some = places.filter((place) => !terms.length || terms.some(hasTerm(place)));
    const order = (one, other) => other.complete - one.complete || one.rank - other.rank || one.place - other.place;
    const hits = some.map((place) => ({ place, rank: ranks.get(place), complete: isComplete(place) }));
    return { hits: hits.sort(order).slice(0, k), phrases: all };
  }

  /** How far items stand out by meaning. */
  #rate({ vector, given }, scores) {
    if (!vector) return new Map();
    const { text, item, squares } = this.facts.levels;
    const limit = (given.size === 1 && given.has("text") ? text : item) * lengthOf(vector, squares);
    return new Map([...scores].map(([place, score]) => [place, matchOf(score, limit)]));
  }
}

/** The address of a small image by its number; null where there is none. */
export function pictureOf(number) {
  return Number.isInteger(number) ? `images:${number}` : null;
}

/** One vector of all parts, weighed; null where nothing of them is known. */
function mixed(parts, weights, n) {
  const vector = new Float32Array(n);
  const given = new Set();
  let total = 0;
  for (const [name, found] of parts) {
    given.add(name);
    const known = found.filter(Boolean);
    const weight = weights[name] ?? (name === "unlike" ? UNLIKE_WEIGHT : 1);
    for (const each of known) each.forEach((value, at) => (vector[at] += ((name === "unlike" ? -1 : 1) * weight * value) / known.length));
    if (known.length && name !== "unlike") total += weight;
  }
  return { vector: total ? vector.map((value) => value / total) : null, given };
}

function reasons(phrases, place) {
  const stands = (columns) => phrases.some((found) => columns.some((column) => found.get(place)?.[column]));
  return COLUMNS.filter(([, columns]) => stands(columns)).map(([name]) => name);
}

/** How scores came about, as the panel wants it. */
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
