// What goes wrong with an answer, wherever it comes from.

/** An answer that is not one: what is wrong, and after how many seconds to try again, if ever. */
export class Problem extends Error {
  constructor(status, title, detail, retryAfter = null) {
    super(detail);
    this.status = status;
    this.title = title;
    this.retryAfter = retryAfter;
  }
}
