"""The part of the space that a cloud is drawn in, and the place from which a 3-D cloud fills its plot.

Points far outside are left out, since they would squeeze all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .style import EYE, Array

FAR = 0.4  # a point is far outside beyond this fraction of the width of the middle 98 % of the points
THIN = 0.2  # least side of the box, as a fraction of the longest one
EDGE = 0.03  # distance of the box from the points inside it, as a fraction of its longest side


@dataclass(frozen=True, eq=False)
class CloudFrame:
    """A box in the space of a cloud, and the points that are far outside of it.

    Attributes:
        low: Lower corner of the box [dims].
        high: Upper corner of the box [dims].
        outside: Whether each point is far outside [n].
    """

    low: Array
    high: Array
    outside: Array

    @classmethod
    def of(cls, points: Array) -> CloudFrame:
        """Return the box around all points that are not far from the 1st to 99th percentile of each coordinate.

        Args:
            points: The cloud [n, dims].

        Examples:
            >>> import numpy as np
            >>> from hfposemb.figures.cloud_frame import CloudFrame
            >>> points = np.stack([np.arange(200), np.zeros(200)], axis=1)
            >>> points[0] = [100, 900]
            >>> np.flatnonzero(CloudFrame.of(points).outside).tolist()
            [0]
        """
        points = np.asarray(points, np.float64)
        low, high = np.percentile(points, (1, 99), axis=0)
        slack = FAR * float((high - low).max())
        outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
        if not slack:
            outside[:] = False
        low, high = points[~outside].min(axis=0), points[~outside].max(axis=0)
        longest = float((high - low).max()) or 1.0
        half = np.maximum((high - low) / 2, THIN / 2 * longest) + EDGE * longest
        middle = (low + high) / 2
        return cls(middle - half, middle + half, outside)

    @property
    def middle(self) -> Array:
        """Return the centre of the box [dims]."""
        return (self.low + self.high) / 2

    @property
    def longest(self) -> float:
        """Return the longest side of the box."""
        return float((self.high - self.low).max())

    @property
    def sides(self) -> Array:
        """Return the sides of the box relative to the longest one [dims]."""
        return (self.high - self.low) / self.longest

    def unit(self, points: Array) -> Array:
        """Return points [n, dims] relative to the centre of the box, in units of its longest side."""
        return (np.asarray(points, np.float64) - self.middle) / self.longest

    def runs(self) -> list[tuple[int, int]]:
        """Return the first and last index of each run of consecutive points that are far outside."""
        at = np.flatnonzero(self.outside)
        parts = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        return [(int(part[0]), int(part[-1])) for part in parts if len(part)]

    def exits(self, points: Array, *, joined: bool) -> Array:
        """Return where the way to each point far outside leaves the box, half its edge from the border [outside, dims].

        Args:
            points: The cloud [n, dims].
            joined: Whether the way comes from the nearest point of the path that is inside, else from the centre.
        """
        points, inside = np.asarray(points, np.float64), np.flatnonzero(~self.outside)
        edge = EDGE / 2 * self.longest
        low, high = self.low + edge, self.high - edge
        found = []
        for index in np.flatnonzero(self.outside):
            start = points[inside[np.abs(inside - index).argmin()]] if joined else self.middle
            step = points[index] - start
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(step > 0, (high - start) / step, (low - start) / step)
            share = float(np.min(shares[step != 0]))
            found.append(start + step * min(share, 1.0))
        return np.asarray(found).reshape(-1, points.shape[1])


SLOPE = np.tan(np.pi / 8)  # plotly's field of view is 45° high
FILLED = 0.86  # of the plot's height and width; the rest has the labels of the ends
HEIGHTS = (0.15, 0.3, 0.45)  # of the camera above the middle, as slopes
AROUND = 16  # directions that are tried
USUAL = 0.05  # advantage of the usual direction
CROWD = 500  # points that are looked at
CELLS = 32  # along each side of the plot, to count where there are points
NEAREST = 1.0  # least distance of the eye: from nearer, what is in front is far too large
CENTRED = 3  # times that the centre is moved, which changes the distance


@dataclass(frozen=True, eq=False)
class Camera:
    """Where plotly looks from: unit vector from the centre to the eye, centre, and the least distances.

    Attributes:
        direction: Unit vector from the centre to the eye [3].
        center: What the camera looks at [3].
        across: Least distance at which the cloud fits a plot as wide as high.
        up: Least distance at which it fits the plot's height.
    """

    direction: Array
    center: Array
    across: float
    up: float

    def distance(self, ratio: float) -> float:
        """Return the distance of the eye for a plot of this ratio of width and height."""
        return max(self.up, self.across / ratio)

    def eye(self, ratio: float) -> Array:
        """Return the place of the eye [3] for a plot of this ratio of width and height."""
        return np.asarray(self.center + self.direction * self.distance(ratio))

    def layout(self, ratio: float) -> dict[str, Any]:
        """Return the camera as plotly reads it."""
        eye, center = (dict(zip("xyz", map(float, place), strict=True)) for place in (self.eye(ratio), self.center))
        return {"eye": eye, "center": center}


def best_camera(points: Array, *, ratio: float) -> Camera:
    """Return the camera from which points fill a plot.

    Args:
        points: Points in plotly's units, in which the longest side of the scene is 1 [n, 3].
        ratio: Width of the plot relative to its height.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.cloud_frame import best_camera
        >>> line = np.stack([np.linspace(-0.5, 0.5, 99), np.zeros(99), np.zeros(99)], axis=1)
        >>> bool(abs(best_camera(line, ratio=1.2).direction[0]) < 0.4)
        True
    """
    points = np.asarray(points, np.float64)[:: max(1, len(points) // CROWD)]
    usual = np.arctan2(EYE[1], EYE[0])
    found, best = None, -1.0
    for slope in HEIGHTS:
        for turn in range(AROUND):
            angle = usual + 2 * np.pi * turn / AROUND
            camera = _towards(points, np.array([np.cos(angle), np.sin(angle), slope]), ratio)
            share = _spread(points, camera, ratio) * (1 + USUAL * np.cos(angle - usual))
            if share > best:
                found, best = camera, share
    assert found is not None
    return found


def _towards(points: Array, direction: Array, ratio: float) -> Camera:
    """Return the camera in a direction, as near as the points allow, with their picture in the middle."""
    direction = direction / np.linalg.norm(direction)
    right, up = screen_axes(direction)
    camera = Camera(direction, np.zeros(3), NEAREST, NEAREST)
    for _ in range(CENTRED):
        seen = _slopes(points, camera, ratio)
        middle = (seen.min(axis=0) + seen.max(axis=0)) / 2 * camera.distance(ratio)
        center = camera.center + middle[0] * right + middle[1] * up
        depth = (points - center) @ direction
        # A point at distance d − depth is within the plot if its slope is at most that of the edge.
        across, high = (
            float((depth + np.abs((points - center) @ side) / (SLOPE * FILLED)).max()) for side in (right, up)
        )
        camera = Camera(direction, center, max(across, NEAREST), max(high, NEAREST))
    return camera


def _slopes(points: Array, camera: Camera, ratio: float) -> Array:
    """Return the slopes [n, 2] to the right and up at which a camera sees points."""
    right, up = screen_axes(camera.direction)
    seen = points - camera.eye(ratio)
    return np.asarray(np.stack([seen @ right, seen @ up], axis=1) / -(seen @ camera.direction)[:, None])


def _spread(points: Array, camera: Camera, ratio: float) -> float:
    """Return the share of the cells of the plot that points are in."""
    seen = _slopes(points, camera, ratio) / SLOPE / (ratio, 1)
    cells = np.unique(np.clip(((seen + 1) / 2 * CELLS).astype(int), 0, CELLS - 1) @ (1, CELLS))
    return len(cells) / CELLS**2


def screen_axes(direction: Array) -> tuple[Array, Array]:
    """Return the unit vectors that point right and up on the screen of a camera in a direction [3], of unit length."""
    x, y, z = direction
    level = float(np.hypot(x, y))
    return np.array([-y, x, 0.0]) / level, np.array([-x * z, -y * z, level**2]) / level
