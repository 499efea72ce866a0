"""Reading from the Hub over real HTTP: the right table or one line, and no byte more than is needed."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.checkpoints.hub import http
from hfposemb.checkpoints.limits import Limits
from hfposemb.errors import (
    CancelledError,
    CheckpointError,
    HfposembError,
    HubError,
    InputError,
    OfflineError,
    SourceError,
)
from hfposemb.models.summary import describe
from hfposemb.progress import Progress, watching
from tests.conftest import ABSOLUTE, FULL, Build
from tests.hub import FakeHub
from tests.hub.gpt2 import add_gpt2
from tests.support.checkpoints.repository import CONFIG, FILE, REPO, TABLES, asked

WEIGHTS = "/resolve/.*model\\.safetensors"


@pytest.fixture
def repo(hub: FakeHub) -> str:
    """A repository with one file of 1 MB."""
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": FILE})
    return REPO


def positions(source: str, **options: Any) -> NDArray[Any]:
    return hpe.extract(source, **options).position.table.vectors


# --- the right bytes, and no others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ABSOLUTE)
def test_tables_of_every_family_equal_the_models(hub: FakeHub, build: Build, tmp_path: Path, model_type: str) -> None:
    model = build(model_type)
    model.save_pretrained(tmp_path / "saved")  # type: ignore[operator]
    hub.add("a/model", {path.name: path for path in (tmp_path / "saved").iterdir()})
    here, there = hpe.extract(tmp_path / "saved"), hpe.extract("a/model")
    assert list(there.tables) == list(here.tables)
    for role, table in here.tables.items():
        assert np.array_equal(there.tables[role].vectors, table.vectors)
        assert there.tables[role].provenance.commit
    weight = model.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator]
    assert np.array_equal(there.token.vectors, weight)


def test_shards_are_read_through_their_index(hub: FakeHub, build: Build, tmp_path: Path) -> None:
    model = build("bert", hidden_size=64, intermediate_size=256)
    model.save_pretrained(tmp_path, max_shard_size="100KB")  # type: ignore[operator]
    files = {path.name: path for path in tmp_path.iterdir()}
    assert sum(name.endswith(".safetensors") for name in files) > 2
    hub.add("a/sharded", files)
    found = hpe.extract("a/sharded")
    assert np.array_equal(found.position.table.vectors, hpe.extract(tmp_path).position.table.vectors)
    shards = {one.path.split("/")[-1] for one in hub.requests if "/resolve/" in one.path and "-of-" in one.path}
    assert len(shards) < sum(name.endswith(".safetensors") for name in files), "shards without a table are not opened"


def test_a_head_in_another_shard_costs_nothing_until_it_is_read(hub: FakeHub, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    rows = np.random.default_rng(0).standard_normal((4000, 256)).astype(np.float32)
    shards = {"model-00001-of-00002.safetensors": "wte.weight", "model-00002-of-00002.safetensors": "lm_head.weight"}
    for file, name in shards.items():
        save_file({name: rows + len(name)}, tmp_path / file)
    index = {"metadata": {}, "weight_map": {name: file for file, name in shards.items()}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    hub.add("a/untied", {path.name: path for path in tmp_path.iterdir()})
    found = hpe.extract("a/untied")
    facts = describe(found)["heads"]["head"]
    assert (facts["tied"], facts["tensor"], facts["shape"]) == (False, "lm_head.weight", None)
    assert not [one for one in hub.requests if "00002-of" in one.path]
    assert np.array_equal(found.head[7], rows[7] + len("lm_head.weight"))
    assert sum(asked(hub, "cdn")) < rows.nbytes / 10, "the headers and one row"
    assert found.head.provenance.file == "model-00002-of-00002.safetensors"


def test_only_the_header_and_the_table_are_read(hub: FakeHub, repo: str) -> None:
    found = hpe.extract(repo)
    assert sum(asked(hub, "cdn")) == 100_000
    assert np.array_equal(found.position.table.vectors, TABLES["wpe.weight"])
    assert asked(hub, "cdn") == [100_000, 1024 * 64 * 4]
    weights = [one for one in hub.requests if one.host == "cdn" or "model.safetensors" in one.path]
    assert len(weights) == 3
    assert found.traffic is not None
    assert found.traffic.requests == len(hub.requests)
    commits = {one.path.split("/resolve/")[1].split("/")[0] for one in hub.requests if "/resolve/" in one.path}
    assert commits <= {"main", found.position.table.provenance.commit}


def test_connections_stay_open_for_the_next_request(hub: FakeHub, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirects and ranges are read to their end; a connection that is not would be closed."""
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": FILE}, branch="other")
    connect, opened = socket.create_connection, list[object]()

    def noted(address: tuple[str, int], *rest: Any, **options: Any) -> socket.socket:
        opened.append(address)
        return connect(address, *rest, **options)

    monkeypatch.setattr(socket, "create_connection", noted)
    positions(repo)
    before, opened[:] = len(hub.requests), []
    positions(f"{repo}@other")
    assert len(hub.requests) - before >= 5
    assert len(opened) <= 1, "one more where both files are asked for at the same time for the first time"


