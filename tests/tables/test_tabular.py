"""Results as data frames and in notebooks: every result of a public function is shown, and nothing measured for it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.projection import projecting as projection
from hfposemb.checks.rope_report import rope_report
from hfposemb.surveys.remeasure import again
from hfposemb.surveys.worker_pool import Engine
from hfposemb.tables.tabular import Facts, Tabular, in_html

BERT, WAVES = hpe.extract("sample:bert"), hpe.sinusoidal(64, 16)
WORDS = [1037, 1045, 1055]


def model(seed: int) -> hpe.Embeddings:
    """A model of 60 words."""
    rng = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(60)]
    return hpe.from_arrays(token=rng.normal(size=(60, 8)), position=rng.normal(size=(32, 8)), labels=words)


def added() -> Any:
    """Words with positions added."""
    return hpe.add_positions(BERT)


MAKERS: dict[str, Callable[[], Any]] = {
    "project": lambda: hpe.project(WAVES.position),
    "project in 3-D": lambda: hpe.project(WAVES.position, dims=3),
    "point_trust": lambda: hpe.project(WAVES.position).trust,
    "neighbours": lambda: hpe.neighbours(BERT.token, "king"),
    "neighbours of several": lambda: hpe.neighbours(BERT.token, ["king", "queen"]),
    "pair_similarities": lambda: hpe.pair_similarities(BERT.token, ["king", "queen", "prince"]),
    "similarity_distribution": lambda: hpe.similarity_distribution(BERT.token, "king", bins=10),
    "spectrum": lambda: hpe.spectrum(WAVES.position),
    "strength_by_period": lambda: hpe.strength_by_period(WAVES.position),
    "shift_by_distance": lambda: hpe.shift_by_distance(WAVES.position),
    "plane_rotation": lambda: hpe.plane_rotation(WAVES.position, 2),
    "frequency_resolution": lambda: hpe.frequency_resolution(WAVES.position),
    "position_probes": lambda: hpe.position_probes(WAVES.position, seeds=[0, 1])["absolute"],
    "undertrained_tokens": lambda: hpe.undertrained_tokens(BERT.token, count=3),
    "row_origin": lambda: hpe.row_origin(BERT.token, [5, 6]),
    "encoding_requirements": lambda: hpe.encoding_requirements(WAVES),
    "check": lambda: hpe.check("sample:gpt2"),
    "compare": lambda: hpe.compare(WAVES, words=[], draws=0),
    "a pair of compare": lambda: hpe.compare(WAVES, hpe.extract("random:64x16"), draws=19).pairs[0],
    "align_maps": lambda: hpe.align_maps(model(0), model(1), "token"),
    "find_moved_words": lambda: hpe.find_moved_words(model(0), model(1), count=3),
    "row_changes": lambda: hpe.row_changes(model(0).token, model(1).token),
    "moved_neighbours": lambda: hpe.moved_neighbours(added(), WORDS[0], 5),
    "sweep_amplitude": lambda: hpe.sweep_amplitude(added()),
    "anchor_similarity": lambda: hpe.anchor_similarity(added(), WORDS[0], np.array(WORDS[1:])),
    "variance": lambda: hpe.sum_cloud(added(), BERT, np.array(WORDS), np.arange(4, 12)).variance(),
    "trajectory": lambda: hpe.trajectory(hpe.revisions("sample:gpt2", "step-*")),
    "again": lambda: again(hpe.survey(["random:32x8"], metrics=["mean norm"], draws=0), engine=Engine(workers=1)),
    "rope_report": lambda: rope_report(hpe.extract("rotary:64x16")),
}


@pytest.mark.parametrize("name", MAKERS)
def test_results_are_data_frames_with_documented_columns(name: str) -> None:
    result = MAKERS[name]()
    columns, found = result.columns(), result.to_frame()
    assert list(found.reset_index() if found.index.name else found) == list(columns)
    assert len(found) == len(next(iter(columns.values()))) > 0 or name == "check"
    documented = set(re.findall(r"``([^`]+)``", inspect.getdoc(type(result).columns) or ""))
    by_figure = {"trajectory", "shift_by_distance"} | ({"neighbours", "neighbours of several"} & {name})
    if name not in by_figure:
        assert set(columns) <= documented
    page = result._repr_html_()
    if name != "compare" and not name.startswith("project"):
        assert all(f">{in_html(column)}</th>" in page for column in columns)


def test_every_result_of_a_public_function_is_shown_in_notebooks() -> None:
    shown = set()
    for name in hpe.__all__:
        function = getattr(hpe, name)
        if inspect.isfunction(function):
            words = re.findall(r"\w+", str(inspect.signature(function).return_annotation))
            kinds = [getattr(sys.modules[inspect.unwrap(function).__module__], word, None) for word in words]
            shown |= {kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)}
    assert len(shown) > 25
    assert {kind.__name__ for kind in shown if not hasattr(kind, "_repr_html_")} == set()


def test_values_are_those_of_the_result() -> None:
    found = hpe.neighbours(BERT.token, ["king", "queen"], k=3)
    frame = found.to_frame()
    assert frame["row"].tolist() == [*found["king"].rows, *found["queen"].rows]
    assert frame["cosine"].tolist() == pytest.approx([*found["king"].values, *found["queen"].values])
    pairs = hpe.pair_similarities(BERT.token, ["king", "queen", "prince"])
    assert pairs.to_frame().set_index(["left", "right"])["value"]["queen", "prince"] == pairs.values[1, 2]
    shares = hpe.compare(WAVES, words=[], draws=0)
    row = shares.to_frame().set_index("metric").loc["mean norm"]
    assert row["value"] == shares.sources[0].metrics["mean norm"].value


def test_polars_takes_results() -> None:
    polars = pytest.importorskip("polars")
    found = hpe.neighbours(BERT.token, "king", k=4)
    for frame in (polars.from_pandas(found.to_frame()), polars.DataFrame(found.columns())):
        assert frame.columns == ["query", "rank", "row", "label", "cosine"]
        assert frame["row"].to_list() == found.rows.tolist()
    compared = polars.from_pandas(hpe.compare(WAVES, words=[], draws=0).to_frame())
    assert compared.filter(polars.col("metric") == "mean norm")["value"][0] == pytest.approx(np.sqrt(8))


def test_a_large_projection_is_not_measured_to_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "MEASURED_TO_SHOW", 63)
    found = hpe.project(WAVES.position)
    assert "not measured yet" in found._repr_html_()
    assert "trustworthiness" not in repr(found)
    assert not found.measured
    assert found.quality.trustworthiness > 0.5
    assert "trustworthiness" in found._repr_html_()
    assert "trustworthiness" in repr(found)


def test_a_long_table_is_shown_in_part() -> None:
    page = hpe.similarity_distribution(BERT.token, "king", bins=40)._repr_html_()
    assert page.count("<tr>") == 12
    assert "and 30 more" in page


def test_values_without_a_table_are_shown_by_their_fields() -> None:
    page = hpe.helix(WAVES.position)._repr_html_()
    assert "Helix" in page
    assert ">period<" in page
    assert issubclass(type(hpe.fit_shift(WAVES.position, 1)), Facts)
    assert not issubclass(Facts, Tabular)
