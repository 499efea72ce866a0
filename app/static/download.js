// Downloads.

/**
 * Save a file that the server has written, so that the button that asked for it suffices.
 * @param {[file: { url: string, orig_name?: string } | null]} values
 */
export function saveFile([file]) {
  if (!file) return;
  const link = document.createElement("a");
  link.href = file.url;
  link.download = file.orig_name ?? "";
  link.click();
}
