// One ranking of keyword and semantic hits, as on the server.

import { isSign, plain, wordsOf } from "./tokens.js";

// Largest score of some of the words, and of an exact name and of words as typed.
const [SOME_WORDS, EXACT_NAME, AS_TYPED] = [0.5, 1, 0.25];
const UNCERTAIN = 0.99; // the largest confidence without all words
const PUNCTUATION = /^[.,;:!?()[\]{}"']+|[.,;:!?()[\]{}"']+$/gu;

/** By what the score of a query is divided: a power of its length and the spread of items along it, as on the server. */
export function lengthOf(query, squares, exponent) {
  let [length, spread] = [0, 0];
  query.forEach((value, at) => {
    length += value * value;
    spread += value * value * squares[at];
  });
  return length ** (exponent / 2) * spread ** 0.25;
}

/** The confidence of a score, from 0 to 1: above one half, it is a confident match. */
export function matchOf(score, limit) {
  if (score <= 0) return 0;
  return score <= limit ? (0.5 * score) / limit : Math.min(UNCERTAIN, 1 - (0.5 * limit) / score);
}

/** The confidence by keywords and similarity together: some of the words count half. */
export function matchOfBoth(words, content) {
  return words >= 1 ? 1 : Math.min(UNCERTAIN, words / 2 + content);
}

/** Keyword hits, with whether the query is their name and they have the words as typed. */
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
 * The k best items by confidence plus keyword score.
 *
 * @param {Map<number, number>} semantic confidence by item
 * @param {boolean} wordsFirst whether all words score higher than some of them
 */
export function fuse(content, words, k, wordsFirst) {
  const best = Math.min(-Number.MIN_VALUE, ...words.map(({ rank }) => rank));
  const parts = new Map();
  for (const hit of [...words].sort((one, other) => other.complete - one.complete || one.rank - other.rank)) {
    let keywords = SOME_WORDS * hit.share * (hit.rank / best);
    if (wordsFirst && hit.complete) keywords = 1 + EXACT_NAME * hit.isNamed + AS_TYPED * hit.isTyped;
    parts.set(hit.place, [keywords, content.get(hit.place) ?? 0]);
  }
  for (const [place, similarity] of content) if (!parts.has(place)) parts.set(place, [0, similarity]);
  const ranked = [...parts].sort(([, one], [, other]) => other[0] + other[1] - one[0] - one[1]).slice(0, k);
  return ranked.map(([place, [keywords, similarity]]) => ({ place, score: keywords + similarity, parts: [["keywords", keywords], ["semantic", similarity]] }));
}
