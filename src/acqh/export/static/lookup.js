// Keyword search as on the server: SQLite's BM25 over its full-text index.

import { fetchBytes, fetchJson } from "./load.js";
import { isSign, plain, tokens } from "./tokens.js";

const WEIGHTS = [1, 2, 1, 1]; // of a word in a text, a name, a label and as a sign
const DETECTED_WEIGHTS = [1, 0.5]; // of a word in suggested tags, and in the text in an image
const [SATURATION, LENGTHS, RAREST] = [1.2, 0.75, 1e-6];
const [SHORTEST_TYPO, LEAST_SIMILAR, MOST_TERMS] = [4, 0.4, 32];
const [MOST_BEGUN, MOST_COMPLETED] = [32, 128]; // words that one and all prefixes of a query are completed to
const TRANSPOSED = [3, 32]; // letters of words in which two may have changed places
const PART = /(?<sign>-?)(?:"(?<phrase>[^"]*)"|(?<word>\S+))/gu;
const NEGATION = /\s+(?:but\s+|and\s+)?(?:not|without)\s+/iu;
const COMMON = new Set(
  "a an and are as at be by for from has in into is it its of on or that the their this to was were which with".split(" "),
);
// An ending, three digits in a row or an underscore; shorter beginnings have too many files.
const FILE_NAME = /\.(?:[a-z]{3,4}|mp4)$|\d{3}|\w_\w?/i;
const SHORTEST_FILE_NAME = 5;
const SKIN_TONES = /[\u{1f3fb}-\u{1f3ff}]/gu;

/** Whether a word tells items apart. */
export const isTelling = (word) => !COMMON.has(word.toLowerCase());

/** Parse a query: phrases `"in quotes"` are required, `-word` is excluded, `not` is moved away from. */
export function readWords(typed) {
  const [text, negated] = splitNegated(plain(typed));
  const parts = { terms: [], phrases: [], without: [] };
  const said = []; // as typed, without signs: for semantic search
  for (const { groups } of text.matchAll(PART)) {
    const content = groups.phrase ?? groups.word;
    if (!groups.sign && (!isSign(content) || /\p{L}/u.test(content))) said.push(content);
    if (!isSign(content) && !/[\p{L}\p{N}]/u.test(content)) continue;
    parts[groups.sign ? "without" : groups.phrase === undefined ? "terms" : "phrases"].push(content);
  }
  const unlike = [...parts.without, negated].filter(Boolean).join(" ");
  const unwanted = negated.split(/\s+/u).filter((word) => word && isTelling(word));
  if (unwanted.length === 1) parts.without.push(...unwanted);
  const rare = parts.terms.filter(isTelling);
  const terms = rare.length || parts.phrases.length ? rare : parts.terms;
  const first = (many) => many.slice(0, MOST_TERMS);
  const query = { terms: first([...new Set(terms)]), phrases: first(parts.phrases), without: first(parts.without) };
  return { ...query, unlike, said: said.join(" "), spoken: query.terms.filter((term) => !isSign(term)) };
}

/** A text up to "not" or "without", and what follows; all of it if nothing is before. */
function splitNegated(text) {
  const found = NEGATION.exec(text);
  if (!found || !text.slice(0, found.index).trim() || text.includes('"')) return [text, ""];
  return [text.slice(0, found.index), text.slice(found.index + found[0].length)];
}

/** Whether a query may be the name of a file or its beginning: what cameras and programs write. */
export const isFileName = (text) => FILE_NAME.test(text) && text.length >= SHORTEST_FILE_NAME;

/** The items whose file is called as a text, with or without its ending, or begins so; and whether it is the whole name. */
export function findFiles({ names, places }, text) {
  const wanted = text.trim().toLowerCase();
  const found = new Map();
  names.forEach((each, at) => {
    const name = each.toLowerCase();
    if (name.startsWith(wanted)) found.set(places[at], name === wanted || name.replace(/\.[^.]*$/, "") === wanted);
  });
  return found;
}

