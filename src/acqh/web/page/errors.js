// Errors that the web interface shows.

import { hasString, t } from "./language.js";

/** What failed, why, and after how many seconds to try again (null for never). */
export class ResponseError extends Error {
  constructor(status, title, detail = "", retryAfter = null) {
    super(detail);
    this.status = status;
    this.title = title;
    this.retryAfter = retryAfter;
  }
}

/** The title of an HTTP status. */
export function titleOf(status) {
  if (hasString(`error.${status}`)) return t(`error.${status}`);
  return t(status < 500 ? "error.request" : "error.server");
}
