"""Read the positions of a hundred checkpoints of a run on the Hub, in threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import hfposemb as hpe


def invariance(source):
    return hpe.translation_invariance(hpe.extract(source).position)


sources = hpe.revisions("lab/run", "step*")
with ThreadPoolExecutor(8) as pool:
    values = list(pool.map(invariance, sources))

print(len(sources), "checkpoints; first", round(values[0], 3), "last", round(values[-1], 3))
print("rising from", sources[int(np.argmax(np.array(values) > 0.5))])
