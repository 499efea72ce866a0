"""UMAP with an on-disk cache of its compiled code, so that compilation happens once per machine, not once per process.

numba compiles umap-learn on first call, which takes five seconds of processor time, and discards the result when the
process ends. Functions marked for caching are kept by numba in $NUMBA_CACHE_DIR, next to the module or in the user's
cache folder, keyed by source file, processor and versions; this module marks the remaining ones. No function of
umap-learn is replaced. Where numba can write to none of these folders, importing umap-learn fails, so numba is given a
folder in our cache.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cache import Cache
from ..errors import HfposembError

if TYPE_CHECKING:
    from umap import UMAP

_NO_FOLDER = "no locator available"
"""Text of numba's error when it finds no writable folder for compiled code."""


def umap_class() -> type[UMAP]:
    """Return umap-learn's ``UMAP``, with compiled code read from disk where available.

    Raises:
        HfposembError: If no folder is writable, not even the one for temporary files.
    """
    from numba.core.dispatcher import Dispatcher

    umap = _umap()
    for module in (umap.umap_, umap.layouts):
        for compiled in vars(module).values():
            if isinstance(compiled, Dispatcher) and not compiled.signatures:
                with suppress(RuntimeError):  # no writable folder any more: compile for this process only
                    compiled.enable_caching()
    return umap.UMAP  # type: ignore[no-any-return]


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
    near = np.zeros((64, 16), np.float32)
    own = np.arange(64, dtype=np.int32)[:, None]
    given = (np.hstack([own, (own + np.arange(1, 16, dtype=np.int32)) % 64]), near)
    points = np.random.default_rng(0).standard_normal((64, 2), dtype=np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="precomputed_knn\\[2\\]")
        fit = umap_class()(init=points, n_epochs=2, random_state=0, n_jobs=1, precomputed_knn=given)
        fit.fit_transform(points)
