"""Compare the neighbours of a few words in two vocabularies, with pandas."""

import pandas as pd

import hfposemb as hpe

WORDS = ["king", "queen", "water", "bread"]

tables = []
for name in ("sample:bert", "sample:gpt2"):
    found = hpe.neighbours(hpe.extract(name).token, WORDS, k=10).to_frame()
    tables.append(
        found.assign(model=name, word=found["query"].str.strip(), near=found["label"].str.strip().str.lower())
    )
rows = pd.concat(tables, ignore_index=True)

print(rows.pivot_table(index="word", columns="model", values="cosine").round(3))
both = rows.groupby(["word", "near"])["model"].nunique().eq(2).groupby("word").sum()
print(both.to_string())
print("neighbours in both models", int(both.sum()))
