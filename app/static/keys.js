// What a key does.

/**
 * Return the place of the tab that a key goes to, or null if it goes nowhere.
 * @param {string} key
 * @param {number} place of the tab that has the focus, -1 if none has it
 * @param {number} count
 * @returns {number | null}
 */
export function nextTab(key, place, count) {
  if (place < 0 || !count) return null;
  switch (key) {
    case "ArrowRight": return (place + 1) % count;
    case "ArrowLeft": return (place + count - 1) % count;
    case "Home": return 0;
    case "End": return count - 1;
    default: return null;
  }
}