/** A full-text index of a site. */
export class Lookup {
  constructor(facts, lexicon, lengths, weights) {
    this.weights = weights; // of columns
    this.shards = facts.shards; // [number of the first term, file]
    this.terms = lexicon.terms; // in order
    this.counts = lexicon.counts; // items that have each, also in fields that are not published
    this.lengths = lengths; // words of each item, also of fields that are not published
    this.n = facts.n_indexed; // items that have any word
    this.mean = lengths.reduce((sum, length) => sum + length, 0) / this.n;
  }

  /** The index of what people wrote, or that of detected metadata; an empty one if there are no words. */
  static async load(facts, isDetected = false) {
    const weights = isDetected ? DETECTED_WEIGHTS : WEIGHTS;
    if (!facts) return new Lookup({ shards: [], n_indexed: 0 }, { terms: [], counts: [] }, new Uint16Array(0), weights);
    const [lexicon, lengths] = await Promise.all([fetchJson(facts.lexicon), fetchBytes(facts.lengths)]);
    return new Lookup(facts, lexicon, new Uint16Array(lengths), weights);
  }

  /**
   * Resolve each word: itself, words that it begins, or the one that it is a typo of.
   *
   * @param {{isWord: (term: string) => boolean, isForeign: (term: string) => boolean}} known whether a term is certainly
   *   no typo, and whether it is a word of another language, which may be inflected
   * @returns {Promise<(Phrase[]|null)[]>} alternatives for each term; null if no word is similar
   */
  resolve(terms, known) {
    return Promise.all(terms.map((term) => this.#resolve(term, known, terms.length)));
  }

  /** Whether a term begins a word of an item. */
  async begins(term, n_terms) {
    return (await this.#begun(term.toLowerCase(), n_terms)).length > 0;
  }

  /** Occurrences of a phrase: for each item their number by column; `count`: items for BM25. */
  async phrase(text, isPrefix = false) {
    const words = tokens(text);
    const columns = await Promise.all(words.map((word, at) => this.#places(word, isPrefix && at === words.length - 1)));
    const found = new Map();
    for (const [item, places] of columns[0] ?? []) {
      const others = columns.slice(1).map((each) => each.get(item));
      if (others.some((each) => !each)) continue;
      const sets = others.map((each) => new Set(each));
      const hits = this.weights.map(() => 0);
      // A place is four times the position, plus the column.
      for (const place of places) if (sets.every((set, index) => set.has(place + 4 * (index + 1)))) hits[place & 3] += 1;
      if (hits.some(Boolean)) found.set(item, hits);
    }
    found.count = words.length === 1 && !isPrefix && found.size ? this.counts[this.#first(words[0])] : found.size;
    return found;
  }

  /** The rank of items by phrases: the lower, the better. */
  ranks(phrases, items) {
    const weighed = phrases.map((found) => [found, Math.max(RAREST, Math.log((this.n - found.count + 0.5) / (found.count + 0.5)))]);
    return new Map(items.map((item) => {
      const scale = SATURATION * (1 - LENGTHS + (LENGTHS * this.lengths[item]) / this.mean);
      let sum = 0;
      for (const [found, rarity] of weighed) {
        const count = found.get(item)?.reduce((all, hits, column) => all + this.weights[column] * hits, 0) ?? 0;
        sum += (rarity * count * (SATURATION + 1)) / (count + scale);
      }
      return [item, -sum];
    }));
  }

  async #resolve(term, known, n_terms) {
    const forms = /^[a-z\d]+$/i.test(term) ? [false] : [false, true];
    for (const form of formsOf(term)) {
      for (const isPrefix of forms) {
        const found = await this.phrase(form, isPrefix);
        if (found.size) return [found];
      }
    }
    const begun = await this.#begun(term.toLowerCase(), n_terms);
    if (begun.length) return begun;
    if (known.isWord(term) || /^\p{Nd}+$/u.test(term)) return null;
    const swapped = await this.#transposed(term);
    for (const similar of swapped.length ? swapped : this.#similar(term.toLowerCase())) {
      if (known.isForeign(term) && !term.toLowerCase().startsWith(similar)) continue;
      const found = await this.phrase(similar);
      if (found.size) return [found];
    }
    return null;
  }

  /** Words that begin with a word, and not with its stem: that of "being" is "be". */
  async #begun(start, n_terms) {
    if (!/^[a-z\d]+$/.test(start)) return [];
    const most = Math.min(MOST_BEGUN, Math.max(1, Math.floor(MOST_COMPLETED / n_terms)));
    const found = this.#range(start).sort((one, other) => this.counts[other] - this.counts[one] || one - other);
    const phrases = await Promise.all(found.slice(0, most).map((number) => this.phrase(this.terms[number])));
    return phrases.filter((each) => each.size);
  }

  /** The words that a word is with two neighbouring letters exchanged, frequent first. */
  async #transposed(term) {
    if (!/^\p{L}+$/u.test(term) || term.length < TRANSPOSED[0] || term.length > TRANSPOSED[1]) return [];
    const swapped = new Set();
    for (let at = 0; at < term.length - 1; at += 1) {
      swapped.add(term.slice(0, at) + term[at + 1] + term[at] + term.slice(at + 2));
    }
    swapped.delete(term);
    const words = [...swapped].sort();
    const counts = await Promise.all(words.map(async (word) => (await this.phrase(word)).count));
    const order = words.map((_, at) => at).filter((at) => counts[at]);
    return order.sort((one, other) => counts[other] - counts[one] || one - other).map((at) => words[at]);
  }

  /** Words that share most trigrams with a word, best first. */
  #similar(term) {
    if ([...term].length < SHORTEST_TYPO) return [];
    const wanted = trigrams(term);
    const [low, high] = [Math.max([...term].length - 2, SHORTEST_TYPO), [...term].length + 2];
    const scored = [];
    this.terms.forEach((word, number) => {
      const n = [...word].length;
      if (n < low || n > high) return;
      const grams = trigrams(word);
      const common = [...wanted].filter((each) => grams.has(each)).length;
      const similarity = (2 * common) / (wanted.size + grams.size);
      if (similarity >= LEAST_SIMILAR) scored.push([similarity, this.counts[number], word]);
    });
    scored.sort((one, other) => other[0] - one[0] || other[1] - one[1] || (one[2] < other[2] ? -1 : 1));
    return scored.slice(0, 3).map(([, , word]) => word);
  }

  /** Where a word of the index stands, or every word that begins so. */
  async #places(word, isPrefix) {
    const numbers = isPrefix ? this.#range(word) : this.#number(word);
    const found = await Promise.all(numbers.map((number) => this.#posting(number)));
    if (found.length === 1) return found[0];
    const merged = new Map();
    for (const each of found) for (const [item, places] of each) merged.set(item, [...(merged.get(item) ?? []), ...places]);
    return merged;
  }

  async #posting(number) {
    const at = this.shards.findLastIndex(([first]) => first <= number);
    const [first, file] = this.shards[at];
    const flat = (await fetchJson(file))[number - first];
    const found = new Map();
    for (let read = 0, item = 0; read < flat.length;) {
      const [step, n] = [flat[read], flat[read + 1]];
      item += step;
      found.set(item, flat.slice(read + 2, read + 2 + n));
      read += 2 + n;
    }
    return found;
  }

  #number(word) {
    const number = this.#first(word);
    return this.terms[number] === word ? [number] : [];
  }

  #range(start) {
    const found = [];
    for (let number = this.#first(start); this.terms[number]?.startsWith(start); number += 1) found.push(number);
    return found;
  }

  /** The number of the first term that is not before a word. */
  #first(word) {
    let [low, high] = [0, this.terms.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.terms[middle] < word) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A term, the same of any skin, and what it begins with. */
function formsOf(term) {
  const same = term.replace(SKIN_TONES, "");
  return [...new Set([term, same, same.split("\u200d")[0]])].filter(Boolean);
}

function trigrams(word) {
  const letters = [..."  ", ...word, " "];
  return new Set(letters.slice(2).map((_, at) => letters.slice(at, at + 3).join("")));
}
