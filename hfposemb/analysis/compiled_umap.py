"""UMAP with its compiled code kept on disk, so that a machine compiles it once and not every process anew.

umap-learn is compiled by numba when it is first called, five seconds of a processor's time, and forgets that when the
process ends. numba keeps what it compiles in $NUMBA_CACHE_DIR, beside the module or in the user's cache folder, by
source file, processor and versions, for functions that are marked so; here the others are marked. No function of
umap-learn is replaced. Where numba can write to none of these folders, umap-learn cannot even be imported: numba is
given a folder in our cache then.
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
"""What numba's error says where it finds no folder to keep compiled code in."""


def umap_class() -> type[UMAP]:
    """Return umap-learn's ``UMAP``, whose compiled code is read from disk where this machine has it.

    Raises ``HfposembError`` where no folder can be written, the one for temporary files included.
    """
    from numba.core.dispatcher import Dispatcher

    umap = _umap()
    for module in (umap.umap_, umap.layouts):
        for compiled in vars(module).values():
            if isinstance(compiled, Dispatcher) and not compiled.signatures:
                with suppress(RuntimeError):  # no folder can be written any more: compiled for this process
                    compiled.enable_caching()
    return umap.UMAP  # type: ignore[no-any-return]


def _umap() -> Any:
    """Import umap-learn, which needs a folder for compiled code: numba's choice, else ours, else a temporary one."""
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
    """Return a folder for compiled code that can be written: in our cache, else one that this process removes."""
    folder = Cache.default().folder / "numba"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    try:
        temporary = tempfile.mkdtemp(prefix="hfposemb-numba-")
    except OSError as error:
        raise HfposembError(
            "UMAP needs a folder that can be written to, for its compiled code; set NUMBA_CACHE_DIR to one"
        ) from error
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary)


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
