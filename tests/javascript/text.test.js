import assert from "node:assert/strict";
import { test } from "node:test";

import { number, plain, shortened, unescaped } from "../../hfposemb/figures/static/rows/text.js";

test("control and bidirectional characters are named", () => {
  assert.equal(plain("abc\u202edef\u0000"), "abc⟨U+202E⟩def⟨U+0000⟩");
  assert.equal(plain("<b>"), "<b>");
});

test("a text is cut where it is too long", () => {
  assert.equal(plain("x".repeat(200)), "x".repeat(160) + "…");
  assert.equal(plain("abcdef", 3), "abc…");
});

test("a long name keeps both ends", () => {
  const name = "a-model-with-a-name-that-no-line-has-room-for-v2";
  assert.equal(shortened(`see ${name}`), "see a-model-with-a-nam…e-has-room-for-v2");
  assert.equal(shortened("a line of many short words stays as it is, however long it becomes"),
    "a line of many short words stays as it is, however long it becomes");
});

test("numbers have three digits and a real minus", () => {
  const cases = [
    [0.12345, ".123"], [-0.5, "−.500"], [12.345, "12.35"], [1234.5, "1,235"], [30522, "30,522"], [0, "0"],
    [-0.0001, ".000"], [null, ""], [undefined, ""], ["", ""], ["step 3", "step 3"], [NaN, "NaN"], ["12", "12"],
  ];
  for (const [value, expected] of cases) assert.equal(number(value), expected);
});

test("escapes of plotly's markup are undone once", () => {
  assert.equal(unescaped("&lt;b&gt; &#36;5 &amp;lt;"), "<b> $5 &lt;");
});
