// The order of an atlas's rows, and the commands and addresses that it writes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { mostFrequent } from "../../hfposemb/figures/static/atlas/plot.js";
import { compareCommand, comparisonAddress, orderOf } from "../../hfposemb/figures/static/atlas/table.js";

test("missing values are last in both orders", () => {
  assert.deepEqual(orderOf([2, null, 10, -1], false), [3, 0, 2, 1]);
  assert.deepEqual(orderOf([2, null, 10, -1], true), [2, 0, 3, 1]);
  assert.deepEqual(orderOf(["b10", "–", "b9", ""], false), [2, 0, 1, 3]);
});

test("equal values keep their order", () => {
  assert.deepEqual(orderOf([1, 1, 0, 1], true), [0, 1, 3, 2]);
});

test("a command quotes what a shell would read", () => {
  assert.equal(compareCommand(["a/b@main", "./it's mine; rm"]), "hfposemb compare a/b@main './it'\\''s mine; rm'");
});

test("an address names every source", () => {
  assert.equal(comparisonAddress("http://127.0.0.1:7860", ["a/b@v1", "c&d"]),
    "http://127.0.0.1:7860/?models=a%2Fb%40v1&models=c%26d&tab=compare");
});

test("groups are in order of frequency, then of name", () => {
  assert.deepEqual(mostFrequent(["b", "a", "c", "c"]), ["c", "a", "b"]);
});
