"""Leading eigenvectors of a symmetric matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SOLVED_WHOLE = 384
"""Side up to which all eigenvectors are computed, by numpy: to import scipy takes a tenth of a second."""


def leading_eigenvectors(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues [count], in descending order, and their eigenvectors as columns [side, count].

    Args:
        matrix: Symmetric matrix [side, side]; it may be overwritten.
        count: Number of eigenvalues; ``side`` of them if it is larger.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.analysis.eigenvectors import leading_eigenvectors
        >>> leading_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2)[0].tolist()
        [3.0, 2.0]
    """
    side = len(matrix)
    count = min(count, side)
    if side <= SOLVED_WHOLE:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    import scipy.linalg
    from threadpoolctl import threadpool_limits

    # One thread: scipy's BLAS has its own thread pool, whose idle threads would slow down numpy's before and after.
    with threadpool_limits(1):
        # The matrix is symmetric; its transpose has the memory order that LAPACK can overwrite without a copy.
        values, vectors = scipy.linalg.eigh(matrix.T, subset_by_index=(side - count, side - 1), overwrite_a=True)
    return values[::-1], vectors[:, ::-1]
