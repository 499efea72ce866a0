"""The part of the space that a cloud is drawn in: without the points far outside, which would squeeze all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

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
