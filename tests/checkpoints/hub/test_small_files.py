"""Small files of a repository: where the Hub keeps them, and chat templates in files of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.checkpoints.access import Access
from hfposemb.checkpoints.hub.repository import open_hub
from hfposemb.checkpoints.tokenizers.small_files import chat_template, local_text
from hfposemb.errors import HubError, SourceError
from hfposemb.tables.sources import HubSource
from tests.hub import FakeHub

REPO = "a/chat"
TOKENS = {"<s>": 0, "</s>": 1, "<|user|>": 2, "<|spare|>": 3, "word": 4}
KEPT = "/api/resolve-cache/"


def files(**more: str) -> dict[str, bytes]:
    """Return the files of a small model whose chat template is not in the tokenizer's settings."""
    special = [{"id": row, "content": text, "special": True} for text, row in TOKENS.items() if text != "word"]
    found: dict[str, Any] = {
        "config.json": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 5},
        "tokenizer.json": {
            "model": {"type": "WordLevel", "vocab": TOKENS, "unk_token": "<s>"},
            "added_tokens": special,
        },
        "tokenizer_config.json": {
            "bos_token": "<s>",
            "added_tokens_decoder": {str(one["id"]): {"content": one["content"]} for one in special},
        },
    }
    written = {name: json.dumps(value).encode() for name, value in found.items()}
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    weights = save({"model.embed_tokens.weight": rows, "lm_head.weight": rows[::-1].copy()})
    return {**written, "model.safetensors": weights, **{name: text.encode() for name, text in more.items()}}


def paths(hub: FakeHub, ending: str) -> list[tuple[str, int | None]]:
    """Return the requests for a file: ordinary or kept, with the status."""
    return [(KEPT if KEPT in one.path else "", one.status) for one in hub.requests if one.path.endswith(ending)]


def test_the_place_of_small_files_is_learned_from_one_redirect(hub: FakeHub) -> None:
    hub.add(REPO, files())
    opened = open_hub(HubSource(REPO), Access(), index_first=True)
    assert paths(hub, "config.json")[:2] == [("", 307), (KEPT, 200)]
    before = len(hub.requests)
    assert opened.json("tokenizer_config.json") is not None
    assert [one.status for one in hub.requests[before:]] == [200]
    assert opened.json("generation_config.json") is None
    assert [one.status for one in hub.requests[before + 1 :]] == [404], "what the Hub says is missing is missing"


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [
        ("status", {"code": 404}),
        ("status", {"code": 403}),
        ("status", {"code": 404, "error_code": "RepoNotFound"}),
        ("html", {}),
    ],
)
def test_a_hub_that_keeps_them_elsewhere_is_asked_as_usual(hub: FakeHub, fault: str, parameters: Any) -> None:
    hub.add(REPO, files())
    opened = open_hub(HubSource(REPO), Access())
    before = len(hub.requests)
    hub.fault(fault, path=f"{KEPT}.*tokenizer_config", **parameters)
    found = opened.json("tokenizer_config.json")
    assert found is not None
    assert found["bos_token"] == "<s>"
    after = hub.requests[before:]
    assert KEPT in after[0].path
    assert KEPT not in after[1].path
    assert len(after) == 3


def test_a_refusal_of_the_hub_itself_is_reported(hub: FakeHub) -> None:
    hub.add(REPO, files())
    opened = open_hub(HubSource(REPO), Access())
    hub.fault("status", path="tokenizer_config", times=None, code=403, error_code="GatedRepo")
    with pytest.raises(HubError, match="is gated"):
        opened.json("tokenizer_config.json")


@pytest.mark.parametrize(
    "more",
    [
        {"chat_template.jinja": "<|user|>{{ message }}"},
        {"chat_template.json": json.dumps({"chat_template": "<|user|>{{ message }}"})},
        {"chat_template.json": json.dumps({"chat_template": [{"name": "default", "template": "\u003c|user|>"}]})},
        {},
    ],
    ids=["jinja", "json", "several", "none"],
)
def test_token_marks_read_a_template_of_its_own(hub: FakeHub, tmp_path: Path, more: Mapping[str, str]) -> None:
    for name, content in files(**more).items():
        (tmp_path / name).write_bytes(content)
    hub.add(REPO, {path.name: path for path in tmp_path.iterdir()})
    here, there = hpe.extract(tmp_path).token_marks, hpe.extract(REPO).token_marks
    assert there == here
    assert here.template is bool(more)
    assert here.chat == (frozenset((2,)) if more else frozenset())
    assert [one.path for one in hub.requests if one.status == 404] == []
    assert sum("chat_template" in one.path and one.status == 200 for one in hub.requests) == len(more)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_checks_read_a_template_of_its_own(hub: FakeHub, *, full: bool, there: bool) -> None:
    template = {"chat_template.jinja": "<|user|>{{ message }}"} if there else {}
    made = files(**template)
    rows = np.ones((5, 4), np.float32) * np.arange(1, 6, dtype=np.float32)[:, None]
    rows[2] = 0
    made["model.safetensors"] = save({"model.embed_tokens.weight": rows, "lm_head.weight": rows[::-1].copy()})
    hub.add(REPO, made)
    found = hpe.check(REPO, full=full)
    assert ("reserved-row-in-use" in found) is there
    asked = [one for one in hub.requests if "chat_template" in one.path]
    # With the listing a file that is absent is not asked for; without it, one request says so.
    assert len(asked) == (1 if there or not full else 0)


