"""On-disk cache of UMAP's compiled code, so that compilation happens once per machine, not once per process.

numba compiles umap-learn on first call, which takes five seconds of processor time, and discards the result when the
process ends. Functions marked for caching are kept by numba in $NUMBA_CACHE_DIR, next to the module or in the user's
cache folder, keyed by source file, processor and versions; this module marks the remaining ones. Where numba can write
to none of these folders, importing umap-learn fails, so numba is given a folder in our cache.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import Cache
from ..errors import HfposembError, require

_NO_FOLDER = "no locator available"
"""Text of numba's error when it finds no writable folder for compiled code."""


def require_umap() -> None:
    """Raise ``MissingExtraError`` if umap-learn is not installed; does not import it."""
    require("umap", package="umap-learn", extra="umap", purpose="UMAP")


def compiled_umap() -> Any:
    """Return umap-learn, with compiled code read from disk where available: its own and ours.

    Raises:
        MissingExtraError: If umap-learn is not installed.
        HfposembError: If no folder is writable, not even the one for temporary files.
    """
    require_umap()
    from numba.core.dispatcher import Dispatcher

    umap = _umap()
    from . import inverted_file, neighbour_candidates, shared_neighbours, umap_layout

    for module in (umap.umap_, umap_layout, neighbour_candidates, inverted_file, shared_neighbours):
        for compiled in vars(module).values():
            if isinstance(compiled, Dispatcher) and not compiled.signatures:
                with suppress(RuntimeError):  # no writable folder any more: compile for this process only
                    compiled.enable_caching()
    return umap


def _umap() -> Any:
    """Import umap-learn, with compiled code in numba's folder if writable, else in our cache or a temporary one."""
    from numba import config

    try:
        import umap
    except RuntimeError as error:
        if _NO_FOLDER not in str(error):
            raise
        config.CACHE_DIR = str(_writable_folder())  # type: ignore[attr-defined]
        import umap
    return umap


def _writable_folder() -> Path:
    """Return a writable folder for compiled code: one in our cache, else a temporary one that is removed at exit."""
    folder = Cache.default().folder / "numba"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    try:
        temporary = tempfile.mkdtemp(prefix="hfposemb-numba-")
    except OSError as error:
        raise HfposembError(
            "UMAP needs a writable folder for its compiled code; set NUMBA_CACHE_DIR to a writable folder"
        ) from error
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary)


def warm_umap() -> None:
    """Compile what UMAP needs and cache it: half a minute on a new machine, two seconds if it is already cached.

    Meant for a background process: processes started later on this machine find the code compiled.
    """
    from .projected_neighbours import projected_neighbours
    from .shared_neighbours import choose_neighbours
    from .umap_layout import optimised_layout

    umap = compiled_umap().umap_
    near = np.full((64, 15), 0.1, np.float32)
    others = (np.arange(64)[:, None] + np.arange(15)) % 64
    graph = umap.fuzzy_simplicial_set(near, 15, np.random.RandomState(0), "cosine", {}, others.astype(np.int32), near)
    points = np.random.default_rng(0).standard_normal((64, 3))
    optimised_layout(graph[0], points, epochs=2, curve=(1.6, 0.9), seed=0)
    choose_neighbours(others, near, 10)
    for metric in ("cosine", "euclidean"):
        projected_neighbours(points, k=2, metric=metric)
