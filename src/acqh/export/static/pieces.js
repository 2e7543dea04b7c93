// The fast text encoder: the sum of static token embeddings.

import { fetchBytes, fetchJson } from "./load.js";

const [UNKNOWN, LONGEST_WORD, MOST_PIECES, FEW_WORDS] = ["[UNK]", 100, 254, 3];
const MARKS = /[\p{P}$+<=>^`|~\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2fa1f}\uf900-\ufaff]/gu;

/** The fast text encoder of a site. */
export class Pieces {
  constructor(facts, pieces, rows, toQuery) {
    this.numbers = new Map(pieces.map((piece, number) => [piece, number])); // the last ones have no row
    this.nRows = rows.byteLength / facts.scales.length;
    this.scales = facts.scales;
    this.offset = facts.offset;
    this.askedAs = facts.asked_as;
    this.rows = new Int8Array(rows);
    this.toQuery = new Float32Array(toQuery);
  }

  static async load(facts) {
    const files = [fetchJson(facts.pieces), fetchBytes(facts.rows), fetchBytes(facts.to_query)];
    return new Pieces(facts, ...(await Promise.all(files)));
  }

  /** The query vector of a text, or null if it has no known token. */
  vector(text) {
    const isShort = text.trim().split(/\s+/u).length <= FEW_WORDS; // more are a caption by themselves
    const asked = isShort ? this.askedAs.replace("{}", () => text) : text;
    const counts = new Map();
    for (const number of this.#numbersOf(asked)) counts.set(number, (counts.get(number) ?? 0) + 1);
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

  /** Whether a text is one word that needs no pieces: if so, it is not a typo. */
  isWord(text) {
    const words = wordsOf(text);
    return words.length === 1 && this.numbers.has(words[0]);
  }

  /** The numbers of a text's tokens, without unknown ones. */
  #numbersOf(text) {
    const pieces = wordsOf(text).flatMap((word) => this.#cut(word)).slice(0, MOST_PIECES);
    return pieces.map((piece) => this.numbers.get(piece)).filter((number) => number < this.nRows);
  }

  /** The longest pieces from the left that make up a word. */
  #cut(word) {
    const letters = [...word];
    const found = [];
    for (let start = 0; start < letters.length && letters.length <= LONGEST_WORD;) {
      let end = letters.length;
      const piece = () => (start ? "##" : "") + letters.slice(start, end).join("");
      while (end > start && !this.numbers.has(piece())) end -= 1;
      if (end === start) return [UNKNOWN];
      found.push(piece());
      start = end;
    }
    return found.length ? found : [UNKNOWN];
  }
}

/** Lower case without accents; marks and ideographs are words of their own. */
function wordsOf(text) {
  const clean = text.replace(/\s/gu, " ").replace(/[\p{C}\ufffd]/gu, "").toLowerCase().normalize("NFD");
  return clean.replace(/\p{Mn}/gu, "").replace(MARKS, " $& ").split(/\s+/u).filter(Boolean);
}
