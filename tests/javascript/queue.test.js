import assert from "node:assert/strict";
import { test } from "node:test";

import { Contexts } from "../../hfposemb/figures/static/pages/contexts.js";
import { PaintQueue } from "../../hfposemb/figures/static/pages/queue.js";

/** Return a queue whose plots are at given distances in a window of 1000 pixels, and what it has painted. */
function queue(more = {}) {
  const painted = [];
  const page = { distance: (plot) => plot.at, height: () => 1000, pause: () => Promise.resolve(), ...more };
  const plot = (name, at, flat = true) => ({ name, at, flat, paint: async () => void painted.push(name) });
  return { queue: new PaintQueue(page), painted, plot };
}

test("the nearest is painted first, and on the screen what needs no WebGL", async () => {
  const { queue: found, painted, plot } = queue();
  await Promise.all([
    plot("far", 5000), plot("deep", 0, false), plot("hidden", Infinity), plot("flat", 900), plot("below", 1500),
  ].map((one) => found.add(one)));
  assert.deepEqual(painted, ["flat", "deep", "below", "far", "hidden"]);
});

test("one plot is painted once for all that wait for it", async () => {
  const { queue: found, painted, plot } = queue();
  const one = plot("a", 0);
  await Promise.all([found.add(one), found.add(one)]);
  assert.deepEqual(painted, ["a"]);
});

test("an error goes to who waits for that plot, and the others are painted", async () => {
  const { queue: found, painted, plot } = queue();
  const broken = { ...plot("broken", 0), paint: () => Promise.reject(new Error("no WebGL")) };
  const [first, second] = await Promise.allSettled([found.add(broken), found.add(plot("a", 10))]);
  assert.equal(first.reason.message, "no WebGL");
  assert.equal(second.status, "fulfilled");
  assert.deepEqual(painted, ["a"]);
});

test("a paint that throws at once is an error of that plot", async () => {
  const { queue: found, painted, plot } = queue();
  const broken = { ...plot("broken", 0), paint: () => { throw new Error("at once"); } };
  await assert.rejects(found.add(broken), /at once/);
  await found.add(plot("a", 0));
  assert.deepEqual(painted, ["a"]);
});

test("the queue goes on after an error of its own", async () => {
  let broken = true;
  const { queue: found, painted, plot } = queue({
    distance: () => {
      if (broken) throw new Error("no box");
      return 0;
    },
  });
  await assert.rejects(found.add(plot("a", 0)), /no box/);
  broken = false;
  await found.add(plot("b", 0));
  assert.deepEqual(painted, ["b"]);
});

test("a plot that leaves is not painted, and who waits for it goes on", async () => {
  const { queue: found, painted, plot } = queue();
  const gone = plot("gone", 0);
  const waiting = found.add(gone);
  found.forget(gone);
  await waiting;
  assert.deepEqual(painted, []);
});

test("all that wait are painted at once for a printer", async () => {
  const { queue: found, painted, plot } = queue({ pause: () => new Promise(() => {}) });
  const waiting = [found.add(plot("a", 0)), found.add(plot("b", 9000))];
  found.flush();
  await Promise.all(waiting);
  assert.deepEqual(painted, ["a", "b"]);
});

test("nothing is painted while the queue is held, but for print", async () => {
  const { queue: found, painted, plot } = queue();
  let release = () => {};
  found.hold(new Promise((go) => { release = () => go(null); }));
  const first = found.add(plot("a", 0));
  await new Promise((go) => setTimeout(go));
  assert.deepEqual(painted, []);
  release();
  await first;
  assert.deepEqual(painted, ["a"]);
  found.hold(new Promise(() => {}));
  void found.add(plot("b", 0));
  found.flush();
  assert.deepEqual(painted, ["a", "b"]);
});

test("hidden plots keep their WebGL contexts until others need them, and the longest hidden goes first", () => {
  const contexts = new Contexts(), freed = [];
  const plot = (name) => {
    const one = { free: () => (freed.push(name), contexts.hold(one, 0)) };
    return one;
  };
  const [start, positions, tokens] = ["start", "positions", "tokens"].map(plot);
  contexts.hold(start, 3);
  contexts.hide(start);
  contexts.hold(positions, 3);
  contexts.hide(positions);
  contexts.hold(start, 3); // shown again
  contexts.hide(start);
  assert.deepEqual(freed, []);
  contexts.hold(tokens, 4);
  assert.deepEqual(freed, ["positions"]);
  contexts.hold(tokens, 9);
  assert.deepEqual(freed, ["positions", "start"]);
});
