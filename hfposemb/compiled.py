"""UMAP with its compiled code kept on disk, so that a machine compiles it once and not every process anew.

umap-learn is compiled by numba when it is first called, five seconds of a processor's time, and forgets that when the
process ends. numba keeps what it compiles where it is told to: beside the module, in $NUMBA_CACHE_DIR or in the user's
cache folder, by source file, processor and versions. Here it is told to; no function of umap-learn is replaced.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from umap import UMAP


def umap_class() -> type[UMAP]:
    """Return umap-learn's ``UMAP``, whose compiled code is read from disk where this machine has it."""
    import umap
    from numba.core.dispatcher import Dispatcher

    for module in (umap.umap_, umap.layouts):
        for compiled in vars(module).values():
            if isinstance(compiled, Dispatcher) and not compiled.signatures:
                with suppress(RuntimeError):  # no folder can be written: compiled for this process, as before
                    compiled.enable_caching()
    return umap.UMAP  # type: ignore[no-any-return]


def warm_umap() -> None:
    """Compile what UMAP needs, and keep it on disk: half a minute on a new machine, two seconds on one that has it.

    For a process in the background: others on this machine that are started later find the code compiled.
    """
    near = np.zeros((64, 16), np.float32)
    own = np.arange(64, dtype=np.int32)[:, None]
    given = (np.hstack([own, (own + np.arange(1, 16, dtype=np.int32)) % 64]), near)
    points = np.random.default_rng(0).standard_normal((64, 2), dtype=np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="precomputed_knn\\[2\\]")
        fit = umap_class()(init=points, n_epochs=2, random_state=0, n_jobs=1, precomputed_knn=given)
        fit.fit_transform(points)
