// Data in elements of a page that has no server.

/**
 * Return the text of an element that holds data.
 * @param {string} id
 */
export function embedded(id) {
  return document.getElementById(id)?.textContent ?? "";
}

/**
 * Return an address of something in the page.
 * @param {BlobPart} part
 * @param {string} [type]
 * @returns {SentFile}
 */
export function file(part, type) {
  return { url: URL.createObjectURL(new Blob([part], { type })) };
}
