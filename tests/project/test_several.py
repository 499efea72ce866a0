"""One value or several: a string, a path, a table or a source is one, anything else that can be iterated is several."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe

GPT2 = "sample:gpt2"


@cache
def _source() -> hpe.Embeddings:
    return hpe.extract(GPT2)


@cache
def _added() -> Any:
    return hpe.add_positions(_source())


@cache
def _flat() -> hpe.Projection:
    return hpe.project(_source().position, progress=False)


def _listed(query: Any) -> list[Any]:
    found = hpe.neighbours(_source().token, query)
    return [one.labels for one in getattr(found, "each", [found])]


def _survey(sources: Any, metrics: Any) -> Any:
    return hpe.survey(sources, metrics=metrics, draws=0)[["source", "metric"]].to_numpy().tolist()


def _course(sources: Any, metrics: Any) -> list[str]:
    return list(hpe.trajectory(sources, metrics=metrics, draws=0).courses)


CASES: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
    "extract.rows": (["king"], lambda rows: hpe.extract(GPT2, rows=rows).token.vectors),
    "similarity.rows": (["king"], lambda rows: hpe.similarity(_source().token, rows)),
    "project.rows": (["king", "queen", "duke"], lambda rows: hpe.project(_source().token, rows=rows).rows),
    "pair_similarities.rows": (["king"], lambda rows: hpe.pair_similarities(_source().token, rows, sample=9).values),
    "neighbours.query": (["king"], lambda query: _listed(query)),
    "mixture.positions": ([5], lambda places: hpe.mixture(_source(), "king", 3, positions=places).weights_at),
    "anchor_similarity.anchors": ([900], lambda rows: hpe.anchor_similarity(_added(), 901, rows).mean),
    "anchor_similarity.amplitudes": ([1.0], lambda at: hpe.anchor_similarity(_added(), 901, [900], amplitudes=at).mean),
    "sweep_amplitude.amplitudes": ([1.0], lambda at: hpe.sweep_amplitude(_added(), amplitudes=at, queries=20).kept),
    "compare_sum_with_concatenation.amplitudes": (
        [1.0],
        lambda at: hpe.compare_sum_with_concatenation(_added(), amplitudes=at, queries=20).words,
    ),
    "interference.widths": ([64], lambda widths: hpe.interference(_added(), widths=widths, pairs=99).cosines),
    "frequency_buildup.pairs": ([2], lambda pairs: hpe.frequency_buildup(32, 16, pairs=pairs).neighbours),
    "retention_at.rows": ([900], lambda rows: hpe.retention_at(_added(), rows, [3], amplitudes=[1.0])),
    "retention_at.places": ([3], lambda places: hpe.retention_at(_added(), [900], places, amplitudes=[1.0])),
    "retention_at.amplitudes": ([1.0], lambda at: hpe.retention_at(_added(), [900], [3], amplitudes=at)),
    "sum_cloud.rows": ([900, 901], lambda rows: hpe.sum_cloud(_added(), _source(), rows, [3, 4]).rows),
    "sum_cloud.places": ([3, 4], lambda places: hpe.sum_cloud(_added(), _source(), [900, 901], places).places),
    "row_origin.rows": ([5], lambda rows: hpe.row_origin(_source().token, rows).made),
    "shift_by_distance.distances": (
        [2],
        lambda far: hpe.shift_by_distance(_source().position, distances=far).distances,
    ),
    "position_probes.seeds": (
        [0],
        lambda seeds: hpe.position_probes(_source().position, seeds=seeds)["absolute"].errors,
    ),
    "point_trust.rows": (
        [*range(256)],
        lambda rows: hpe.point_trust(_source().position, _flat().coordinates, rows=rows).neighbours_kept,
    ),
    "point_trust.points": (
        [3, 5],
        lambda points: hpe.point_trust(_source().position, _flat().coordinates, points=points).points,
    ),
    "undertrained_tokens.unused": (
        [5],
        lambda rows: str(hpe.undertrained_tokens(_source().token, count=2, unused=rows)),
    ),
    "uncertainty.names": (
        ["token anisotropy"],
        lambda names: hpe.uncertainty(_source(), names=names).columns()["value"],
    ),
    "compare.sources": ([GPT2], lambda one: hpe.compare(one, words=[], draws=0).sources[0].source),
    "compare.words": (["king"], lambda words: str(hpe.compare(GPT2, words=words, draws=0))),
    "compare.part": ([None], lambda part: str(hpe.compare(GPT2, words=[], draws=0, part=part))),
    "show.sources": ([GPT2], lambda one: list(hpe.show(one, progress=False).selection.rows)),
    "show.words": (
        ["king", "queen"],
        lambda words: hpe.show(GPT2, words=words, role="token", progress=False)._options.words,
    ),
    "view.sources": ([hpe.extract(GPT2)], lambda one: len(hpe.view("norms", one).data)),
    "evenly_spaced.sources": ([GPT2], lambda sources: hpe.evenly_spaced(sources, 3)),
    "survey.sources": ([GPT2], lambda sources: _survey(sources, "token anisotropy")),
    "survey.metrics": (["token anisotropy"], lambda metrics: _survey(GPT2, metrics)),
    "trajectory.sources": ([f"{GPT2}@step-0", GPT2], lambda sources: _course(sources, None)),
    "transplant.tokens": (
        ["ghost", "kir"],
        lambda tokens: hpe.transplant(GPT2, "sample:bert", k=4, tokens=tokens).vectors,
    ),
    "trajectory.metrics": (["mean norm"], lambda names: _course([f"{GPT2}@step-0", GPT2], names)),
    "word_plane.words": (
        ["king", "queen", "lord", "duke"],
        lambda words: hpe.word_plane(_source().token, words).labels,
    ),
    "from_arrays.labels": (
        ["king"],
        lambda labels: list(hpe.from_arrays(token=[[1.0, 2.0]], labels=labels).token.labels),
    ),
    "EmbeddingTable.rows.start": (["king"], lambda rows: _source().token.rows(rows)),
    "EmbeddingTable.pick.rows": (["king"], lambda rows: list(_source().token.pick(rows).labels)),
    "EmbeddingTable.take.rows": ([5], lambda rows: _source().token.take(rows)),
    "Embeddings.with_rows.rows": (["king"], lambda rows: _source().with_rows(rows).token.vectors),
    "Projection.take.places": ([5], lambda places: _flat().take(places).rows),
}
"""Every public argument that takes several: values that it takes, and what comes of them."""

NOT_SEVERAL = {
    "Embeddings.looked_up.text_or_ids",  # a text, or its ids
    "similarity_distribution.query",  # one query: a row or a vector
}


def _public_arguments() -> Iterator[str]:
    for name in hpe.__all__:
        value = getattr(hpe, name)
        members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else [("", value)]
        for method, function in members:
            if callable(function) and not method.startswith("_"):
                for each in inspect.signature(function).parameters.values():
                    sort = str(each.annotation)
                    if each.kind is each.VAR_POSITIONAL or re.search(
                        r"Sequence|Collection|Iterable|Rows|Places|integer|int64", sort
                    ):
                        yield ".".join(filter(None, [name, method, each.name]))


def test_every_public_argument_that_takes_several_is_listed() -> None:
    assert set(_public_arguments()) - NOT_SEVERAL == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_one_is_one_and_anything_else_iterable_is_several(name: str) -> None:
    each, call = CASES[name]
    wanted = call(each)
    np.testing.assert_array_equal(call(one for one in each), wanted)
    np.testing.assert_array_equal(call(tuple(each)), wanted)
    if len(each) == 1 and name != "compare.part":
        np.testing.assert_array_equal(call(each[0]), wanted)


def test_one_checkpoint_is_no_run_and_the_error_names_what_lists_them() -> None:
    with pytest.raises(
        hpe.HfposembError, match=r"at least 2 checkpoints; got sample:gpt2; .*hpe.revisions\('sample:gpt2'"
    ):
        hpe.trajectory(GPT2)
