"""Points that are an array to NumPy and to whoever indexes or iterates over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Points:
    """Mixin of what has ``coordinates`` [n, dims]: as an array, it is these."""

    coordinates: NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.coordinates)

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield the coordinates of every point [dims]."""
        return iter(self.coordinates)

    def __getitem__(self, key: Any) -> Any:
        """Return ``coordinates[key]``."""
        return self.coordinates[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the coordinates for NumPy, a copy if ``copy`` is true."""
        found: NDArray[Any] = np.array(self.coordinates, dtype) if copy else np.asarray(self.coordinates, dtype)
        return found
