// One ranking of what words and meaning find; the same rules as the service's.

import { isSign, plain, wordsOf } from "./tokens.js";

// What some of the words are worth at most, to be called so, and to have the words as typed.
const [SOME_WORDS, CALLED_SO, AS_TYPED] = [0.5, 1, 0.25];
const UNCERTAIN = 0.99; // the most that a hit matches where not every word is there
const PUNCTUATION = /^[.,;:!?()[\]{}"']+|[.,;:!?()[\]{}"']+$/gu;

/** The length of a query, half way to how far items spread along it. */
export function lengthOf(query, squares) {
  let [own, spread] = [0, 0];
  query.forEach((value, at) => {
    own += value * value;
    spread += value * value * squares[at];
  });
  return (own * spread) ** 0.25;
}

/** How far a score stands out, from 0 to 1: above one half, it does. */
export function matchOf(score, limit) {
  if (score <= 0) return 0;
  return score <= limit ? (0.5 * score) / limit : Math.min(UNCERTAIN, 1 - (0.5 * limit) / score);
}

/** How far an item stands out by words and content together: some of the words count half. */
export function matchOfBoth(words, content) {
  return words >= 1 ? 1 : Math.min(UNCERTAIN, words / 2 + content);
}

/** Hits by words, with whether they are called exactly so and have the words as they were typed. */
export function compare(words, hits, items) {
  const name = [...words.phrases, ...words.terms].join(" ").toLowerCase();
  const typed = [...new Set(wordsOf(words.spoken.join(" ")))];
  const spelt = words.spoken.filter((term) => !/^[\p{L}\p{N}]+$/u.test(term)).map((term) => term.replace(PUNCTUATION, "").toLowerCase());
  const hasSigns = [...words.phrases, ...words.terms].some(isSign);
  return hits.map((hit, at) => {
    const { text, names = [], labels, fields } = items[at];
    const called = [text, ...names, ...(hasSigns ? Object.values(fields).filter((value) => typeof value === "string") : [])];
    const whole = plain([text, ...names, ...labels].join(" ")).toLowerCase();
    const has = new Set(wordsOf(whole));
    const common = typed.filter((word) => has.has(word)).length;
    return {
      ...hit,
      isNamed: called.some((each) => plain(each).toLowerCase() === name),
      isTyped: common === typed.length && spelt.every((each) => whole.includes(each)),
      share: Math.max(1, common) / Math.max(1, typed.length),
    };
  });
}

/**
 * The k best items: by how far they stand out, plus the words that they have.
 *
 * @param {Map<number, number>} content how far each stands out
 * @param {boolean} wordsFirst whether to have all words is worth more than some of them
 */
export function fuse(content, words, k, wordsFirst) {
  const best = Math.min(-Number.MIN_VALUE, ...words.map(({ rank }) => rank));
  const parts = new Map();
  for (const hit of [...words].sort((one, other) => other.complete - one.complete || one.rank - other.rank)) {
    let worth = SOME_WORDS * hit.share * (hit.rank / best);
    if (wordsFirst && hit.complete) worth = 1 + CALLED_SO * hit.isNamed + AS_TYPED * hit.isTyped;
    parts.set(hit.place, [worth, content.get(hit.place) ?? 0]);
  }
  for (const [place, near] of content) if (!parts.has(place)) parts.set(place, [0, near]);
  const ranked = [...parts].sort(([, one], [, other]) => other[0] + other[1] - one[0] - one[1]).slice(0, k);
  return ranked.map(([place, [worth, near]]) => ({ place, score: worth + near, parts: [["keywords", worth], ["semantic", near]] }));
}
