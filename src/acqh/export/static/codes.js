// Exact search: every code is scored by its entries in the query's tables.

const SLICE = 1 << 15; // codes that are scored between two pauses for other events

/** The codes of all items, one byte per codebook. */
export class Codes {
  constructor(facts, codes, codebooks, likeness) {
    Object.assign(this, facts); // n_items, n_codebooks, codebook_size, n_components
    this.codes = new Uint8Array(codes);
    this.codebooks = new Float32Array(codebooks);
    this.likeness = new Float32Array(likeness); // (n_components, n_components)
  }

  code(item) {
    return this.codes.subarray(item * this.n_codebooks, (item + 1) * this.n_codebooks);
  }

  /** The query vector of an item. */
  queryOf(item) {
    const { n_components: n, codebook_size: size } = this;
    const decoded = new Float64Array(n);
    this.code(item).forEach((word, book) => {
      const start = (book * size + word) * n;
      for (let at = 0; at < n; at += 1) decoded[at] += this.codebooks[start + at];
    });
    const query = new Float32Array(n);
    for (let to = 0; to < n; to += 1) {
      let sum = 0;
      for (let from = 0; from < n; from += 1) sum += decoded[from] * this.likeness[from * n + to];
      query[to] = sum;
    }
    return query;
  }

  /** Inner products of a query with each codeword of each codebook. */
  tables(query) {
    const { n_components: n, n_codebooks, codebook_size } = this;
    const tables = new Float32Array(n_codebooks * codebook_size);
    for (let row = 0, start = 0; row < tables.length; row += 1, start += n) {
      let sum = 0;
      for (let at = 0; at < n; at += 1) sum += this.codebooks[start + at] * query[at];
      tables[row] = sum;
    }
    return tables;
  }

  /** The scores of some items, with them. */
  scores(query, items) {
    const tables = this.tables(query);
    const score = (item) => this.code(item).reduce((sum, word, book) => sum + tables[book * this.codebook_size + word], 0);
    return items.map((item) => [item, score(item)]);
  }

  /**
   * The best items, best first; of equal ones the earlier first.
   *
   * @param {Float32Array} query
   * @param {number} k
   * @param {?Uint8Array} allowed one for each item that may be found; null for all
   * @returns {Promise<{items: number[], scores: number[]}>}
   */
  async best(query, k, allowed, signal) {
    const { codes, n_items, n_codebooks: width, codebook_size: size } = this;
    const tables = this.tables(query);
    const top = new Best(k);
    for (let start = 0; start < n_items; start += SLICE) {
      if (start) await new Promise((go) => setTimeout(go));
      signal?.throwIfAborted();
      for (let item = start, at = start * width; item < Math.min(n_items, start + SLICE); item += 1) {
        let score = 0;
        for (let book = 0; book < tables.length; book += size, at += 1) score += tables[book + codes[at]];
        if (score > top.least && (allowed === null || allowed[item])) top.put(item, score);
      }
    }
    return top.sorted();
  }
}

/** A heap of the best, the worst of them first. */
class Best {
  constructor(k) {
    this.k = k;
    this.items = [];
    this.scores = [];
    this.least = -Infinity;
  }

  put(item, score) {
    if (this.items.length === this.k) this.#sink(item, score);
    else this.#rise(item, score);
    if (this.items.length === this.k) this.least = this.scores[0];
  }

  #rise(item, score) {
    let at = this.items.length;
    while (at && this.#isWorse(item, score, (at - 1) >> 1)) {
      this.#set(at, this.items[(at - 1) >> 1], this.scores[(at - 1) >> 1]);
      at = (at - 1) >> 1;
    }
    this.#set(at, item, score);
  }

  #sink(item, score) {
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.k) break;
      if (child + 1 < this.k && this.#isWorse(this.items[child + 1], this.scores[child + 1], child)) child += 1;
      if (this.#isWorse(item, score, child)) break;
      this.#set(at, this.items[child], this.scores[child]);
      at = child;
    }
    this.#set(at, item, score);
  }

  #isWorse(item, score, other) {
    return score < this.scores[other] || (score === this.scores[other] && item > this.items[other]);
  }

  #set(at, item, score) {
    this.items[at] = item;
    this.scores[at] = score;
  }

  sorted() {
    const order = this.items.map((_, at) => at);
    order.sort((one, other) => this.scores[other] - this.scores[one] || this.items[one] - this.items[other]);
    return { items: order.map((at) => this.items[at]), scores: order.map((at) => this.scores[at]) };
  }
}
