"""The endpoints for programs, called by a real client, return the library's numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any
from unittest.mock import Mock

import httpx
import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from hfposemb.app.server.api import Endpoints
from hfposemb.app.server.mcp_server import tools

import hfposemb as hpe
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import retention_in_place
from hfposemb.models.summary import describe
from tests.support.app.serving import ENDPOINTS, REFUSAL, called


@pytest.fixture(scope="module")
def client(blocks: Any) -> Client:
    return Client(blocks.local_url, verbose=False)


@pytest.fixture(scope="module")
def web(blocks: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=blocks.local_url, timeout=120) as web:
        yield web


def ask(client: Client, endpoint: str, **given: Any) -> Any:
    return client.predict(**given, api_name=f"/{endpoint}")


def test_these_endpoints_and_no_others_are_public(client: Client) -> None:
    told = client.view_api(return_format="dict", print_info=False)
    assert set(told["named_endpoints"]) == {f"/{name}" for name in ENDPOINTS}


def test_info(client: Client) -> None:
    expected = json.loads(json.dumps(describe(hpe.extract("sample:bert"))))
    assert ask(client, "info", source="sample:bert") == expected


def test_neighbours(client: Client) -> None:
    found = ask(client, "neighbours", source="sample:bert", query="king", limit=4)
    expected = hpe.neighbours(hpe.extract("sample:bert").token, "king", k=4)
    assert [one["row"] for one in found["neighbours"]] == expected.rows.tolist()
    assert [one["label"] for one in found["neighbours"]] == list(expected.labels)
    np.testing.assert_allclose([one["value"] for one in found["neighbours"]], expected.values)
    by_row = ask(client, "neighbours", source="sample:bert", query="7", limit=1, table="position", metric="euclidean")
    nearest = hpe.neighbours(hpe.extract("sample:bert").position, 7, k=1, metric="euclidean")
    assert by_row["neighbours"][0]["row"] == nearest.rows[0]
    moved = ask(client, "neighbours", source="sample:bert", query="king", limit=4, centred=True)
    centred = hpe.neighbours(hpe.extract("sample:bert").token, "king", k=4, centred=True)
    assert (found["centred"], moved["centred"]) == (False, True)
    assert [one["row"] for one in moved["neighbours"]] == centred.rows.tolist()
    assert moved["anisotropy"] == pytest.approx(centred.anisotropy)


def test_search(client: Client) -> None:
    token = hpe.extract("sample:bert").token
    found = ask(client, "search", source="sample:bert", query="KING", limit=3)
    containing = sorted(
        (row for row, label in enumerate(token.labels) if "king" in label), key=lambda row: len(token.labels[row])
    )
    assert found["found"] == len(containing)
    assert found["of"] == 4000
    assert found["matches"] == [{"row": row, "label": token.labels[row]} for row in containing[:3]]
    rest = ask(client, "search", source="sample:bert", query="KING", limit=1000, offset=3)
    assert [one["row"] for one in rest["matches"]] == containing[3:]
    pattern = ask(client, "search", source="sample:bert", query="^k..g$", regex=True)
    assert {one["label"] for one in pattern["matches"]} == {x for x in token.labels if re.fullmatch("k..g", x, re.I)}


def test_tokenise(client: Client) -> None:
    found = ask(client, "tokenise", source="sample:bert", text="the king saw the queen", neighbours=True)
    inputs = hpe.extract("sample:bert").inputs("the king saw the queen")
    assert [one["id"] for one in found["pieces"]] == inputs.ids.tolist()
    assert [one["piece"] for one in found["pieces"]] == list(inputs.pieces)
    np.testing.assert_allclose(
        [one["sum_norm"] for one in found["pieces"]], np.linalg.norm(inputs.sum, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        [one["entering_norm"] for one in found["pieces"]], np.linalg.norm(inputs.normed, axis=1), rtol=1e-5
    )
    assert found["added"] == [
        name
        for name, part in (("token", inputs.token), ("token_type", inputs.type), ("position", inputs.position))
        if part.any()
    ]
    assert found["normalised"] is bool((inputs.normed != inputs.sum).any())
    words = add_positions(hpe.extract("sample:bert"), PositionAddition("own"))
    rows, places = inputs.ids[1:6], inputs.positions[1:6]
    (kept,) = retention_in_place(words, rows, places, amplitudes=[1.0])
    assert [one["neighbours_kept"] for one in found["pieces"][1:6]] == pytest.approx(kept.tolist())


def test_similarity(client: Client) -> None:
    found = ask(client, "similarity", source="sample:bert", rows=["king", "queen", "5"])
    expected = pair_similarities(hpe.extract("sample:bert").token, ["king", "queen", 5])
    np.testing.assert_allclose(found["values"], expected.values)
    assert found["percentiles"][0][1] == pytest.approx(expected.percentiles[0, 1])
    assert found["ranks"][0][1] == expected.ranks[0, 1] == 6
    assert found["row_percentiles"][0][1] == pytest.approx(expected.row_percentiles[0, 1])
    moved = ask(client, "similarity", source="sample:bert", rows=["king", "queen"], centred=True)
    centred = pair_similarities(hpe.extract("sample:bert").token, ["king", "queen"], centred=True)
    np.testing.assert_allclose(moved["values"], centred.values)


def test_project(client: Client) -> None:
    found = ask(client, "project", source="sinusoidal:64x16", dims=3, limit=5)
    expected = hpe.project(hpe.sinusoidal(64, 16).position, dims=3)
    np.testing.assert_allclose(found["coordinates"], expected.coordinates[:5], atol=1e-6)
    assert found["of"] == 64
    assert found["neighbours_kept"] == pytest.approx(expected.quality.neighbours_kept)


def test_compare(client: Client) -> None:
    sources = ["random:48x8", "random:48x8?seed=1"]
    found = ask(client, "compare", sources=sources)
    expected = hpe.compare(*(hpe.extract(source) for source in sources), draws=0)
    metrics = found["sources"][0]["metrics"]["mean norm"]
    assert metrics["value"] == pytest.approx(expected.sources[0].metrics["mean norm"].value)
    assert set(metrics["references"]) == {"untrained", "sinusoid"}
    assert found["pairs"][1]["measures"]["CKA"]["draws"] > 0
    assert found["pairs"][0]["observed"]["CKA"] == pytest.approx(expected.pairs[0].observed["CKA"])


def test_check(client: Client) -> None:
    found = ask(client, "check", source="sample:minilm")
    expected = hpe.check("sample:minilm").to_dict()
    assert found == json.loads(json.dumps(expected))
    assert found["checked"]


@pytest.mark.parametrize(
    ("endpoint", "given", "said"),
    [
        ("info", {"source": "/etc/passwd"}, REFUSAL),
        ("info", {"source": 5}, "source must be a string of at most 1,024 characters; got 5"),
        ("info", {"source": "x" * 5_000}, "source must be a string of at most 1,024 characters"),
        ("info", {"source": "sinusoidal:9999999x9999"}, "a built-in can have at most"),
        ("neighbours", {"query": "kinq"}, "has no row named 'kinq'"),
        ("neighbours", {"limit": 10**9}, "limit must be a whole number from 1 to 1,000"),
        ("neighbours", {"table": "no"}, "has no no table"),
        ("neighbours", {"centred": "x"}, "centred must be true or false; got 'x'"),
        ("neighbours", {"query": "x" * 1025}, "query must be a string of at most 1,024 characters or a whole number"),
        ("search", {"query": " "}, "query must have 1 to 200 characters; got 0"),
        ("search", {"query": "(", "regex": True}, "not a valid regular expression"),
        ("search", {"offset": -1}, "offset must be a whole number from 0 on"),
        ("tokenise", {"source": "sinusoidal:16x8"}, "has no computable first-layer input"),
        ("tokenise", {"source": "sample:gpt2", "text": ""}, "the text is empty"),
        ("similarity", {"rows": ["a"] * 13}, "rows must be a list of 1 to 12 entries"),
        ("similarity", {"rows": [{}]}, "rows must be a list of 1 to 12 entries, each a string"),
        ("similarity", {"rows": ["king", True]}, "rows must be a list of 1 to 12 entries, each a string"),
        ("similarity", {"rows": ["x" * 1025]}, "12 entries, each a string of at most 1,024 characters"),
        ("project", {"dims": 4}, "dims must be a whole number from 2 to 3; got 4"),
        ("project", {"limit": 10**6}, "limit must be a whole number from 1 to 20,000"),
        ("check", {"source": "/etc/passwd"}, REFUSAL),
        ("check", {"source": "sinusoidal:16x8"}, "'sinusoidal:16x8' has no files to check"),
        ("check", {"source": ["sample:bert"]}, "source must be a string of at most 1,024 characters"),
        ("vocabulary", {"other": "/etc"}, REFUSAL),
        ("vocabulary", {"other": "sinusoidal:16x8"}, "is a formula without a vocabulary"),
        ("kinship", {"other": "/etc"}, REFUSAL),
        ("kinship", {"other": "sinusoidal:16x8"}, "has no token table"),
        ("merge_preview", {"other": "sinusoidal:16x8"}, "has no token table"),
        ("compare", {"sources": []}, "sources must be a list of 1 to 8 entries"),
        ("compare", {"sources": ["random:8x4"] * 9}, "sources must be a list of 1 to 8 entries"),
        ("compare", {"sources": ["x" * 1025]}, "8 entries, each a string of at most 1,024 characters"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(
    client: Client, endpoint: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(AppError) as failed:
        ask(client, endpoint, **{**ENDPOINTS[endpoint], **given})
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)


def call(web: httpx.Client, endpoint: str, data: Sequence[Any]) -> tuple[str, Any]:
    """Call an endpoint without a client; return the event and its data."""
    event, told = re.findall(r"event: (complete|error)\ndata: (.*)", called(web, endpoint, *data))[-1]
    return event, json.loads(told)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_client_is_told_what_parameters_and_results_are(client: Client, web: httpx.Client, endpoint: str) -> None:
    """Names and descriptions of parameters are those of the tools for agents."""
    told = client.view_api(return_format="dict", print_info=False)["named_endpoints"][f"/{endpoint}"]
    tool = tools(Mock())[f"hfposemb_{endpoint}"].described.schema["properties"]
    for one in told["parameters"]:
        assert one["parameter_name"] == one["label"]
        assert one["python_type"]["description"] == tool[one["label"]]["description"]
    (result,) = told["returns"]
    assert result["python_type"]["type"].startswith("dict(")
    _, found = call(web, endpoint, list(ENDPOINTS[endpoint].values()))
    assert set(result["type"]["required"]) <= set(found[0])
    assert set(result["type"]["required"]) | set(found[0]) >= set(result["type"]["properties"])


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_arguments_that_are_left_out_have_their_defaults(web: httpx.Client, endpoint: str) -> None:
    known = list(signature(getattr(Endpoints, endpoint)).parameters.values())[1:]
    known, required = [one for one in known if one.name != "request"], list(ENDPOINTS[endpoint].values())
    whole = [*required, *(one.default for one in known[len(required) :])]
    expected = call(web, endpoint, whole)
    assert expected[0] == "complete"
    for count in range(len(required), len(whole)):
        assert call(web, endpoint, whole[:count]) == expected
    sent = web.post(f"gradio_api/call/v2/{endpoint}", json=ENDPOINTS[endpoint]).raise_for_status().json()
    assert "event: complete" in web.get(f"gradio_api/call/{endpoint}/{sent['event_id']}").text

    wrong = [(whole[:count], f"{endpoint} needs ") for count in range(len(required))]
    wrong += [([*whole, 1], f"{endpoint} takes at most {len(whole)} values (source")]
    for place in range(len(whole)):
        wrong += [([*whole[:place], value, *whole[place + 1 :]], "; got ") for value in (None, {"a": [[1]]})]
    for data, said in wrong:
        event, told = call(web, endpoint, data)
        assert event == "error", (data, told)
        assert said in told["error"], (data, told)
        assert "\n" not in told["error"]
        assert "Something went wrong" not in told["error"]


def test_a_call_leaves_no_session(web: httpx.Client, blocks: Any) -> None:
    """Gradio keeps half a megabyte for each."""
    before = set(blocks.state_holder.session_data)
    for _ in range(3):
        assert "complete" in called(web, "info", "sinusoidal:16x8")
    assert set(blocks.state_holder.session_data) == before
