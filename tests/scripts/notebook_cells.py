"""What a notebook shows, cell by cell (also opens as a notebook in VS Code and PyCharm)."""

# %%
import hfposemb as hpe

bert = hpe.extract("sample:bert")
bert._repr_html_()

# %% the neighbours of a word, as a table
near = hpe.neighbours(bert.token, "king", k=5)
near._repr_html_()

# %% a map of the positions
points = hpe.project(bert.position, dims=2)
points.to_frame().describe()

# %% how good is the map?
points._repr_html_()

# %% and everything side by side
compared = hpe.compare(bert, "sample:gpt2", words=["king"], draws=0)
frame = compared.to_frame().pivot(index="metric", columns="source", values="value")
print("metrics of both", len(frame.dropna()), "mean norm", round(frame.loc["mean norm", "sample:bert"], 3))
