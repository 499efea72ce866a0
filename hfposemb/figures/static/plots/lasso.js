// Selecting dots of a plot by drawing a shape around them.

import { button, h, s } from "../rows/elements.js";

const APART = 4; // px between corners of a shape
/** @type {Record<string, string>} */
const ICONS = {
  Lasso: "M6 12C2 11 1 7 3 5s9-4 11-1-1 7-5 7-4 3-6 4", Box: "M3 4h10v8H3z", Range: "M4 2v12M12 2v12M4 8h8",
};
const LEAST = 8; // px: a smaller shape is a click

/**
 * Return the buttons of a plot's tools.
 * @param {string[]} tools
 * @param {() => LassoPlot | undefined} plot
 * @param {(area: Corners) => void} chosen
 */
export function toolButtons(tools, plot, chosen) {
  if (!tools.length) return null;
  const group = h("span", "tools");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Select");
  const buttons = tools.map((tool) => {
    const node = button("tool", icon(tool), tool);
    node.setAttribute("aria-pressed", "false");
    let stop = () => {};
    const end = () => {
      node.setAttribute("aria-pressed", "false");
      stop();
    };
    node.onclick = () => {
      const active = node.getAttribute("aria-pressed") === "true";
      buttons.forEach((other) => other.dispatchEvent(new Event("end")));
      const target = active ? undefined : plot();
      if (!target) return;
      node.setAttribute("aria-pressed", "true");
      stop = drawShape(target, tool, (area) => {
        end();
        if (area) chosen(area);
      });
    };
    node.addEventListener("end", end);
    node.onkeydown = (event) => {
      if (event.key !== "Escape" || node.getAttribute("aria-pressed") !== "true") return;
      event.preventDefault(); // the selection stays
      end();
    };
    return node;
  });
  group.append(...buttons);
  return group;
}

/** @param {string} tool */
function icon(tool) {
  const path = ICONS[tool];
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }).appendChild(s("path", { d: path })).parentElement
    ?? "";
}

/**
 * Let the pointer draw a shape over a plot. Return how to stop.
 * @param {LassoPlot} plot
 * @param {string} tool
 * @param {(area: Corners | null) => void} done
 */
function drawShape({ box, stage }, tool, done) {
  const outline = s("polygon", { class: "shape" }), veil = h("div", "veil", s("svg", {}));
  veil.firstElementChild?.append(outline);
  /** @type {Spot[]} */
  let corners = [];
  const corner = (/** @type {PointerEvent} */ { clientX, clientY }) => {
    const { left, top } = box.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  };
  const drawn = () => shape(corners, tool, box.clientHeight);
  const draw = () => outline.setAttribute("points", drawn().map(({ x, y }) => `${x},${y}`).join(" "));
  veil.onpointerdown = (event) => {
    veil.setPointerCapture(event.pointerId);
    corners = [corner(event)];
    event.preventDefault();
  };
  veil.onpointermove = (event) => {
    const last = corners.at(-1), next = corner(event);
    if (!last || Math.hypot(next.x - last.x, next.y - last.y) < APART) return;
    corners.push(next);
    draw();
  };
  veil.onpointerup = (event) => {
    if (corners.length) corners.push(corner(event));
    const all = drawn(), wide = spread(all, "x"), high = spread(all, "y");
    done(wide < LEAST || high < LEAST ? null : stage.places(corners[0], all));
  };
  veil.onpointercancel = () => done(null);
  box.append(veil);
  return () => veil.remove();
}

/**
 * Return the corners of the shape that a path makes.
 * @param {Spot[]} path
 * @param {string} tool
 * @param {number} high pixels of the plot, all of which a range covers
 * @returns {Spot[]}
 */
export function shape(path, tool, high) {
  const from = path[0], to = path.at(-1);
  if (tool === "Lasso" || !from || !to) return path;
  const top = tool === "Range" ? 0 : from.y, bottom = tool === "Range" ? high : to.y;
  return [{ x: from.x, y: top }, { x: to.x, y: top }, { x: to.x, y: bottom }, { x: from.x, y: bottom }];
}

/**
 * @param {Spot[]} corners
 * @param {"x" | "y"} axis
 */
function spread(corners, axis) {
  const values = corners.map((corner) => corner[axis]);
  return Math.max(...values) - Math.min(...values);
}
