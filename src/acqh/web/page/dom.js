// Helpers of all modules: elements and order.

/** The address of the web interface: beside this folder, under any path. */
export const HOME = new URL("..", import.meta.url);

/** Make an element; unknown properties become attributes. */
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

/** A file name that breaks at its separators if possible. */
export function breakable(name) {
  return name.split(/(?<=[/\\_-])(?=[^/\\_-])/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

/** Show the image of a Blob; its address is released once it is drawn. */
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
