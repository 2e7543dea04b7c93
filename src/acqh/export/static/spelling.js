// Typos in queries, and queries in other languages than English: as on the server, by the same lists of words.

import { fetchBytes } from "./load.js";

const [SHORTEST, SHORTEST_TWO, LONGEST] = [3, 7, 24]; // letters of words with one typo, with two, and of any
const [TYPO_ODDS, ODDS] = [55, -30]; // up to which a word could be English, of a typo and of others
const OTHER_SCRIPTS = /[\u0400-\u04ff\u0600-\u06ff\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]/gu;
const [ONE_IN, LEAST_OTHER] = [4, 2];
const WORDS = /[\p{L}\p{Nl}\p{No}]+/gu;
const A = "a".charCodeAt(0);

/** Words that the text encoder knows, and, fetched when one is not among them, all others. */
export class Spelling {
  constructor(facts, known) {
    this.facts = facts;
    this.known = new Map(known.map((word, rank) => [word, rank])); // by frequency
  }

  /** The lists for the tokens of a text encoder. */
  static async load(facts, tokens) {
    const numbers = new Uint16Array(await fetchBytes(facts.known));
    return new Spelling(facts, Array.from(numbers, (number) => tokens[number] ?? facts.added[number - tokens.length]));
  }

  /** Whether most words of a text are English, or could be. */
  async isEnglish(text) {
    const words = (text.match(WORDS) ?? []).map((word) => word.toLowerCase());
    if (words.every((word) => this.known.has(word))) return true;
    await this.#loadOthers();
    const n_letters = text.match(/\p{L}/gu)?.length ?? 0;
    const n_signs = text.match(OTHER_SCRIPTS)?.length ?? 0;
    if (n_signs && n_signs * ONE_IN >= n_letters) return false;
    let votes = words.map((word) => this.#isListed(word));
    if (votes.every((vote) => vote === null)) votes = words.map((word) => this.#isLikeEnglish(word));
    const [n_other, n_english] = [false, true].map((vote) => votes.filter((each) => each === vote).length);
    return n_other < n_english || (n_other === n_english && n_other < LEAST_OTHER);
  }

  /** The word that a word is a typo of; null if there is none. */
  async correct(typed) {
    const word = typed.toLowerCase();
    if (this.known.has(word) || !isPlain(word)) return null;
    await this.#loadOthers();
    return this.#correct(word);
  }

  /** Whether a word is listed as one of other languages only. */
  isForeign(word) {
    const lowered = word.toLowerCase().normalize("NFC");
    return Boolean(this.other?.has(lowered)) && !this.known.has(lowered) && !this.english.has(lowered);
  }

  /** Whether a known word begins so: what is typed may not be complete. */
  beginsWord(start) {
    const lowered = start.toLowerCase();
    for (const word of this.known.keys()) if (word.startsWith(lowered)) return true;
    return false;
  }

  async #loadOthers() {
    if (this.english) return;
    const files = await Promise.all([fetchBytes(this.facts.lists), fetchBytes(this.facts.odds)]);
    const [english, other] = new TextDecoder().decode(files[0]).split("\n\n").map(unpacked);
    this.odds = new Int8Array(files[1]); // log odds of three letters in other languages; 0 is a word's end
    this.compared = [...this.known.keys()].filter(isPlain).map((word) => [word, countsOf(word)]);
    [this.other, this.english] = [new Set(other), new Set(english)];
  }

  #correct(word) {
    if (this.known.has(word) || this.english.has(word) || this.other.has(word) || !isPlain(word)) return null;
    const counts = countsOf(word);
    for (let n = 1; n <= (word.length >= SHORTEST_TWO ? 2 : 1); n += 1) {
      // By frequency: the first is the most frequent.
      const found = this.compared.find(([other, others]) => differs(counts, others) <= 2 * n && distance(word, other, n) <= n);
      if (found) return found[0];
    }
    return null;
  }

  /** Whether a word is in the lists of English words; null if it is in no list. */
  #isListed(word) {
    if (this.known.has(word) || this.english.has(word)) return true;
    const composed = word.normalize("NFC");
    if (this.other.has(composed)) return false;
    const plain = composed.normalize("NFD").replace(/\p{M}/gu, "");
    return this.known.has(plain) || this.english.has(plain) || (/^[\x00-\x7f]*$/.test(word) ? null : false);
  }

  /** Whether a word of no list could be English; null if it is too short to say. */
  #isLikeEnglish(word) {
    if (!isPlain(word)) return null;
    const isTypo = this.#correct(word) !== null;
    if (isTypo && word.length === SHORTEST) return true;
    const codes = [0, ...[...word].map((letter) => letter.charCodeAt(0) - A + 1), 0];
    let odds = 0;
    for (let at = 2; at < codes.length; at += 1) odds += this.odds[27 * (27 * codes[at - 2] + codes[at - 1]) + codes[at]];
    return odds <= (isTypo ? TYPO_ODDS : ODDS);
  }
}

/** Words of a sorted list, each as the number of letters that it shares with the one before, and the rest. */
function unpacked(text) {
  let last = "";
  return text.split("\n").map((line) => (last = last.slice(0, parseInt(line[0], 36)) + line.slice(1)));
}

function isPlain(word) {
  return /^[a-z]+$/i.test(word) && word.length >= SHORTEST && word.length <= LONGEST;
}

function countsOf(word) {
  const counts = new Int8Array(26);
  for (let at = 0; at < word.length; at += 1) counts[word.charCodeAt(at) - A] += 1;
  return counts;
}

function differs(one, other) {
  let sum = 0;
  for (let at = 0; at < 26; at += 1) sum += Math.abs(one[at] - other[at]);
  return sum;
}

/** The number of typos between words: letters changed, missing, added or swapped. */
function distance(word, other, most) {
  if (Math.abs(word.length - other.length) > most) return most + 1;
  let [before, row] = [[], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= word.length; i += 1) {
    let last;
    [last, before, row] = [before, row, [i]];
    for (let j = 1; j <= other.length; j += 1) {
      let cost = Math.min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word[i - 1] !== other[j - 1]));
      if (i > 1 && j > 1 && word[i - 1] === other[j - 2] && word[i - 2] === other[j - 1]) cost = Math.min(cost, last[j - 2] + 1);
      row.push(cost);
    }
  }
  return row.at(-1);
}
