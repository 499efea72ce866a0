"""Compiled code of umap-learn: kept on disk by one process, found by the next."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import numpy as np
from numba.core import event
from hfposemb import UMAPParameters, project
from hfposemb.analysis.projection.compiled_umap import compiled_umap
from hfposemb.tables.table import Provenance, table_of

class Compilations(event.Listener):
    def on_start(self, one):
        function = one.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__name__}", flush=True)

    def on_end(self, one): ...

compiled_umap()
event.register("numba:compile", Compilations())
table = table_of(np.random.default_rng(0).normal(size=(20, 6)), name="made", provenance=Provenance("made"))
for dims in (2, 3):
    project(table, method="umap", dims=dims, umap=UMAPParameters(n_neighbors=5, n_epochs=2))
"""


def run(code: str) -> list[str]:
    """Return what code prints in a process of its own, by line."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_nothing_is_compiled_again_in_the_next_process() -> None:
    run("from hfposemb.analysis.projection.umap_layout import warm_umap; warm_umap()")
    assert run(WATCHED) == []


UMAP_IN_PLACE = """
import numba
from numba import njit

@njit(cache=True)
def added(x):
    return x + 1

class UMAP: ...
from umap import layouts, umap_
"""
"""What matters of umap-learn here: its import fails where no compiled code can be kept. Its own takes half a minute."""

NOWHERE = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": os.devnull + "/none"}
"""Leaves numba no folder, whatever this user may write."""

CHOSEN = """
from hfposemb.analysis.projection.compiled_umap import compiled_umap
compiled_umap()
import numba
print(numba.config.CACHE_DIR)
"""


@pytest.fixture
def in_place(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a package in the place of umap-learn, and no folder for compiled code."""
    package = tmp_path / "umap"
    package.mkdir()
    (package / "__init__.py").write_text(UMAP_IN_PLACE)
    for name in ("layouts", "umap_"):
        (package / f"{name}.py").write_text("")
    return {**os.environ, **NOWHERE, "PYTHONPATH": str(tmp_path), "HFPOSEMB_CACHE": str(tmp_path / "cache")}


def chosen(environment: dict[str, str]) -> Path:
    """Return the folder that numba was given."""
    done = subprocess.run([sys.executable, "-c", CHOSEN], env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def test_without_a_folder_of_numbas_there_is_one_in_our_cache(in_place: dict[str, str], tmp_path: Path) -> None:
    assert chosen(in_place) == tmp_path / "cache" / "numba"
    assert list((tmp_path / "cache" / "numba").iterdir())


def test_without_a_cache_compiled_code_is_kept_until_the_process_ends(in_place: dict[str, str], tmp_path: Path) -> None:
    folder = chosen({**in_place, "HFPOSEMB_CACHE": os.devnull + "/none", "TMPDIR": str(tmp_path)})
    assert folder.parent == tmp_path
    assert not folder.exists()


def test_compiled_code_that_was_cut_is_removed(in_place: dict[str, str], tmp_path: Path) -> None:
    """numba cannot read it, and would never write it again."""
    folder = tmp_path / "cache" / "numba" / "umap_0"
    folder.mkdir(mode=0o700, parents=True)
    whole, kept = pickle.dumps("0.68"), {"whole.nbi", "whole.nbc", "other.txt"}
    for name in kept:
        (folder / name).write_bytes(whole if name.startswith("whole") else b"")
    for name, cut in (("cut.nbi", whole[:-1]), ("empty.nbc", b""), ("zeros.nbc", whole + bytes(9))):
        (folder / name).write_bytes(cut)
    assert chosen({**in_place, "NUMBA_CACHE_DIR": str(tmp_path / "cache" / "numba")}) == tmp_path / "cache" / "numba"
    assert {path.name for path in folder.iterdir()} == kept


@pytest.mark.skipif(os.name == "nt", reason="access is not stated by a mode there")
def test_compiled_code_is_not_read_from_where_others_write(in_place: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache" / "numba").mkdir(parents=True)
    (tmp_path / "cache" / "numba").chmod(0o777)
    assert chosen({**in_place, "TMPDIR": str(tmp_path)}).parent == tmp_path


def test_a_full_disk_is_one_line(in_place: dict[str, str]) -> None:
    code = f"import hfposemb.analysis.projection.compiled_umap as module\nmodule._ROOM = 10**30\n{CHOSEN}"
    done = subprocess.run([sys.executable, "-c", code], env=in_place, capture_output=True, text=True)
    assert "HfposembError: UMAP needs a writable folder with" in done.stderr.splitlines()[-1]
