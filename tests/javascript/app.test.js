import assert from "node:assert/strict";
import { test } from "node:test";

import { lineOf } from "../../app/static/folded_controls.js";
import { nextTab } from "../../app/static/keys.js";
import { addressWith, tellSpaces } from "../../app/static/query.js";

const NAMES = ["models", "tab"];

test("our parameters are replaced, others stay", () => {
  const at = { pathname: "/lab/", search: "?__theme=dark&tab=words&models=a", hash: "#top" };
  assert.equal(addressWith(at, "models=b&models=c", NAMES), "/lab/?__theme=dark&models=b&models=c#top");
  assert.equal(addressWith({ ...at, search: "?tab=words" }, "", NAMES), "/lab/#top");
});

test("an address that says the same already is left alone", () => {
  const at = { pathname: "/", search: "?other=1&models=a&tab=words", hash: "" };
  assert.equal(addressWith(at, "models=a&tab=words", NAMES), null);
});

test("a Space tells the page around it what is shown, and only Hugging Face's", () => {
  const told = [];
  const parent = { postMessage: (...said) => told.push(said) };
  tellSpaces({ parent }, { search: "?models=a&tab=words", hash: "" });
  assert.deepEqual(told, [[{ queryString: "models=a&tab=words", hash: "" }, "https://huggingface.co"]]);
  const alone = { parent: null };
  alone.parent = alone;
  tellSpaces(alone, { search: "?tab=words", hash: "" });
});

test("arrow keys go along the tabs and around their ends, other keys stay", () => {
  assert.deepEqual(["ArrowRight", "ArrowLeft", "Home", "End"].map((key) => nextTab(key, 2, 6)), [3, 1, 0, 5]);
  assert.deepEqual([nextTab("ArrowRight", 5, 6), nextTab("ArrowLeft", 0, 6)], [0, 5]);
  assert.deepEqual([nextTab("Tab", 2, 6), nextTab("ArrowRight", -1, 6), nextTab("End", 0, 0)], [null, null, null]);
});

test("a folded bar of controls names what is chosen in it", () => {
  assert.equal(lineOf([" PCA", "3-D ", "", "All"]), "PCA · 3-D · All");
  assert.equal(lineOf([""]), "Controls");
});