def test_a_template_that_is_too_large_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    for name, content in files(**{"chat_template.jinja": "<|user|>" + " " * 5_000_001}).items():
        (tmp_path / name).write_bytes(content)
    hub.add(REPO, {path.name: path for path in tmp_path.iterdir()})
    for source in (tmp_path, REPO):
        with pytest.raises(SourceError, match=r"chat_template\.jinja (exceeds|has)"):
            _ = hpe.extract(source).token_marks


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, "<|settings|>"),
        ({"chat_template.json": json.dumps({"chat_template": "<|json|>"})}, "<|json|>"),
        ({"chat_template.json": "no JSON"}, "<|settings|>"),
        ({"chat_template.jinja": "<|jinja|>", "chat_template.json": "{}"}, "<|jinja|>"),
        ({"additional_chat_templates/b.jinja": "<|b|>", "additional_chat_templates/a.jinja": "<|a|>"}, "<|a|>\n<|b|>"),
        ({"chat_template.jinja": "<|c|>", "additional_chat_templates/a.jinja": "<|a|>"}, "<|c|>\n<|a|>"),
        ({"additional_chat_templates/a.txt": "no template"}, "<|settings|>"),
    ],
)
def test_files_of_templates_precede_the_settings_as_in_transformers(
    hub: FakeHub, tmp_path: Path, more: Mapping[str, str], wanted: str
) -> None:
    settings = {"chat_template": "<|settings|>"}
    (tmp_path / "additional_chat_templates").mkdir()
    for name, content in more.items():
        (tmp_path / name).write_text(content)
    hub.add(REPO, {**files(), **more})
    here = partial(local_text, tmp_path, 10_000)
    assert chat_template(settings, here) == wanted
    assert chat_template(settings, open_hub(HubSource(REPO), Access()).text) == wanted
    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    assert chat_template({"chat_template": several}, {}.get) == "D\nT"


NEEDED: list[tuple[dict[str, bytes], set[str]]] = [
    (
        {"tokenizer.model": b"\n\x05\n\x03the", "tokenizer.json": b"{}", "spiece.model": b""},
        {"tokenizer.json", "tokenizer_config.json"},
    ),
    (
        {
            "tokenizer.model": b"\n\x05\n\x03the",
            "merges.bin": b"",
            "original/tokenizer.model": b"",
            "added_tokens.json": b"{}",
        },
        {"tokenizer.model", "added_tokens.json", "tokenizer_config.json"},
    ),
    (
        {"tiktoken.model": b"dGhl 0\n", "tokenization_kimi.py": b"raise SystemExit"},
        {"tiktoken.model", "tokenizer_config.json"},
    ),
    ({"tekken.json": b'{"vocab": [{"token_bytes": "dGhl"}], "special_tokens": []}', "vocab.txt": b""}, {"tekken.json"}),
]


@pytest.mark.parametrize(("more", "needed"), NEEDED)
def test_only_the_files_that_the_vocabulary_needs_are_fetched(
    hub: FakeHub, more: dict[str, bytes], needed: set[str]
) -> None:
    kept = {name: raw for name, raw in files().items() if name != "tokenizer.json"}
    kept["tokenizer_config.json"] = b'{"tokenizer_class": "LlamaTokenizer", "bos_token": null}'
    hub.add(
        REPO, {**kept, **more, **({"tokenizer.json": files()["tokenizer.json"]} if "tokenizer.json" in more else {})}
    )
    labels = hpe.extract(REPO).token.labels
    assert "<s>" in labels if "tokenizer.json" in more else labels.pieces[0] == "the"
    assert labels.note == ""
    asked = {one.path.rpartition("/")[2].partition("?")[0] for one in hub.requests}
    small = {"config.json", "model.safetensors", "model.safetensors.index.json"}
    assert {name for name in asked if "." in name} - small == needed


def test_rows_that_no_file_names_are_numbered_with_a_note(hub: FakeHub) -> None:
    hub.add(REPO, {name: raw for name, raw in files().items() if name != "tokenizer.json"})
    token = hpe.extract(REPO).token
    assert list(token.labels) == ["0", "1", "2", "3", "4"]
    assert any("no tokenizer file states the tokens" in note for note in hpe.neighbours(token, "1", k=1).notes)
    assert any("no tokenizer file states the tokens" in note for note in hpe.extract(REPO).notes), (
        "the listing is known"
    )