def test_a_few_rows_are_read_alone_and_a_table_once(hub: FakeHub, repo: str) -> None:
    table = hpe.extract(repo).token
    assert np.array_equal(table.rows(10, 12), TABLES["wte.weight"][10:12])
    assert asked(hub, "cdn")[-1] == 2 * 64 * 4
    assert np.array_equal(table.vectors, TABLES["wte.weight"])
    before = len(hub.requests)
    assert np.array_equal(table.rows(0, 3000), TABLES["wte.weight"])
    assert table.finite.all()
    assert len(hub.requests) == before


def test_a_second_reading_fetches_nothing(hub: FakeHub, repo: str) -> None:
    first = positions(repo)
    before = len(hub.requests)
    assert np.array_equal(positions(repo), first)
    assert [one.method for one in hub.requests[before:]] == ["HEAD"], "which commit main is now, and nothing else"
    commit = hpe.extract(repo).position.table.provenance.commit
    before = len(hub.requests)
    assert np.array_equal(positions(f"{repo}@{commit}"), first)
    assert len(hub.requests) == before


def test_threads_that_want_the_same_table_fetch_it_once(hub: FakeHub, repo: str) -> None:
    hub.shape(delay=0.02, rate=2_000_000)
    table = hpe.extract(repo).token
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: table.rows(0, 3000), range(8)))
    assert all(np.array_equal(one, TABLES["wte.weight"]) for one in found)
    assert asked(hub, "cdn") == [100_000, 3000 * 64 * 4]


def test_a_branch_that_moves_is_seen(hub: FakeHub, repo: str) -> None:
    old = positions(repo)
    commit = hpe.extract(repo).position.table.provenance.commit
    hub.add(repo, {"model.safetensors": save({**TABLES, "wpe.weight": -TABLES["wpe.weight"]})})
    assert np.array_equal(positions(repo), -old)
    assert np.array_equal(positions(f"{repo}@{commit}"), old)
    assert np.array_equal(positions(repo, revision=commit), old)


def test_a_branch_that_moves_between_two_reads_gives_one_commit(hub: FakeHub, repo: str) -> None:
    first = hub.add(repo, {})
    second = hub.add(repo, {"model.safetensors": save({**TABLES, "wpe.weight": -TABLES["wpe.weight"]})})
    hub.move(repo, "main", first)
    hub.fault("moves", after=1, path="/resolve/", repo=repo, to=second)
    found = hpe.extract(repo)
    sign = 1 if found.position.table.provenance.commit == first else -1
    assert np.array_equal(found.position.table.vectors, sign * TABLES["wpe.weight"])


def test_moved_and_bare_names(hub: FakeHub, repo: str) -> None:
    hub.rename("gpt", repo)
    assert np.array_equal(positions("gpt"), TABLES["wpe.weight"])


def test_a_header_longer_than_the_first_part(hub: FakeHub) -> None:
    many = {f"h.{layer}.a_rather_long_name_of_a_tensor": np.zeros(2, np.float32) for layer in range(2000)}
    hub.add("a/long", {"config.json": CONFIG, "model.safetensors": save({**TABLES, **many})})
    assert np.array_equal(positions("a/long"), TABLES["wpe.weight"])


