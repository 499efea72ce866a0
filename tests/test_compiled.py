"""Compiled code of umap-learn: kept on disk by one process, found by the next."""

from __future__ import annotations

import subprocess
import sys

WATCHED = """
import numpy as np
from numba.core import event
from hfposemb import UMAPParameters, project
from hfposemb.compiled import umap_class
from hfposemb.table import Provenance, table_of

class Compilations(event.Listener):
    def on_start(self, one):
        function = one.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__name__}")

    def on_end(self, one): ...

if "kept" in sys.argv:
    umap_class()
else:
    import umap
    project.__globals__["umap_class"] = lambda: umap.UMAP
event.register("numba:compile", Compilations())
table = table_of(np.random.default_rng(0).normal(size=(20, 6)), name="made", provenance=Provenance("made"))
for dims in (2, 3):
    project(table, method="umap", dims=dims, umap=UMAPParameters(neighbors=5, epochs=2))
"""


def run(code: str, *arguments: str) -> list[str]:
    """Return what code prints in a process of its own, by line."""
    command = [sys.executable, "-c", f"import sys\n{code}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_nothing_is_compiled_again_in_the_next_process() -> None:
    run("from hfposemb.compiled import warm_umap; warm_umap()")
    assert run(WATCHED, "kept") == []


def test_the_test_of_compiling_can_fail() -> None:
    assert "umap.umap_.smooth_knn_dist" in run(WATCHED)
