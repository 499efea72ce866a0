"""Draw the norms of learned positions beside those of a sinusoid, with matplotlib."""

import matplotlib.pyplot as plt
import numpy as np

import hfposemb as hpe

gpt2 = hpe.extract("sample:gpt2")
sines = hpe.sinusoidal(*gpt2.position.table.shape)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
for source in (gpt2, sines):
    norms = hpe.norms(source.position)
    left.plot(norms / norms.mean(), label=source.name)
    right.plot(hpe.mean_cosine_by_distance(source.position.table), label=source.name)
left.set(xlabel="position", ylabel="norm / mean norm")
right.set(xlabel="distance", ylabel="mean cosine")
right.legend()
figure.savefig("norms.png")

drawn = left.lines[0].get_ydata()
print("highest norm at position", int(np.argmax(drawn)))