@pytest.mark.parametrize("name", ["weights.safetensors", "0_Transformer/model.safetensors", "enc/model.safetensors"])
def test_other_places_of_the_file(hub: FakeHub, name: str) -> None:
    folder = name.rpartition("/")[0]
    files: dict[str, Any] = {name: FILE, f"{folder}/config.json" if folder else "config.json": CONFIG}
    if folder == "enc":
        files["modules.json"] = json.dumps([{"path": "enc", "type": "x"}]).encode()
    hub.add("a/other", files)
    found = hpe.extract("a/other")
    assert np.array_equal(found.position.table.vectors, TABLES["wpe.weight"])
    assert found.config["model_type"] == "gpt2"


@pytest.mark.parametrize("inner", ["", "0_Transformer", "encoder"])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_a_real_sentence_transformers_model(
    hub: FakeHub, minilm_folder: Path, tmp_path: Path, where: str, inner: str
) -> None:
    files = {name: minilm_folder / name for name in ("config.json", "model.safetensors", "tokenizer.json")}
    modules = [
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": inner, "type": "sentence_transformers.models.Transformer"},
    ]
    if where == "hub":
        placed = {f"{inner}/{name}".strip("/"): path for name, path in files.items()}
        hub.add("a/sentences", {**placed, "modules.json": json.dumps(modules).encode()})
        found = hpe.extract("a/sentences")
    else:
        (tmp_path / "kept" / inner).mkdir(parents=True)
        for name, path in files.items():
            (tmp_path / "kept" / inner / name).symlink_to(path)
        (tmp_path / "kept" / "modules.json").write_text(json.dumps(modules))
        found = hpe.extract(tmp_path / "kept")
    text = "The king saw the queen."
    expected = hpe.extract(minilm_folder)
    assert found.config == expected.config
    assert np.array_equal(found.position.table.vectors, expected.position.table.vectors)
    fed, known = found.inputs(text), expected.inputs(text)
    assert fed.pieces == known.pieces
    assert np.array_equal(fed.normed, known.normed)


@pytest.mark.parametrize("path", ["..", ".", "../b", "/etc", "enc/inner", "enc\\inner", "a\nb", 3, None, "x" * 5000])
def test_modules_that_name_no_folder_of_the_repository(hub: FakeHub, path: object) -> None:
    modules = json.dumps([{"path": path, "type": "sentence_transformers.models.Transformer"}]).encode()
    hub.add("a/hostile", {"enc/inner/model.safetensors": FILE, "modules.json": modules, "README.md": b"x"})
    with pytest.raises(SourceError) as caught:
        hpe.extract("a/hostile")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert "modules.json must" in str(caught.value).replace(":", "") or path == "x" * 5000


