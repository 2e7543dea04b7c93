// One ranking of keyword and semantic hits, as on the server.

import { isSign, plain, wordsOf } from "./tokens.js";

// Largest score of some of the words, and of an exact name and of words as typed.
const [SOME_WORDS, EXACT_NAME, AS_TYPED] = [0.5, 1, 0.25];
// Score of all words, if some are only in detected metadata, and the least confidence then.
const [DETECTED_WORDS, DETECTED_MATCH] = [0.6, 0.75];
const MOST_OTHERS = 0.75; // share of screenshots, scans and drawings up to which photos come first
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
  if (words >= 1) return 1;
  const match = words / 2 + content;
  return Math.min(UNCERTAIN, words >= DETECTED_WORDS ? Math.max(DETECTED_MATCH, match) : match);
}

/** The items that are no photos, and whose confidence is halved if it is weak. */
export function noPhotos(otherKinds, nearest, withWords) {
  const pool = new Set([...nearest, ...withWords]);
  const others = [...pool].filter((place) => otherKinds.has(place));
  const named = new Set(withWords);
  return others.length <= MOST_OTHERS * pool.size ? others.filter((place) => !named.has(place)) : [];
}

/** Keyword hits by what people wrote, and by detected metadata, those with all words first. */
export function withDetected(hits, detected) {
  const complete = new Set(hits.filter((hit) => hit.complete).map(({ place }) => place));
  const added = new Map(detected.filter(({ place }) => !complete.has(place)).map((hit) => [hit.place, hit]));
  const all = [...hits.filter(({ place }) => !added.has(place)), ...added.values()];
  return [...all.filter((hit) => hit.complete), ...all.filter((hit) => !hit.complete)];
}

/** Keyword hits, with those first whose file has the name, or begins with it; `files`: whether it is the whole name. */
export function withFiles(hits, files) {
  const named = [...files].map(([place, isWhole]) => ({ place, rank: 0, complete: true, isNamed: isWhole, isTyped: true, share: 1, isDetected: false }));
  return [...named, ...hits.filter(({ place }) => !files.has(place))];
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
    const has = new Set(wordsOf([whole, hit.isDetected ? detectedText(items[at]) : ""].join(" ")));
    const common = typed.filter((word) => has.has(word)).length;
    const share = Math.max(1, common) / Math.max(1, typed.length);
    if (hit.isDetected) return { ...hit, complete: hit.complete || share === 1, share };
    if (!hit.complete) return { ...hit, share };
    return {
      ...hit,
      isNamed: called.some((each) => plain(each).toLowerCase() === name),
      isTyped: common === typed.length && spelt.every((each) => whole.includes(each)),
      share,
    };
  });
}

/** Suggested tags of an item, its kind and the text in its image. */
function detectedText({ tags, kind, text_in_image: text }) {
  return [...Object.keys(tags ?? {}), kind ?? "", text ?? ""].join(" ");
}

/**
 * The k best items by confidence plus keyword score.
 *
 * @param {Map<number, number>} semantic confidence by item
 * @param {boolean} wordsFirst whether all words score higher than some of them
 */
export function fuse(content, words, k, wordsFirst) {
  const lowest = { true: 0, false: 0 }; // of detected metadata, and of what people wrote
  for (const { rank, isDetected = false } of words) lowest[isDetected] = Math.min(lowest[isDetected], rank);
  const parts = new Map();
  for (const hit of [...words].sort((one, other) => other.complete - one.complete || one.rank - other.rank)) {
    const best = lowest[hit.isDetected ?? false];
    let keywords = SOME_WORDS * (hit.share ?? 1) * (best < 0 ? hit.rank / best : 1);
    if (hit.isDetected) keywords = wordsFirst && hit.complete ? DETECTED_WORDS : keywords / 2;
    else if (wordsFirst && hit.complete) keywords = 1 + EXACT_NAME * hit.isNamed + AS_TYPED * hit.isTyped;
    parts.set(hit.place, [keywords, content.get(hit.place) ?? 0]);
  }
  for (const [place, similarity] of content) if (!parts.has(place)) parts.set(place, [0, similarity]);
  const ranked = [...parts].sort(([, one], [, other]) => other[0] + other[1] - one[0] - one[1]).slice(0, k);
  return ranked.map(([place, [keywords, similarity]]) => ({ place, score: keywords + similarity, parts: [["keywords", keywords], ["semantic", similarity]] }));
}
