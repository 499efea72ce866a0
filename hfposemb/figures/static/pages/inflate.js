// Bytes that are sent compressed.

/**
 * Return bytes that were compressed with gzip.
 * @param {ArrayBuffer | DataView | Uint8Array} sent
 * @returns {Promise<ArrayBuffer>}
 */
export function inflated(sent) {
  const bytes = /** @type {BlobPart} */ (sent);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
