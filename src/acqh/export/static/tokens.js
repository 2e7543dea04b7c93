// Words as in the server's full-text index: without case, accents and English endings.

const WORD = /[\p{L}\p{M}\p{N}\p{Co}\p{So}\p{Sk}]+/gu;
const SEPARATORS = /[\^`]/g; // the two symbols of ASCII are no words
const UNSPACED = /[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]/u;
const SPECIAL = /[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\p{L}\p{N}_\s\x00-\x7f]/gu;
const STANDS_ALONE = /[\p{So}\p{Sk}\p{Me}]/u;
const COLOURED = /\ufe0f/g;
const [SHORTEST, LONGEST] = [3, 64]; // bytes of words whose endings are taken off

/** A text in its plainest letters: full-width ones, for example, are as others. */
export function plain(text) {
  return text.replace(COLOURED, "").normalize("NFKC");
}

/** A text as it is indexed and searched: plain, with spaces around signs. */
export function spaced(text) {
  return plain(text).replace(SPECIAL, (sign) => (standsAlone(sign) ? ` ${sign} ` : sign));
}

function standsAlone(sign) {
  return STANDS_ALONE.test(sign) || UNSPACED.test(sign);
}

/** Whether a part of a query is looked for as it is: an emoji, a word of a script without spaces. */
export function isSign(term) {
  if (UNSPACED.test(term) || term.includes("\u20e3")) return true;
  const isWord = /[\p{L}\p{N}]/u.test(term);
  return !isWord && [...term].some((each) => each > "\x7f" && standsAlone(each));
}

/** The words of a text without case and accents, with their endings. */
export function wordsOf(text) {
  const letters = text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
  return letters.match(/[\p{L}\p{N}_]+/gu) ?? [];
}

/** The words of a text as the index knows them. */
export function tokens(text) {
  const words = spaced(text).replace(SEPARATORS, " ").match(WORD) ?? [];
  return words.map((word) => stem(bare(word.toLowerCase()))).filter(Boolean);
}

/** Latin letters without their accents, as SQLite has them. */
function bare(word) {
  return word.normalize("NFD").replace(/(?<=\p{Script=Latin})\p{Mn}+/gu, "").normalize("NFC").replaceAll("ς", "σ");
}

const CONSONANT = "[^aeiou]";
const VOWEL = "[aeiouy]";
const CONSONANTS = `${CONSONANT}[^aeiouy]*`;
const VOWELS = `${VOWEL}[aeiou]*`;
const START = `^(?:${CONSONANTS}|(?=[aeiou]))`; // "y" at the start is a consonant
const ONCE = new RegExp(`${START}${VOWELS}${CONSONANTS}`); // a vowel before a consonant
const TWICE = new RegExp(`${START}${VOWELS}${CONSONANTS}${VOWELS}${CONSONANTS}`);
const EXACTLY_ONCE = new RegExp(`${START}${VOWELS}${CONSONANTS}(${VOWELS})?$`);
const HAS_VOWEL = new RegExp(`${START}${VOWEL}`);
const SHORT = new RegExp(`^${CONSONANTS}${VOWEL}[^aeiouwxy]$`); // as "hop", which was "hoping"
const DOUBLE = /([^aeioulsz])\1$/;

const SECOND = [
  ["ational", "ate"], ["tional", "tion"], ["enci", "ence"], ["anci", "ance"], ["izer", "ize"], ["logi", "log"], ["bli", "ble"],
  ["alli", "al"], ["entli", "ent"], ["eli", "e"], ["ousli", "ous"], ["ization", "ize"], ["ation", "ate"], ["ator", "ate"],
  ["alism", "al"], ["iveness", "ive"], ["fulness", "ful"], ["ousness", "ous"], ["aliti", "al"], ["iviti", "ive"], ["biliti", "ble"],
];
const THIRD = [
  ["icate", "ic"], ["ative", ""], ["alize", "al"], ["iciti", "ic"], ["ical", "ic"], ["ful", ""], ["ness", ""],
];
const FOURTH = [
  "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "al", "er", "ic", "ou",
];

/** A word without its English ending, by Porter's rules, which SQLite applies to the bytes of UTF-8. */
export function stem(word) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(word));
  if (bytes.length < SHORTEST || bytes.length > LONGEST) return word;
  return new TextDecoder().decode(Uint8Array.from(withoutEnding(bytes), (each) => each.charCodeAt(0)));
}

function withoutEnding(word) {
  let left = firstSteps(word);
  for (const endings of [SECOND, THIRD]) {
    const found = endings.find(([ending]) => left.endsWith(ending));
    if (found) {
      const start = left.slice(0, -found[0].length);
      if (ONCE.test(start)) left = start + found[1];
    }
  }
  left = fourthStep(left);
  if (left.endsWith("e")) {
    const start = left.slice(0, -1);
    if (TWICE.test(start) || (EXACTLY_ONCE.test(start) && !SHORT.test(start))) left = start;
  }
  if (left.endsWith("ll") && TWICE.test(left.slice(0, -1))) left = left.slice(0, -1);
  return left;
}

/** Plurals, "-ed", "-ing", and "y" at the end. */
function firstSteps(word) {
  let left = word;
  if (/(.ss|.i)es$/.test(left)) left = left.slice(0, -2);
  else if (/[^s]s$/.test(left)) left = left.slice(0, -1);
  const ended = /^(.+?)(eed|ed|ing)$/.exec(left);
  if (ended?.[2] === "eed") {
    if (ONCE.test(ended[1])) left = left.slice(0, -1);
  } else if (ended && HAS_VOWEL.test(ended[1])) {
    left = ended[1];
    if (/(at|bl|iz)$/.test(left)) left += "e";
    else if (DOUBLE.test(left)) left = left.slice(0, -1);
    else if (EXACTLY_ONCE.test(left) && SHORT.test(left)) left += "e";
  }
  if (left.endsWith("y") && HAS_VOWEL.test(left.slice(0, -1))) left = `${left.slice(0, -1)}i`;
  return left;
}

function fourthStep(word) {
  const ion = /^(.*[st])ion$/.exec(word);
  if (ion) return TWICE.test(ion[1]) ? ion[1] : word;
  const ending = FOURTH.find((each) => word.endsWith(each));
  const start = ending && word.slice(0, -ending.length);
  return start !== undefined && TWICE.test(start) ? start : word;
}
