"""What a check reads, prints and returns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.checks.check_report import CheckReport, document, to_sarif
from hfposemb.checks.findings import RULES, finding
from hfposemb.cli.main import main
from hfposemb.errors import InputError, SourceError
from hfposemb.reports.json_schema import SCHEMAS
from tests.checks.planted import EMBED, LLAMA, change, edit, llama, set_rows, shards, tokenizer, write
from tests.hub import FakeHub
from tests.support.checkpoints.sparse_files import sparse, write_rows

LAYERS, WIDTH, TOKENS = 32, 4096, 128_256
SQUARE, NARROW, WIDE = [4096, 4096], [1024, 4096], [14_336, 4096]
SHAPES = {
    "self_attn.q_proj": SQUARE,
    "self_attn.k_proj": NARROW,
    "self_attn.v_proj": NARROW,
    "self_attn.o_proj": SQUARE,
    "mlp.gate_proj": WIDE,
    "mlp.up_proj": WIDE,
    "mlp.down_proj": [4096, 14_336],
    "input_layernorm": [4096],
    "post_attention_layernorm": [4096],
}
CONFIG = {name: value for name, value in LLAMA.items() if name != "dtype"} | {"torch_dtype": "bfloat16"}
CONFIG |= {"vocab_size": TOKENS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 32}
CONFIG |= {"max_position_embeddings": 8192, "rope_theta": 500_000.0, "bos_token_id": 128_000, "eos_token_id": 128_009}


def large(folder: Path, *, zero: int | None = None) -> dict[str, bytes | str | Path]:
    """Write the headers of an 8-billion-parameter Llama in four sparse files, with an index of their tensors."""
    shapes = {"model.embed_tokens.weight": [TOKENS, WIDTH], "model.norm.weight": [WIDTH]}
    for layer in range(LAYERS):
        shapes |= {f"model.layers.{layer}.{part}.weight": shape for part, shape in SHAPES.items()}
    shapes |= {"lm_head.weight": [TOKENS, WIDTH]}
    files = sparse(folder, shapes, 4, CONFIG)
    values = np.random.default_rng(0).standard_normal((512, WIDTH)).astype("<f4")  # the last rows are real
    if zero is not None:
        values[zero - TOKENS + 512] = 0
    write_rows(folder / "model-00001-of-00004.safetensors", "model.embed_tokens.weight", TOKENS - 512, values)
    added = {str(row): {"content": f"<|reserved_{row}|>", "special": True} for row in range(128_000, TOKENS)}
    for row, name in ((128_000, "begin_of_text"), (128_006, "start_header_id"), (128_009, "eot_id")):
        added[str(row)]["content"] = f"<|{name}|>"
    settings = {"added_tokens_decoder": added, "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
    settings |= {"chat_template": "<|start_header_id|>{{ messages }}<|eot_id|>", "model_max_length": 8192}
    files["tokenizer_config.json"] = json.dumps(settings, indent=2)
    files["tokenizer.json"] = " " * 9_000_000
    return files


@pytest.mark.parametrize("zero", [None, 128_006])
def test_eight_billion_parameters_take_six_requests(hub: FakeHub, tmp_path: Path, zero: int | None) -> None:
    hub.add("a/large", large(tmp_path, zero=zero))
    found = hpe.check("a/large")
    # The Hub redirects small files to its cache and large ones to the CDN, where the second range is read at once.
    redirects = [one for one in hub.requests if 300 <= (one.status or 0) < 400]
    assert len(hub.requests) - len(redirects) <= 6, [one.path for one in hub.requests]
    assert len(hub.requests) <= 7
    assert sum(one.body_bytes for one in hub.requests) <= 2_000_000
    assert found.requests == len(hub.requests)
    assert found.received == sum(one.body_bytes for one in hub.requests)
    if zero is None:
        assert found.findings == (), str(found)
    else:
        assert [one.name for one in found.findings] == ["reserved-row-in-use"]
        assert found["reserved-row-in-use"].numbers["row"] == zero
    assert any("--full" in reason for reason in found.not_checked)
    assert found.commit is not None


def test_a_hub_without_redirects_gets_six_requests_at_most(hub: FakeHub, tmp_path: Path) -> None:
    hub.direct = True
    hub.add("a/large", large(tmp_path))
    assert hpe.check("a/large").requests == len(hub.requests) <= 6


def test_the_hub_and_a_folder_give_the_same_findings(hub: FakeHub, tmp_path: Path) -> None:
    folder = llama(tmp_path)
    set_rows(EMBED, 92, 0)(folder)
    hub.add("a/small", {path.name: path for path in folder.iterdir()})
    here, there = hpe.check(folder), hpe.check("a/small", full=True)
    assert [one.name for one in here.findings] == [one.name for one in there.findings] == ["reserved-row-in-use"]
    assert [one.numbers for one in here.findings] == [one.numbers for one in there.findings]


def test_a_revision_is_read(hub: FakeHub, tmp_path: Path) -> None:
    folder = llama(tmp_path)
    files = {path.name: path for path in folder.iterdir()}
    hub.add("a/small", {**files, "config.json": (folder / "config.json").read_bytes()}, branch="old")
    change(folder, vocab_size=95)
    hub.add("a/small", files)
    assert hpe.check("a/small", revision="old").passed
    assert "vocabulary-size" in hpe.check("a/small")
    with pytest.raises(SourceError, match="twice"):
        hpe.check("a/small@old", revision="main")


@pytest.mark.parametrize("source", ["sinusoidal:64x16", "sample:bert@step-500"])
def test_what_has_no_files_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="no files to check; give a folder"):
        hpe.check(source)


def test_rows_of_a_large_local_table_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hfposemb.checks import table_rows

    folder = llama(tmp_path)
    set_rows(EMBED, 92, 0)(folder)
    monkeypatch.setattr(table_rows, "LOCAL", 1000)
    monkeypatch.setattr(table_rows, "WINDOW", 500)
    found = hpe.check(folder)
    assert "reserved-row-in-use" in found
    assert any("rows of the token table are read" in reason for reason in found.not_checked)
    assert not any("rows of the token table" in reason for reason in hpe.check(folder, full=True).not_checked)


# --- reports ----------------------------------------------------------------------------------------------------------


def planted(folder: Path) -> CheckReport:
    llama(folder)
    change(folder, eos_token_id=128_009, dtype="bfloat16")
    return hpe.check(folder)


def test_json_has_its_schema(tmp_path: Path) -> None:
    found = planted(tmp_path)
    written = json.loads(json.dumps(document([found]), allow_nan=False))
    jsonschema.validate(written, SCHEMAS["check"])
    (report,) = written["reports"]
    assert report["passed"] is False
    assert [one["name"] for one in report["findings"]] == ["special-id", "dtype-differs"]
    assert report["findings"][0]["numbers"] == {"id": 128_009, "rows": 96}
    for other in ({"format": "hfposemb.check/0"}, {"more": 1}, {"reports": [{**report, "more": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**written, **other}, SCHEMAS["check"])


def test_infinite_numbers_are_null_in_json(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    set_rows("lm_head.weight", 3, np.inf)(folder)
    change(folder, tie_word_embeddings=True)
    found = hpe.check(folder)
    assert found["head-differs"].numbers["largest"] == np.inf
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["findings"][0]["numbers"]["largest"] is None
    json.dumps(found.to_sarif(), allow_nan=False)


def test_sarif_has_what_github_needs(tmp_path: Path) -> None:
    log = to_sarif([planted(tmp_path)])
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["dtype-differs", "special-id"]
    assert {one["level"] for one in run["results"]} == {"error", "note"}
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["message"]["text"]
        (place,) = one["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"].endswith(("config.json", "model.safetensors"))


def test_text_states_severity_reason_and_fix(tmp_path: Path) -> None:
    said = str(planted(tmp_path))
    assert "1 wrong, 0 suspicious, 1 note" in said
    assert "wrong: special-id: eos_token_id is 128,009, but the token table has the rows 0 to 95" in said
    assert "why: Generation never stops" in said
    assert 'fix: "eos_token_id": 91,' in said
    with pytest.raises(KeyError):
        _ = planted(tmp_path)["missing-shard"]


def test_text_of_files_is_made_safe(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    change(folder, rope_scaling={"rope_type": "\u202egnol\nyarn", "factor": 2.0})
    said = hpe.check(folder)["rope-unknown-type"]
    assert said.message.isprintable()
    assert finding("special-id", "a\nb", fix={"field": "x", "expected": "1"}).message == "a\\nb"


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_what_why_and_how(name: str) -> None:
    rule = RULES[name]
    assert rule.about[0].islower()
    assert rule.why.endswith(".")
    assert rule.why.count(". ") == 0, "one sentence"
    assert rule.fix
    assert "\n" not in rule.about + rule.why + rule.fix


# --- the command ------------------------------------------------------------------------------------------------------


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sound", "faulty"):
        (tmp_path / name).mkdir()
        llama(tmp_path / name)
    set_rows(EMBED, 3, np.nan)(tmp_path / "faulty")
    sound, faulty = str(tmp_path / "sound"), str(tmp_path / "faulty")
    assert main(["check", sound]) == 0
    assert capsys.readouterr().out.startswith(f"{sound}: 0 wrong")
    assert main(["check", sound, faulty]) == 1
    assert "wrong: not-finite" in capsys.readouterr().out
    assert main(["check", faulty, str(tmp_path / "absent"), sound]) == 2
    said = capsys.readouterr()
    assert "absent does not exist" in said.err
    assert "0 wrong" in said.out
    assert "not-finite" in said.out


def test_json_and_sarif_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path)
    shards(folder, drop=True)
    log = tmp_path / "found.sarif"
    assert main(["check", str(folder), "--json", "--sarif", str(log)]) == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMAS["check"])
    assert found["reports"][0]["findings"][0]["name"] == "missing-shard"
    assert json.loads(log.read_text(encoding="utf-8"))["runs"][0]["results"][0]["ruleId"] == "missing-shard"
    with pytest.raises(SystemExit):
        main(["check", "--schema"])
    assert json.loads(capsys.readouterr().out) == SCHEMAS["check"]


def test_a_folder_without_configuration_is_checked_by_its_tables(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    (folder / "config.json").unlink()
    set_rows(EMBED, 3, np.nan)(folder)
    found = hpe.check(folder)
    assert "not-finite" in found
    assert any("no config.json" in reason for reason in found.not_checked)


def test_files_of_a_tokenizer_alone_do_not_mislead(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert hpe.check(folder).passed
    tokenizer(folder, tokens=92)
    assert "padded-rows" not in hpe.check(folder), "the settings list the other tokens"


def test_minilm_is_sound(minilm_folder: Path, tmp_path: Path) -> None:
    assert hpe.check(minilm_folder, full=True).findings == ()
    copy = tmp_path / "copy"
    shutil.copytree(minilm_folder, copy)
    edit(copy, lambda tensors: tensors["embeddings.word_embeddings.weight"].__setitem__(2332, 0))
    write(copy, "config.json", {**json.loads((copy / "config.json").read_text()), "vocab_size": 30_528})
    assert {one.name for one in hpe.check(copy).findings} == {"zero-rows", "vocabulary-size"}


def test_a_model_without_tables_is_checked_too(tmp_path: Path) -> None:
    tensors = {"stem.weight": np.ones((8, 3, 3, 3), np.float32), "norm.scale": np.ones(8, np.float32)}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "resnet"}))
    with pytest.raises(hpe.errors.MissingTableError, match="none of its 2 tensors is shaped like a table"):
        hpe.extract(tmp_path)
    assert hpe.check(tmp_path).passed
