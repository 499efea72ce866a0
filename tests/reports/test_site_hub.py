"""The static page reads the Hub as strictly as Python does: every fault gives the right table or one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from tests.conftest import FULL
from tests.hub import FakeHub
from tests.hub.gpt2 import add_gpt2
from tests.support.site_reader import in_javascript, needs_node

pytestmark = needs_node

ROWS, WIDTH = 300, 256
TABLES = {
    name: np.random.default_rng(5).standard_normal((rows, WIDTH)).astype(np.float32)
    for name, rows in (("wte.weight", 2000), ("wpe.weight", ROWS))
}
NORMS = np.linalg.norm(TABLES["wpe.weight"], axis=1)
MODEL = save(TABLES)
CONFIG = json.dumps({"model_type": "gpt2", "n_positions": ROWS, "vocab_size": 2000})
RIGHT = "right"


@pytest.fixture
def repo(hub: FakeHub) -> str:
    """A model of 2.4 MB, of which 0.3 MB are positions."""
    hub.add("somebody/model", {"config.json": CONFIG, "model.safetensors": MODEL, "vocab.json": "{}"})
    return "somebody/model"


def read(hub: FakeHub, folder: Path, repo: str, revision: str = "main") -> dict[str, Any]:
    place = {"endpoint": hub.endpoint, "hosts": ["127.0.0.1", "localhost"]}
    [answer] = in_javascript("hub", [{"repo": repo, "revision": revision}], folder, **place)
    return answer


def is_right(answer: dict[str, Any]) -> bool:
    return "found" in answer and bool(np.allclose(answer["found"]["norms"], NORMS, rtol=1e-6))


def test_only_the_header_and_the_table_are_read(hub: FakeHub, repo: str, tmp_path: Path) -> None:
    answer = read(hub, tmp_path, repo)
    assert is_right(answer)
    sent = [one for one in hub.requests if one.host == "cdn"]
    length = 8 + int.from_bytes(MODEL[:8], "little")
    start = MODEL.index(TABLES["wpe.weight"].tobytes())
    assert [one.headers["range"] for one in sent] == [
        "bytes=0-99999",
        f"bytes={start}-{start + NORMS.size * WIDTH * 4 - 1}",
    ]
    assert hub.cdn_bytes == 100_000 + NORMS.size * WIDTH * 4
    assert length < 100_000
    assert all("/main/" not in one.path for one in hub.requests if "/resolve/" in one.path)


def test_a_header_beyond_the_first_request_is_read_in_a_second_one(hub: FakeHub, tmp_path: Path) -> None:
    many = {f"h.{number}.attn.{'x' * 150}.weight": np.zeros(1, np.float32) for number in range(700)}
    hub.add("somebody/deep", {"config.json": CONFIG, "model.safetensors": save({**TABLES, **many})})
    assert is_right(read(hub, tmp_path, "somebody/deep"))
    assert len([one for one in hub.requests if one.host == "cdn"]) == 3


def test_shards_are_found_by_their_index(hub: FakeHub, tmp_path: Path) -> None:
    files = {f"model-0000{at}-of-00002.safetensors": {name: rows} for at, (name, rows) in enumerate(TABLES.items(), 1)}
    index = {"weight_map": {name: file for file, one in files.items() for name in one}}
    stored = {file: save(one) for file, one in files.items()}
    hub.add("somebody/shards", {"config.json": CONFIG, "model.safetensors.index.json": json.dumps(index), **stored})
    assert is_right(read(hub, tmp_path, "somebody/shards"))


def test_a_model_of_sentence_transformers_in_a_folder(hub: FakeHub, tmp_path: Path) -> None:
    modules = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    inside = {"0_Transformer/config.json": CONFIG, "0_Transformer/model.safetensors": MODEL}
    hub.add("somebody/sentences", {"modules.json": json.dumps(modules), **inside})
    assert is_right(read(hub, tmp_path, "somebody/sentences"))


def test_a_revision_is_read_at_its_commit(hub: FakeHub, repo: str, tmp_path: Path) -> None:
    commit = hub.add(repo, {"config.json": CONFIG, "model.safetensors": MODEL}, branch="refs/pr/1")
    answer = read(hub, tmp_path, repo, "refs/pr/1")
    assert is_right(answer)
    assert answer["found"]["commit"] == commit


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": "status", "code": 429, "retry_after": 600}, "asks to wait 600 s"),
    ({"name": "truncated", "at": 5000, "host": "cdn"}, RIGHT),
    ({"name": "content_range", "wrong": "start", "times": None}, "the range"),
    ({"name": "content_range", "wrong": "missing", "times": None}, "the range"),
    ({"name": "etag", "host": "cdn", "after": 1, "times": None}, "changed between two reads"),
    ({"name": "redirect_elsewhere", "host": "hub", "path": "resolve.*safetensors", "times": None}, "not one of its"),
    ({"name": "commit", "host": "hub", "path": "resolve-cache", "times": None}, "another commit"),
]
MORE: list[tuple[dict[str, Any], str]] = [
    ({"name": "status", "code": 503}, RIGHT),
    ({"name": "status", "code": 503, "times": None}, "status 503"),
    ({"name": "hangup"}, RIGHT),
    ({"name": "reset", "at": 1000, "host": "cdn"}, RIGHT),
    ({"name": "range_ignored", "host": "cdn", "times": None}, "ignores ranges"),
    ({"name": "content_range", "wrong": "total", "times": None}, "the range"),
    ({"name": "content_range", "wrong": "start"}, RIGHT),
    ({"name": "short_part", "times": None}, "the range|has"),
    ({"name": "long_part", "times": None}, "the range|has|longer"),
    ({"name": "multipart", "times": None}, "the range|multipart"),
    ({"name": "etag", "host": "cdn", "value": 'W/"1"', "times": None}, "weak ETag"),
    ({"name": "etag", "host": "cdn", "value": None, "times": None}, "no ETag"),
    ({"name": "html", "host": "cdn", "times": None}, "ignores ranges|text/html"),
    ({"name": "redirect_loop", "host": "hub", "path": "resolve.*safetensors", "times": None}, "cannot be reached"),
    ({"name": "status", "code": 404, "host": "hub", "path": "resolve.*safetensors"}, "not a public model"),
]
"""Faults of ``make test-full``."""


@pytest.mark.parametrize(
    ("fault", "said"),
    FAULTS + (MORE if FULL else []),
    ids=lambda one: "-".join(map(str, one.values())).replace("/", "") if isinstance(one, dict) else "",
)
def test_every_fault_gives_the_right_table_or_one_line(
    hub: FakeHub, repo: str, tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    with hub.fault(**fault):
        answer = read(hub, tmp_path, repo)
    if said == RIGHT:
        assert is_right(answer), answer
    else:
        line = answer.get("refused", "")
        assert any(part in line for part in said.split("|")), line
        assert len(line) < 300


@pytest.mark.parametrize(
    ("add", "said"),
    [
        ({"private": True}, "not a public model"),
        ({"gated": True}, "is gated"),
        ({"files": {"pytorch_model.bin": b"x"}}, "only"),
        ({"files": {"a.safetensors": MODEL, "b.safetensors": MODEL}}, "several checkpoints"),
        ({"files": {f"model-0000{at}-of-00002.safetensors": MODEL for at in (1, 2)}}, "not their index"),
    ],
)
def test_models_that_cannot_be_read_say_why(hub: FakeHub, tmp_path: Path, add: dict[str, Any], said: str) -> None:
    files = add.pop("files", {"model.safetensors": MODEL})
    hub.add("somebody/other", {"config.json": CONFIG, **files}, **add)
    answer = read(hub, tmp_path, "somebody/other")
    assert said in answer.get("refused", ""), answer


def test_of_gpt2_as_large_as_it_is_three_megabytes_are_read(hub: FakeHub, tmp_path: Path) -> None:
    table = add_gpt2(hub, tmp_path)
    found = read(hub, tmp_path, "openai-community/gpt2")["found"]
    np.testing.assert_allclose(found["norms"], np.linalg.norm(table, axis=1), rtol=1e-6)
    assert hub.cdn_bytes == 100_000 + table.nbytes
    assert found["traffic"]["requests"] == 4
    with hub.fault("range_ignored", host="cdn", times=None):
        answer = read(hub, tmp_path, "openai-community/gpt2")
    assert "ignores ranges" in answer["refused"]
    assert hub.cdn_bytes < 11_000_000  # what sockets hold, of 498 MB


def test_a_name_and_a_revision_that_do_not_exist(hub: FakeHub, repo: str, tmp_path: Path) -> None:
    assert "not a public model" in read(hub, tmp_path, "nobody/nothing")["refused"]
    assert "no revision" in read(hub, tmp_path, repo, "nowhere")["refused"]
