// What the browser remembers between visits: one entry of its local storage.

const KEY = "hfposemb";

/**
 * Return what is remembered.
 * @returns {Record<string, any>}
 */
export function stored() {
  try {
    return Object(JSON.parse(localStorage.getItem(KEY) ?? "null"));
  } catch {
    return {};
  }
}

/**
 * Remember more.
 * @param {Record<string, unknown>} more
 */
export function store(more) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...stored(), ...more }));
  } catch {
    // a browser may keep nothing
  }
}
