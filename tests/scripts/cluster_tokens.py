"""Search neighbours with scikit-learn, which takes a table as it is, and compare them with the exact ones."""

from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

import hfposemb as hpe

table = hpe.extract("sample:bert").token
search = NearestNeighbors(n_neighbors=11, metric="cosine").fit(table)
king = table.row("king")
_, near = search.kneighbors(table.vectors[[king]])
theirs = [int(row) for row in near[0] if row != king][:10]
ours = hpe.neighbours(table, "king", k=10).rows.tolist()

clusters = KMeans(5, n_init=1, random_state=0).fit_predict(hpe.project(table, dims=3).coordinates)
print("cluster of king", clusters[king], "with", (clusters == clusters[king]).sum(), "tokens")
print("neighbours that agree", len(set(ours) & set(theirs)))
