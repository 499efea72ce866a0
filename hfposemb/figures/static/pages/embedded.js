// Data that is in the page itself.

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
export function embeddedFile(part, type) {
  return { url: URL.createObjectURL(new Blob([part], { type })) };
}