def test_hugging_faces_own_cache_is_used(hub: FakeHub) -> None:
    hub.add("a/cached", {"config.json": CONFIG, "model.safetensors": FILE})
    path = Path(huggingface_hub.snapshot_download("a/cached"))
    before = len(hub.requests)
    assert np.array_equal(positions("a/cached"), TABLES["wpe.weight"])
    assert [one.method for one in hub.requests[before:]] == ["HEAD"]
    # A download that broke off is no file: the Hub's is read.
    blob = (path / "model.safetensors").resolve()
    blob.write_bytes(FILE[: len(FILE) // 2])
    assert np.array_equal(positions("a/cached"), TABLES["wpe.weight"])
    assert sum(asked(hub, "cdn")) > len(FILE)


# --- a file of GPT-2's size -------------------------------------------------------------------------------------------


PEAK = """
import resource, sys, hfposemb as hpe
import hfposemb.checkpoints.hub.repository, huggingface_hub, httpx2
huggingface_hub.get_session()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = hpe.extract("openai-community/gpt2").tables[sys.argv[1]]
assert table.vectors.shape == table.shape
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, table.provenance.nbytes)
"""


@pytest.mark.parametrize("role", ["position", "token"])
def test_memory_stays_near_the_tables_size(hub: FakeHub, tmp_path: Path, role: str) -> None:
    add_gpt2(hub, tmp_path)
    done = subprocess.run([sys.executable, "-c", PEAK, role], capture_output=True, text=True, check=True)
    peak, table = map(int, done.stdout.split())
    assert peak <= table + 50_000_000


def test_ignored_range_is_noticed_before_its_body(hub: FakeHub, tmp_path: Path) -> None:
    add_gpt2(hub, tmp_path)
    size = (tmp_path / "model.safetensors").stat().st_size
    hub.fault("range_ignored", times=None, host="cdn")
    with pytest.raises(HubError, match=rf"range requests: 100,000 bytes are needed, but the whole file has {size:,}"):
        hpe.extract("openai-community/gpt2")
    assert sum(asked(hub, "cdn")) < 1_000_000


def test_whole_file_is_read_where_the_user_agrees_and_it_is_within_the_limit(hub: FakeHub, repo: str) -> None:
    hub.fault("range_ignored", times=None, host="cdn")
    assert np.array_equal(positions(repo, allow_full_download=True), TABLES["wpe.weight"])
    hub.add("a/other", {"config.json": CONFIG, "model.safetensors": FILE})
    with pytest.raises(HubError, match="the limit is 500,000"):
        positions("a/other", allow_full_download=True, limits=Limits(table_bytes=500_000))


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """One fault, where it strikes, and whether a reader must get over it."""

    name: str
    recovers: bool
    at: str = "header"
    times: int | None = 1
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = "-".join(str(value)[:24] for value in self.parameters.values())
        often = "always" if self.times is None else f"{self.times}x"
        return f"{self.name}-{values}-{self.at}-{often}".replace("/", "_")


PLACES: dict[str, dict[str, Any]] = {
    "resolve": {"host": "hub", "path": WEIGHTS},
    "header": {"host": "cdn"},
    "tensor": {"host": "cdn", "after": 1},
    "hub": {"host": "hub"},
    "config": {"host": "hub", "path": "config\\.json"},
    "config body": {"host": "hub", "path": "resolve-cache.*config\\.json"},
}


def scenarios() -> Iterator[Scenario]:
    passing: list[tuple[str, dict[str, Any]]] = [
        *(("status", {"code": code}) for code in (500, 502, 503, 504, 408)),
        ("status", {"code": 429, "retry_after": 1}),
        ("reset", {}),
        ("hangup", {}),
        ("garbage", {}),
        ("no_content", {}),
        ("oversized_header", {}),
        ("redirect_without_location", {}),
    ]
    for place in ("resolve", "tensor"):
        yield from (Scenario(name, True, place, 1, values) for name, values in passing)
    yield from (Scenario("status", True, place, 2, {"code": 503}) for place in PLACES)
    # The configuration's answer names the commit; the weights are then asked for at it.
    yield Scenario("commit", True, "resolve", None, {"value": None})
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("truncated", {"at": 1000}),
        ("short_length", {"at": 1000}),
        ("empty", {}),
        ("short_part", {}),
        ("long_part", {}),
        ("long_part", {"honest": False}),
        ("multipart", {}),
        *(("content_range", {"wrong": wrong}) for wrong in ("start", "total", "missing", "unparsable", "unit")),
        ("content_range", {"value": "bytes 0-99999999999999999999/3"}),
        ("content_length", {"value": "-1"}),
        ("html", {}),
        ("html", {"code": 206}),
        ("gzip", {}),
        ("gzip_bomb", {}),
        ("etag", {}),
        ("reset", {"at": 5000}),
        ("no_content_length", {}),
        ("no_content_length", {"chunked": True}),
        ("endless", {}),
    ]
    for place in ("header", "tensor"):
        for name, values in bodies:
            # A header that says another size contradicts its file, which is an error of the file.
            yield Scenario(name, (place, values) != ("header", {"wrong": "total"}), place, 1, values)
    for name, values in bodies:
        # What is truncated goes on where it stopped, and a body without a length is whole all the same.
        heals = name in {"truncated", "short_length", "reset", "no_content_length", "endless", "etag"}
        if not heals:
            yield Scenario(name, False, "tensor", None, values)
    refused: list[tuple[str, dict[str, Any], str]] = [
        *(("status", {"code": code}, "resolve") for code in (401, 403, 404, 418, 503, 429)),
        ("status", {"code": 429, "retry_after": 600}, "resolve"),
        ("status", {"code": 429, "retry_after": 600}, "tensor"),
        ("status", {"code": 429, "retry_after": 600, "as_date": True}, "config"),
        ("status", {"code": 416}, "tensor"),
        ("status", {"code": 503}, "config"),
        ("delay", {"seconds": 60}, "resolve"),
        ("stall", {"seconds": 60, "at": 10}, "tensor"),
        ("drip", {"rate": 200}, "tensor"),
        ("drip", {"rate": 1}, "config body"),
        ("reset", {}, "resolve"),
        ("range_ignored", {}, "tensor"),
        ("commit", {"value": None}, "hub"),
        ("commit", {"value": "../../x"}, "resolve"),
        *(("redirect_elsewhere", {"to": to}, "resolve") for to in ("elsewhere", "file", "ftp", "metadata")),
        ("redirect_elsewhere", {}, "config"),
        ("redirect_loop", {}, "resolve"),
        ("wrong_bytes", {"data": b"<!DOCTYPE html>"}, "header"),
        ("wrong_bytes", {"data": b"version https://git-lfs.github.com/spec/v1"}, "header"),
        ("wrong_bytes", {"data": (2**62).to_bytes(8, "little")}, "header"),
        ("endless", {}, "config body"),
        ("gzip_bomb", {}, "config body"),
        ("html", {}, "config body"),
        ("wrong_bytes", {"data": b"[" * 79}, "config body"),
    ]
    yield from (Scenario(name, False, place, None, values) for name, values, place in refused)


SCENARIOS = list(scenarios())


@pytest.mark.parametrize("run", range(3 if FULL else 1))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_fault_gives_the_right_table_or_one_line(
    hub: FakeHub, repo: str, scenario: Scenario, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not FULL:  # a twentieth of the pauses between attempts
        hasty = {"sleep": lambda pause: time.sleep(pause / 20)}
        monkeypatch.setattr(http, "time", SimpleNamespace(**vars(time) | hasty))
    hub.fault(scenario.name, times=scenario.times, **PLACES[scenario.at], **scenario.parameters)
    found, said = None, ""
    enough = 10.0 if scenario.recovers else 1.0  # a busy machine takes its part
    try:
        found = positions(repo, limits=Limits(seconds=30.0 if FULL else enough))
    except SourceError as error:
        said = str(error)
    if found is not None:
        assert np.array_equal(found, TABLES["wpe.weight"])
        assert scenario.recovers or scenario.times is not None, "this fault should have been seen"
    else:
        assert not scenario.recovers, said
        assert "\n" not in said
        assert 20 < len(said) <= 320
        assert repo in said or "model.safetensors" in said or "config.json" in said
    assert not [one for one in hub.requests if one.host == "elsewhere"]
    if scenario.recovers:
        return
    # Nothing wrong was kept: once the fault is over, the table is right.
    hub.reset()
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": FILE})
    assert np.array_equal(positions(repo), TABLES["wpe.weight"])


# --- what the Hub says ------------------------------------------------------------------------------------------------


def test_every_refusal_has_its_own_line(hub: FakeHub, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("a/private", {"config.json": CONFIG, "model.safetensors": FILE}, private=True)
    hub.add("a/gated", {"config.json": CONFIG, "model.safetensors": FILE}, gated=True)
    hub.add("a/pickle", {"config.json": CONFIG, "pytorch_model.bin": b"\x80"})
    hub.grant("hf_mine", {"a/private", "a/gated"})
    hub.grant("hf_other")
    cases: list[tuple[str, str | bool | None, str]] = [
        ("a/missing", None, "not a public model on the Hub; check its name; for a private model log in"),
        ("a/private", False, "not a public model on the Hub; check its name$"),
        ("a/private", "hf_other", "whether your token can read it"),
        ("a/private", "hf_wrong", "rejected the token"),
        ("a/gated", None, "is gated; accept its conditions on its page and log in"),
        ("a/gated", "hf_other", "is gated; accept its conditions on its page$"),
        ("a/gated", False, "to read gated models, run the app on your own machine"),
        (f"{repo}@nothing", None, "has no revision 'nothing'"),
        ("a/pickle", False, "has no .safetensors file, only the pickle 'pytorch_model.bin'"),
        (repo, "hf bad\ntoken", "is not a valid Hugging Face token"),
    ]
    for source, token, expected in cases:
        with pytest.raises(HfposembError, match=expected):
            hpe.extract(source, token=token)
    for source in ("a/private", "a/gated"):
        assert np.array_equal(positions(source, token="hf_mine"), TABLES["wpe.weight"])
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        assert np.array_equal(positions(source), TABLES["wpe.weight"])
        with pytest.raises(HubError):
            hpe.extract(source, token=False)
        monkeypatch.delenv("HF_TOKEN")


def test_token_goes_to_the_hub_alone_and_nowhere_without_leave(
    hub: FakeHub, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.grant("hf_secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hpe.extract(repo, token=False).token.vectors.sum()
    assert hub.requests
    assert not [one for one in hub.requests if "authorization" in one.headers]
    found = hpe.extract(f"{repo}@main")
    assert np.array_equal(found.position.table.vectors, TABLES["wpe.weight"])
    carried = {one.host for one in hub.requests if "hf_secret" in str(one.headers)}
    assert carried == {"hub"}
    assert not [one for one in hub.requests if "hf_secret" in one.path]
    assert "hf_secret" not in repr(found) + str(found.position.table.provenance)


# --- offline ----------------------------------------------------------------------------------------------------------


def test_what_was_read_can_be_read_offline(hub: FakeHub, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = positions(repo)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = hpe.extract(repo)
    assert np.array_equal(found.position.table.vectors, first)
    assert re.search(r"cannot be reached; using the cached commit [0-9a-f]{8} of main", found.notes[0])
    assert found.traffic is not None
    assert found.traffic.requests == 0, "none was sent"
    with pytest.raises(OfflineError, match="offline mode is on"):
        found.token.vectors.sum()
    with pytest.raises(OfflineError, match="offline mode is on"):
        hpe.extract("a/never-seen")


def test_what_a_token_read_is_not_shown_to_strangers_offline(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("a/private", {"config.json": CONFIG, "model.safetensors": FILE}, private=True)
    hub.grant("hf_mine", {"a/private"})
    commit = hpe.extract("a/private", token="hf_mine").position.table.provenance.commit
    positions("a/private", token="hf_mine")
    for source in ("a/private", f"a/private@{commit}"):
        with pytest.raises(HubError):
            positions(source, token=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for source in ("a/private", f"a/private@{commit}"):
        with pytest.raises(OfflineError):
            positions(source, token=False)


# --- limits, progress, cancelling -------------------------------------------------------------------------------------


def test_limits_are_decided_from_the_header(hub: FakeHub, repo: str) -> None:
    found = hpe.extract(repo, limits=Limits(table_bytes=300_000))
    assert np.array_equal(found.position.table.vectors, TABLES["wpe.weight"])
    before = len(hub.requests)
    with pytest.raises(CheckpointError, match="768000 bytes; the limit is 300000"):
        found.token.vectors.sum()
    assert len(hub.requests) == before


def test_progress_is_told_and_a_read_can_be_stopped(hub: FakeHub, repo: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    with watching(seen.append):
        positions(repo)
    last = seen[-1]
    assert (last.done, last.total) == (1024 * 64 * 4, 1024 * 64 * 4)
    assert [one.done for one in seen if one.total == last.total] == sorted(
        one.done for one in seen if one.total == last.total
    )

    def stop(progress: Progress) -> None:
        if progress.done > 100_000:
            raise CancelledError("stopped")

    found = hpe.extract(repo)
    with watching(stop), pytest.raises(CancelledError):
        found.token.vectors.sum()
    assert np.array_equal(found.token.vectors, TABLES["wte.weight"]), "and read again later"


def test_revision_given_twice(hub: FakeHub, repo: str) -> None:
    with pytest.raises(SourceError, match="given twice"):
        hpe.extract(f"{repo}@main", revision="other")
    with pytest.raises(SourceError, match="not a source"):
        hpe.extract(repo, revision="../../etc")
    with pytest.raises(InputError, match="token"):
        hpe.extract(repo, token="")
