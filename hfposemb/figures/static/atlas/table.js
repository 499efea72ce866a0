// What an atlas computes of its table: the order of rows, and how chosen models are compared.

/**
 * Return the places of values in order; missing values are last in both orders.
 * @param {(number | string | null)[]} values
 * @param {boolean} falling
 */
export function orderOf(values, falling) {
  const places = values.map((_, at) => at);
  return places.sort((a, b) => {
    const [one, two] = [values[a], values[b]], missing = Number(isMissing(one)) - Number(isMissing(two));
    if (missing || isMissing(one)) return missing || a - b;
    return (falling ? -1 : 1) * compared(one, two) || a - b;
  });
}

/** @param {unknown} value */
function isMissing(value) {
  return value === null || value === "" || value === "–";
}

/**
 * @param {any} one
 * @param {any} two
 */
function compared(one, two) {
  if (typeof one === "number") return one - two;
  return String(one).localeCompare(String(two), "en", { numeric: true });
}

/**
 * Return the command that compares sources.
 * @param {string[]} sources
 */
export function compareCommand(sources) {
  return `hfposemb compare ${sources.map(quoted).join(" ")}`;
}

/**
 * Return a text as one word of a POSIX shell.
 * @param {string} text
 */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Return the address at which the app compares sources.
 * @param {string} app
 * @param {string[]} sources
 */
export function comparisonAddress(app, sources) {
  const query = new URLSearchParams([...sources.map((source) => ["models", source]), ["tab", "compare"]]);
  return `${app}/?${query}`;
}
