// The place from which a cloud in three dimensions fills its plot: see camera.py.

const SLOPE = Math.tan(Math.PI / 8); // plotly's field of view is 45° high
const FILLED = 0.86; // of the plot's height and width
const HEIGHTS = [0.15, 0.3, 0.45]; // of the camera above the middle, as slopes
const DIRECTIONS = 16; // directions that are tried
const USUAL = Math.atan2(1.08, 1.22);
const PREFERRED = 0.05; // advantage of the usual direction
const CROWD = 500; // points that are looked at
const RATIO = 1.17; // width of a plot relative to its height

/**
 * Return the camera of a scene, and the least distances at which the cloud fits its height and its width.
 * @param {number[][]} points in plotly's units, in which the longest side of the scene is 1, relative to its centre
 * @returns {{ camera: { eye: Place, center: Place }, fit: { up: number, across: number } }}
 */
export function cloudCamera(points) {
  const step = Math.max(1, Math.floor(points.length / CROWD)), crowd = points.filter((_, at) => at % step === 0);
  const center = { x: 0, y: 0, z: 0 };
  let best = { camera: { eye: { x: 1.22, y: 1.08, z: 0.66 }, center }, fit: { up: 1, across: 1 } }, most = -1;
  for (const slope of HEIGHTS) {
    for (let turn = 0; turn < DIRECTIONS; turn++) {
      const angle = USUAL + 2 * Math.PI * turn / DIRECTIONS, found = seenFrom(crowd, angle, slope);
      const spread = found.spread * (1 + PREFERRED * Math.cos(angle - USUAL));
      if (!(spread > most)) continue;
      most = spread;
      best = { camera: { eye: found.eye, center }, fit: { up: found.up, across: found.across } };
    }
  }
  return best;
}

/**
 * @param {number[][]} points
 * @param {number} angle
 * @param {number} slope
 */
function seenFrom(points, angle, slope) {
  const length = Math.hypot(1, slope), [dx, dy, dz] = [Math.cos(angle) / length, Math.sin(angle) / length, slope / length];
  const seen = points.map(([x, y, z]) => {
    const across = y * Math.cos(angle) - x * Math.sin(angle), near = x * dx + y * dy + z * dz;
    const up = z * Math.hypot(dx, dy) - (x * Math.cos(angle) + y * Math.sin(angle)) * dz;
    return { across, up, near };
  });
  const least = (/** @type {"across" | "up"} */ side) => seen.reduce((far, one) =>
    Math.max(far, one.near + Math.abs(one[side]) / (FILLED * SLOPE)), 1);
  const up = least("up"), across = least("across"), distance = Math.max(up, across / RATIO);
  const width = (/** @type {"across" | "up"} */ side) => Math.sqrt(seen.reduce((sum, one) => sum + one[side] ** 2, 0) / seen.length);
  return { up, across, eye: { x: dx * distance, y: dy * distance, z: dz * distance }, spread: width("across") * width("up") / distance ** 2 };
}
