"""What scripts of the page use to remember something in the visitor's browser."""

STORE_JS = """
const stored = () => {
  try { return Object(JSON.parse(localStorage.getItem("hfposemb"))); } catch { return {}; }
};
const store = (more) => {
  try { localStorage.setItem("hfposemb", JSON.stringify({ ...stored(), ...more })); } catch { /* it keeps nothing */ }
};
"""
"""``stored()`` returns what is remembered, an object; ``store(more)`` adds to it."""
