"""Survey several models, and query the rows with polars."""

import polars as pl

import hfposemb as hpe

SOURCES = ["sample:bert", "sample:gpt2", "sinusoidal:256x128", "random:256x128"]

if __name__ == "__main__":
    rows = hpe.survey(SOURCES, metrics=["IsoScore", "mean norm", "token IsoScore"], draws=20, out="survey")
    found = pl.read_parquet("survey/*.parquet")
    assert len(found) == len(rows) == len(pl.from_pandas(rows))
    best = (
        found.filter(pl.col("metric") == "IsoScore", pl.col("value").is_not_null())
        .sort("value", descending=True)
        .select("source", "kind", pl.col("value").round(3))
    )
    print(best)
    print("most isotropic", best["source"][0], best["value"][0])
