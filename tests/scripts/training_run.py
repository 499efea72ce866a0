"""Follow a training run on the Hub through some of its revisions."""

import hfposemb as hpe

sources = hpe.evenly_spaced(hpe.revisions("lab/run", "step*"), 5)
run = hpe.trajectory(sources, metrics=["effective rank", "mean cosine at distance 1"])
frame = run.to_frame()
print(frame.round(3))
print("effective rank", frame["effective rank"].round(1).tolist())
