// The query string of the page's address.

const SPACES = "https://huggingface.co";

/**
 * Return an address with other values of our parameters, or null if it has them already. Other parameters stay.
 * @param {{ pathname: string, search: string, hash: string }} at
 * @param {string} query
 * @param {string[]} names of our parameters
 * @returns {string | null}
 */
export function addressWith({ pathname, search, hash }, query, names) {
  const wanted = new URLSearchParams(query), all = new URLSearchParams(search);
  const ours = new URLSearchParams([...all].filter(([name]) => names.includes(name)));
  if (wanted.toString() === ours.toString()) return null;
  for (const name of names) all.delete(name);
  for (const [name, value] of wanted) all.append(name, value);
  const text = all.toString();
  return pathname + (text && "?" + text) + hash;
}

/**
 * Tell Hugging Face what is shown, if this page is a Space inside one of its pages, so that the address bar follows.
 * @param {{ parent: { postMessage: (message: any, origin: string) => void } }} own window
 * @param {{ search: string, hash: string }} at
 */
export function tellSpaces(own, { search, hash }) {
  if (own.parent === /** @type {any} */ (own)) return;
  own.parent.postMessage({ queryString: search.replace(/^\?/, ""), hash }, SPACES);
}
