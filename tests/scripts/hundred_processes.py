"""Measure a hundred checkpoints of a run on the Hub, in processes."""

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import hfposemb as hpe


def measure(source):
    spectrum = hpe.spectrum(hpe.extract(source).position)
    return source, spectrum.effective_rank


if __name__ == "__main__":
    sources = hpe.revisions("lab/run", "step*")
    with ProcessPoolExecutor(2) as pool:
        found = dict(pool.map(measure, sources, chunksize=10))
    falling = sum(found[a] > found[b] for a, b in pairwise(sources))
    print("checkpoints", len(found))
    print("effective rank", round(found[sources[0]], 1), "to", round(found[sources[-1]], 1), "falls", falling, "times")
