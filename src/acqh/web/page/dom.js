// Helpers of all modules: elements, numbers as text, order.

/** The address of the web interface: beside this folder, under any path. */
export const HOME = new URL("..", import.meta.url);

/** Make an element; properties that are not the element's own become attributes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Make an element of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A name of a file, to be broken after its separators first, and anywhere only where it must. */
export function breakable(name) {
  return name.split(/(?<=[/\\_-])(?=[^/\\_-])/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

/** Show the image of a Blob that is awaited; its address is released as soon as it is drawn. */
export async function showBlob(image, blob) {
  try {
    const address = URL.createObjectURL(await blob);
    image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
    image.src = address;
  } catch {
    image.dispatchEvent(new Event("error"));
  }
}

/** Sort by a value; equal ones keep their order, null comes last. */
export function sortedBy(values, valueOf, isDescending) {
  const sign = isDescending ? -1 : 1;
  const order = (one, other) => sign * ((valueOf(one) > valueOf(other)) - (valueOf(one) < valueOf(other)));
  const isMissing = (value) => valueOf(value) === null;
  return [...values.filter((value) => !isMissing(value)).sort(order), ...values.filter(isMissing)];
}

/** A whole number with separators. */
export function count(number) {
  return number.toLocaleString("en-GB");
}

/** "1 item", "2 items". */
export function several(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A number with a true minus sign. */
export function signed(number, digits = 3) {
  return number.toFixed(digits).replace("-", "−");
}

/** Milliseconds, in as many digits as anybody can use. */
export function milliseconds(value) {
  return `${value < 10 ? value.toPrecision(2) : value.toFixed(0)} ms`;
}

/** A number of bytes, in the unit in which it is easiest to read. */
export function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const value = bytes / 1000 ** power;
  return `${value.toFixed(value < 10 && power ? 1 : 0)} ${units[power]}`;
}
