"""What strangers guess: it works, or the answer names what to write."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import gradio as gr
import numpy as np
import pandas as pd
import pytest
from hfposemb.app import panel
from sklearn.manifold import TSNE

import hfposemb as hpe
from hfposemb import guesses
from hfposemb.cli.main import main

WORKS = "it works"
M = hpe.extract("sample:gpt2")
NAMES: dict[str, Any] = {"hpe": hpe, "m": M, "t": M.token, "np": np, "pd": pd, "TSNE": TSNE}
NAMES["panel"] = panel
NAMES["p"] = hpe.project(M.position, progress=False)
NAMES["n"] = hpe.neighbours(M.token, "king")

GUESSES = {
    "hpe.neighbors(t, 'king', 5)": WORKS,
    "hpe.load('sample:bert')": WORKS,
    "hpe.from_pretrained('sample:bert')": WORKS,
    "hpe.similarity(t, ['king', 'queen'])": WORKS,
    "hpe.project(t, 'PCA', 3, rows=['king', 'queen', 'lord', 'duke'])": WORKS,
    "hpe.project(m.position, method=TSNE(), progress=False)": WORKS,
    "hpe.from_arrays([[1.0, 2.0], [3.0, 4.0]])": WORKS,
    "pd.DataFrame(t).shape == t.to_numpy().shape": WORKS,
    "np.asarray(p).shape == p.coordinates.shape and len(p) == 256": WORKS,
    "t['king'], t[5], t[-1], t[:3], 'king' in t, len(t), next(iter(t))": WORKS,
    "m['token']['king']": WORKS,
    "hpe.nearest_neighbours": "hpe.neighbours(model.token, 'king')",
    "hpe.most_similar": "hpe.neighbours(",
    "hpe.semantic_search": "hpe.neighbours(",
    "hpe.kneighbors": "hpe.neighbours(",
    "hpe.cosine_similarity": "hpe.similarity(",
    "hpe.cos_sim": "hpe.similarity(",
    "hpe.pairwise_distances": "hpe.similarity(",
    "hpe.pca": "method='pca'",
    "hpe.UMAP": "method='umap'",
    "hpe.TSNE": "method=sklearn.manifold.TSNE()",
    "hpe.fit_transform": "hpe.project(",
    "hpe.plot": "hpe.show(model)",
    "hpe.heatmap": "hpe.view(",
    "hpe.AutoModel": "hpe.extract('owner/name')",
    "hpe.SentenceTransformer": "hpe.extract('owner/name')",
    "hpe.encode": "model.inputs(",
    "hpe.norm": "did you mean norms?",
    "hpe.alignMaps": "did you mean align_maps?",
    "hpe.centered_logits": "did you mean centred_logits?",
    "hpe.embeddings": "did you mean Embeddings?",
    "hpe.exctract": "did you mean extract?",
    "hpe.save": "hpe.write_table(table",
    "hpe.launch": "from hfposemb.app import launch",
    "m.get_input_embeddings()": "write model.token",
    "m.wte": "write model.token",
    "m.wv": "write model.token",
    "m.vectors": "model.token.vectors",
    "m.lm_head": "write model.head",
    "m.position_embeddings": "write model.position",
    "m.positions.table": "['position'].table",
    "m['king']": "model.token['king']",
    "list(m)": "model.token",
    "np.asarray(m)": "model.token",
    "m.position.vectors": "model.position.table.vectors",
    "m.position.shape": "model.position.table.shape",
    "t.weight": "table.vectors",
    "t.numpy()": "table.vectors",
    "t.vocab": "table.labels",
    "t.most_similar('king')": "hpe.neighbours(table, 'king')",
    "t.similarity('king', 'queen')": "hpe.similarity(table, ['king', 'queen'])",
    "t.embedding_dim": "table.shape",
    "p.embedding_": "coordinates",
    "p.explained_variance_ratio_": "explained_variance_ratio",
    "n.scores": "values",
    "n.to_pandas()": "to_frame()",
    "hpe.neighbours(t, 'king', topn=3)": "did you mean k=?",
    "hpe.neighbours(t, 'king', n_neighbors=3)": "did you mean k=?",
    "hpe.project(t, n_components=2)": "did you mean dims=?",
    "hpe.project(t, method='umap', min_dist=0.2)": "umap=hpe.UMAPParameters(min_dist=…)",
    "hpe.similarity(t, 'king', 'queen')": "several rows as one list",
    "hpe.similarity(t, ['king'], metric='cos')": "did you mean cosine?",
    "hpe.show(m, role='tokens')": "did you mean token?",
    "hpe.view('position', m)": "did you mean positions?",
    "hpe.Embeddings.from_pretrained('gpt2')": "write hpe.extract(",
    "hpe.Embeddings('sample:gpt2')": "write hpe.extract(",
    "hpe.EmbeddingTable.from_numpy(np.eye(4))": "hpe.from_arrays(token=vectors)",
    "hpe.extract(TSNE)": "TSNE is a class",
    "hpe.extract(m)": "open already",
    "hpe.extract('sample:gpt2', trust_remote_code=True)": "leave it out",
    "hpe.extract('sample:gpt2', layer='wte')": "did you mean tables=?",
    "hpe.from_arrays(np.eye(2), vocab=['a', 'b'])": "labels=",
    "hpe.rope(64, 16)": "hpe.extract('rotary:",
    "t.mean(axis=0)": "table.vectors.mean",
    "t.describe()": "table.to_frame().describe",
    "t['KING']": "did you mean 'king'?",
    "t['king':'queen']": "table[3:7]",
    "m['wte']": "did you mean token?",
    "m.compare('sample:bert')": "write hpe.compare(",
    "m.tables.token": "write ['token']",
    "m.inputs([5, 6]).shape": "it has",
    "m.position.bias": "it has grid, has_table, kind, matrix, offset, profile, table, unit",
    "t.labels['king']": "write table.row('king')",
    "t.to_numpy(dtype='float16')": WORKS,
    "hpe.plot_positions(m)": "hpe.show(model)",
    "hpe.view('positions', 'sample:gpt2')": "open it first: hpe.extract('sample:gpt2')",
    "hpe.view(m, 'positions')": "the order is name, sources",
    "hpe.sinusoidal(9, 8).vectors": "model.position.table.vectors",
    "n[0]": ".to_frame()",
    "hpe.neighbours(t, 'king', k='3')": "k of neighbours() must be a whole number; got '3'",
    "hpe.row_origin(t, ['king'])": "rows of row_origin() must be whole numbers; got ['king']",
    "hpe.row_origin(t, np.array([1.5]))": "rows of row_origin() must be whole numbers; got ndarray of float64",
    "hpe.mixture(t, 'king', positions='3')": "positions of mixture() must be a whole number or whole numbers; got '3'",
    "hpe.uncertainty(m, names=3)": "names of uncertainty() must be texts; got 3",
    "hpe.pair_similarities(t, None)": "rows of pair_similarities() must be rows or words; got NoneType",
    "hpe.word_plane(t, None)": "words of word_plane() must be a text or rows or words; got NoneType",
    "hpe.project(t, rows=np.ones(3))": "must be rows or words, whole numbers or None; got ndarray of float64",
    "hpe.project(t, dims=True)": "dims of project() must be a whole number; got True",
    "hpe.point_trust(t, np.zeros((1, 2)), rows=[10**6])": "has no row 1000000; its rows are 0 to",
    "hpe.fit_shift(m.position, 1, components=0)": "components must be at least 1; got 0",
    "hpe.fit_shift(m.position, 1, held_out=1.5)": "held_out must be between 0 and 1; got 1.5",
    "hpe.intrinsic_dimension(t, seed=-1)": "seed of intrinsic_dimension() must be 0 or more; got -1",
    "hpe.model_card('sample:gpt2')": "open it first: hpe.extract('sample:gpt2')",
    "hpe.write_table(m, 'words.npz')": "give its .token or .position.table",
    "hpe.write_table('words.npz', t)": "the order is table, path",
    "panel('sample:gpt2')": "sources=",
    "panel(sources=[t])": "hpe.extract or hpe.from_arrays",
    "hfposemb neighbors sample:gpt2 king --k 3": WORKS,
    "hfposemb neighbours --source sample:gpt2 king": "as in hfposemb neighbours SOURCE QUERY",
    "hfposemb similarity sample:gpt2 --rows king queen": "--rows king,queen",
    "hfposemb info sample:gpt2 --token hf_x": "set HF_TOKEN",
    "hfposemb project sample:gpt2 --method PCA --table position --json": WORKS,
    "hfposemb neighbours sample:gpt2 king --top 3": "did you mean -k?",
    "hfposemb neighbours sample:gpt2 king -n 3": "did you mean -k?",
    "hfposemb neighbours sample:gpt2 king --table wte": "did you mean token?",
    "hfposemb show sample:gpt2": "did you mean app or info?",
    "hfposemb plot sample:gpt2": "did you mean export?",
    "hfposemb help": "did you mean --help?",
    "hfposemb version": "did you mean --version?",
    "hfposemb ls": "did you mean info?",
    "hfposemb info sample:gpt2 --format json": "--json?",
    "hfposemb similarity sample:gpt2 --rows king,queen --metric l2": "did you mean euclidean?",
}
"""What is tried, and what the answer has to contain."""


def _answer(guess: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message of a guess that fails, and that it works of others."""
    if guess.startswith("hfposemb "):
        try:
            code = main(guess.split()[1:])
        except SystemExit as stop:
            code = int(str(stop.code))
        return capsys.readouterr().err if code else WORKS
    try:
        with gr.Blocks():
            eval(guess, NAMES)
    except (AttributeError, TypeError, hpe.HfposembError) as error:
        known = not isinstance(error, AttributeError) or (error.name and error.obj is not None)
        return str(error) if known else "an AttributeError without name and obj"
    return WORKS


@pytest.mark.parametrize("guess", GUESSES)
def test_a_guess_works_or_is_told_what_to_write(guess: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = _answer(guess, capsys)
    assert GUESSES[guess] in said
    assert len(said.splitlines()[-1]) < 300


def test_public_functions_are_pickled_and_only_public_names_are_listed() -> None:
    assert pickle.loads(pickle.dumps(hpe.neighbours)) is hpe.neighbours
    for one in (hpe, M, M.token, M.position, NAMES["p"]):
        assert not [name for name in dir(one) if name.startswith("_") and not name.startswith("__")]
    assert "position" in repr(M.positions)


def test_a_class_answers_its_own_fields_without_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """``dataclass`` asks for each field while a class is made: guesses there took a tenth of the app's start."""
    guessed: list[str] = []

    def noted(name: str, *_: object) -> str:
        guessed.append(name)
        return ""

    monkeypatch.setattr(guesses, "_answer", noted)

    @dataclass
    class Made(guesses.Answering):
        rows: int

    with pytest.raises(AttributeError, match=r"class 'Made' has no attribute 'rows'; its objects have$"):
        _ = Made.rows  # type: ignore[misc]
    assert not guessed
    assert not hasattr(Made, "row")
    assert guessed == ["row"]
