// The colours that the reader's system prefers, of a page that is not the app.

/** Follow the system's light and dark colours; paper is light. */
export function followSystemColours() {
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  const paint = (/** @type {boolean} */ dark) => document.body.classList.toggle("dark", dark);
  paint(wanted.matches);
  wanted.addEventListener("change", () => paint(wanted.matches));
  addEventListener("beforeprint", () => paint(false));
  addEventListener("afterprint", () => paint(wanted.matches));
}
