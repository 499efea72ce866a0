"""JavaScript helpers that keep preferences in the browser's local storage."""

STORE_JS = """
const stored = () => {
  try { return Object(JSON.parse(localStorage.getItem("hfposemb"))); } catch { return {}; }
};
const store = (more) => {
  try { localStorage.setItem("hfposemb", JSON.stringify({ ...stored(), ...more })); } catch { /* it keeps nothing */ }
};
"""
"""``stored()`` returns the remembered object; ``store(more)`` merges ``more`` into it."""
