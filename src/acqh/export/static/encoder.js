// The fast text encoder: the sum of static token embeddings.

import { fetchBytes, fetchJson } from "./load.js";

const [UNKNOWN, LONGEST_WORD, MAX_TOKENS, MAX_SHORT_WORDS] = ["[UNK]", 100, 254, 3];
const MARKS = /[\p{P}$+<=>^`|~\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2fa1f}\uf900-\ufaff]/gu;

/** The fast text encoder of a site. */
export class FastTextEncoder {
  constructor(facts, vocabulary, rows, toQuery) {
    this.tokens = vocabulary;
    this.numbers = new Map(vocabulary.map((token, number) => [token, number])); // the last tokens have no row
    this.nRows = rows.byteLength / facts.scales.length;
    this.scales = facts.scales;
    this.offset = facts.offset;
    this.template = facts.query_template;
    this.rows = new Int8Array(rows);
    this.toQuery = new Float32Array(toQuery);
  }

  static async load(facts) {
    const files = [fetchJson(facts.vocabulary), fetchBytes(facts.rows), fetchBytes(facts.to_query)];
    return new FastTextEncoder(facts, ...(await Promise.all(files)));
  }

  /** The query vector of a text, or null if it has no known token. */
  vector(text) {
    const isShort = text.trim().split(/\s+/u).length <= MAX_SHORT_WORDS; // longer texts are captions already
    const phrase = isShort ? this.template.replace("{}", () => text) : text;
    const counts = new Map();
    for (const number of this.#numbersOf(phrase)) counts.set(number, (counts.get(number) ?? 0) + 1);
    if (!counts.size) return null;
    const length = Math.hypot(...counts.values());
    const [rank, width] = [this.scales.length, this.offset.length];
    const query = Float64Array.from(this.offset);
    for (let axis = 0; axis < rank; axis += 1) {
      let sum = 0;
      for (const [number, n] of counts) sum += n * this.rows[number * rank + axis];
      sum *= this.scales[axis] / length;
      for (let at = 0; at < width; at += 1) query[at] += sum * this.toQuery[axis * width + at];
    }
    return Float32Array.from(query);
  }

  /** Whether a text is one word that is a token itself. Such a word is not a typo. */
  isWord(text) {
    const words = wordsOf(text);
    return words.length === 1 && this.numbers.has(words[0]);
  }

  /** The numbers of a text's tokens, without unknown ones. */
  #numbersOf(text) {
    const tokens = wordsOf(text).flatMap((word) => this.#split(word)).slice(0, MAX_TOKENS);
    return tokens.map((token) => this.numbers.get(token)).filter((number) => number < this.nRows);
  }

  /** Split a word into tokens: the longest first, from the left. */
  #split(word) {
    const letters = [...word];
    const tokens = [];
    for (let start = 0; start < letters.length && letters.length <= LONGEST_WORD;) {
      let end = letters.length;
      const token = () => (start ? "##" : "") + letters.slice(start, end).join("");
      while (end > start && !this.numbers.has(token())) end -= 1;
      if (end === start) return [UNKNOWN];
      tokens.push(token());
      start = end;
    }
    return tokens.length ? tokens : [UNKNOWN];
  }
}

/** Lower case without accents; marks and ideographs are separate words. */
function wordsOf(text) {
  const clean = text.replace(/\s/gu, " ").replace(/[\p{C}\ufffd]/gu, "").toLowerCase().normalize("NFD");
  return clean.replace(/\p{Mn}/gu, "").replace(MARKS, " $& ").split(/\s+/u).filter(Boolean);
}
