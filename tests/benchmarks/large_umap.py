"""Goal 17: UMAP of vocabularies of the sizes of GPT-2 and Gemma, and when a first layout is there to be seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from .computing import as_table, clustered, decaying
from .cost import Row, count, here, in_turns, ratio

LARGE = 17
WHOLE, FIRST = 150, 10
"""Seconds that 262,144 tokens may take as a whole, and to their first layout."""


def large_umap_rows() -> Iterator[Row]:
    """Yield UMAP of 50,257 × 768 over umap-learn's defaults, then of 262,144 × 640, once each."""
    from umap import UMAP

    import hfposemb

    few = clustered(20_000, 32)  # everything is compiled before
    hfposemb.project(as_table(few), method="umap", umap=hfposemb.UMAPParameters(n_epochs=2))
    UMAP(random_state=0, metric="cosine", n_jobs=1, n_epochs=2).fit_transform(few)
    vectors = decaying(50_257, 768)
    ours = here(partial(hfposemb.project, as_table(vectors), method="umap"))
    theirs = here(partial(UMAP(random_state=0, metric="cosine", n_jobs=1).fit_transform, vectors))
    costs = in_turns(ours, theirs, rounds=2, warm=False)
    yield ratio(LARGE, "UMAP 50,257 × 768, over umap-learn's defaults", costs, 0.5)
    del few, vectors, ours, theirs

    table, began, seen = as_table(clustered(262_144, 640)), time.perf_counter(), list[float]()
    hfposemb.project(table, method="umap", preview=lambda *_: seen.append(time.perf_counter() - began))
    took = time.perf_counter() - began
    yield count(LARGE, "UMAP 262,144 × 640, to the first layout", 1e3 * seen[0], 1e3 * FIRST, unit="ms")
    yield count(LARGE, "UMAP 262,144 × 640", 1e3 * took, 1e3 * WHOLE, unit="ms")
