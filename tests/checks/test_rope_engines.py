"""Rotary positions as inference engines compute them, against the numbers that public threads give."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.checks.rope_engines import (
    ENGINES,
    RULES,
    EngineTurns,
    RopeEngines,
    first_parting,
    is_published,
    rope_engines,
)
from hfposemb.cli.main import main
from hfposemb.errors import MissingTableError
from hfposemb.tables.rotary import DynamicScaling, Rotary
from tests.checks.planted import change, llama

LAGUNA = {"rope_type": "yarn", "factor": 64.0, "attention_factor": 1.0, "original_max_position_embeddings": 4096}
LAGUNA_S = {**LAGUNA, "factor": 128.0, "attention_factor": 1.4852030263919618}
LAGUNA_64 = {**LAGUNA, "attention_factor": 1.4158883083359673}
LAGUNA_32 = {**LAGUNA, "factor": 32.0, "attention_factor": 1.3465735902799727}
MINISTRAL = {"rope_type": "yarn", "factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0}
MINISTRAL |= {"original_max_position_embeddings": 16384}
OLMO = {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2079441541679836}
OLMO |= {"original_max_position_embeddings": 8192}
R1_QWEN = {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8782488562869419}
R1_QWEN |= {"original_max_position_embeddings": 32768}
V2_LITE = {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1}
V2_LITE |= {"original_max_position_embeddings": 4096}
TELECHAT = {"rope_type": "telechat3-yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
SARVAM = {"type": "deepseek_yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}
SARVAM |= {"original_max_position_embeddings": 4096}
GPT_OSS = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
QWEN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
DYNAMIC = {"type": "dynamic", "factor": 2.0}


@dataclass(frozen=True)
class Case:
    """A number that a thread gives for an engine at some time: the attention factor, or another field of a row."""

    model_type: str
    stated: dict[str, Any]
    engine: str
    until: str
    published: float
    field: str = "attention_factor"
    length: int = 262_144
    more: tuple[tuple[str, Any], ...] = ()


CASES = {
    "vllm 46280, dropped": Case("laguna", LAGUNA, "vLLM", "2026-09-11", 1.4158883),
    "vllm 46280, asked for": Case("laguna", LAGUNA, "transformers", "", 1.0),
    "vllm 48621": Case("ministral3", MINISTRAL, "vLLM", "2026-09-11", 1.2772588722239782),
    "vllm 48621, transformers": Case("ministral3", MINISTRAL, "transformers", "", 1.0),
    "vllm 56446, mscale": Case("ministral3", MINISTRAL, "vLLM", "", 1.0),
    "vllm 56446, attention_factor": Case("laguna", LAGUNA, "vLLM", "", 1.0),
    "vllm 56446, telechat3 before": Case("telechat3", TELECHAT, "vLLM", "2026-09-11", 131_072, "length", 32_768),
    "vllm 56446, telechat3 after": Case("telechat3", TELECHAT, "vLLM", "", 32_768, "length", 32_768),
    "vllm 56446, telechat3's 0.07": Case("telechat3", TELECHAT, "vLLM", "", 0.07 * math.log(4) + 1, length=32_768),
    "vllm 56446, sarvam before": Case("sarvam", SARVAM, "vLLM", "2026-09-11", 5_242_880, "length", 131_072),
    "vllm 56446, sarvam after": Case("sarvam", SARVAM, "vLLM", "", 131_072, "length", 131_072),
    "sglang 33558, squared": Case("laguna", LAGUNA_S, "SGLang", "2026-08-04", 2.2058),
    "sglang 33558, right": Case("laguna", LAGUNA_S, "SGLang", "", 1.4852),
    "sglang 22711": Case("ministral3", MINISTRAL, "SGLang", "2026-07-14", 1.277),
    "sglang 31232": Case("ministral3", MINISTRAL, "SGLang", "", 1.0),
    "mlx-lm 1507": Case("olmo3", {**OLMO, "attention_factor": 1.0}, "mlx-lm", "", 0.1 * math.log(8) + 1),
    "mlx-lm 1507, equal by chance": Case("olmo3", OLMO, "mlx-lm", "", 1.2079),
    "llama.cpp 17945": Case("ministral3", MINISTRAL, "llama.cpp", "", 1.0),
    "llama.cpp 17945, DeepSeek 2": Case("deepseek_v2", V2_LITE, "llama.cpp", "", 1.0),
    "DeepSeek-R1 684": Case("qwen3", R1_QWEN, "transformers", "", 0.1 * math.log(4) + 1),
    "DeepSeek-R1 684, as meant": Case("qwen3", R1_QWEN, "vLLM", "2026-09-11", 1.0),
    "TensorRT-LLM 16379, factor 64": Case(
        "laguna", LAGUNA_64, "TensorRT-LLM", "2026-07-14", 1.122 * 1.4158883, "attention_factor"
    ),
    "TensorRT-LLM 16379, factor 32": Case("laguna", LAGUNA_32, "TensorRT-LLM", "2026-07-14", 1.089 * 1.3465736),
    "exllamav3 259, before": Case("ministral3", MINISTRAL, "exllamav3", "v1.0.0", 0.1 * math.log(16) + 1),
    "exllamav3 259, after": Case("ministral3", MINISTRAL, "exllamav3", "", 1.0),
    "transformers 38224": Case("qwen3", QWEN, "transformers", "2025-08-20", 1.0, length=32_768),
    "transformers 40320": Case("qwen3", QWEN, "transformers", "", 0.1 * math.log(4) + 1, length=32_768),
    "vllm 27431, short": Case(
        "phi3", LONG, "vLLM", "", 4096, "length", 131_072, (("original_max_position_embeddings", 4096),)
    ),
    "llama.cpp 24823": Case(
        "phi3", LONG, "llama.cpp", "", 1, "parts_at", 131_072, (("original_max_position_embeddings", 4096),)
    ),
}
"""Fields of a configuration, engine, the end of the rule's time, and the number that was published."""


def opened(folder: Path, model_type: str, stated: dict[str, Any], length: int, **more: Any) -> hpe.Embeddings:
    folder.mkdir(exist_ok=True)
    fields = {"max_position_embeddings": length, "rope_theta": 1_000_000.0, "model_type": model_type}
    change(llama(folder), **fields, rope_scaling=stated, **more)
    return hpe.extract(folder)


def row(found: RopeEngines, engine: str, until: str) -> EngineTurns:
    """Return the row of an engine that ended at a date; rows that compute the same are joined."""
    rows = [one for one in found.rows if one.engine == engine]
    return next((one for one in rows if one.until == until), rows[-1])


@pytest.mark.parametrize("name", CASES)
def test_published_numbers(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    found = rope_engines(opened(tmp_path, case.model_type, case.stated, case.length, **dict(case.more)))
    got = getattr(row(found, case.engine, case.until), case.field)
    assert got == pytest.approx(case.published, abs=1e-3, rel=1e-3 if case.field == "attention_factor" else 0)


def test_every_rule_names_what_shows_it() -> None:
    for rule in RULES:
        assert rule.thread.startswith("https://github.com/"), rule
        assert rule.says, rule
        assert bool(rule.shown) == is_published(rule.thread), rule
        assert not rule.since or not rule.until or rule.since < rule.until, rule
    assert {rule.engine for rule in RULES} >= set(ENGINES)


def test_a_factor_parts_at_once_and_frequencies_later(tmp_path: Path) -> None:
    laguna = rope_engines(opened(tmp_path / "a", "laguna", LAGUNA, 262_144))
    assert row(laguna, "vLLM", "2026-09-11").parts_at == 0
    assert row(laguna, "vLLM", "").parts_at is None
    assert {one.engine for one in laguna.differing} == {"llama.cpp", "mlx-lm"}
    oss = rope_engines(opened(tmp_path / "b", "gpt_oss", GPT_OSS, 131_072))
    old, new = row(oss, "vLLM", "2025-11-06"), row(oss, "vLLM", "")
    assert old.parts_at is not None
    assert old.parts_at > 0
    assert new.parts_at is None
    assert old.attention_factor == new.attention_factor == pytest.approx(1.3466, abs=1e-4)


@pytest.mark.parametrize("apart", [1e-5, 3e-4, 0.02, 1.0])
def test_the_first_position_that_parts_is_the_first(apart: float) -> None:
    one = Rotary(np.array([1.0, 0.1]), 5000)
    other = Rotary(np.array([1.0, 0.1 + apart]), 5000)
    positions = np.arange(5000)[:, None]
    angles = np.stack(
        [np.cos(positions * each.inv_freq) + 1j * np.sin(positions * each.inv_freq) for each in (one, other)]
    )
    far = np.abs(angles[0] - angles[1]).max(axis=1) > 1e-3
    expected = int(np.argmax(far)) if far.any() else None
    assert first_parting(one, other) == expected


def test_parting_where_frequencies_change_with_the_length() -> None:
    plain = 10_000.0 ** -(np.arange(8) / 8)
    dynamic = Rotary(plain, 512, by_length=DynamicScaling(10_000.0, 16, 2.0, 512))
    assert first_parting(dynamic, Rotary(plain, 512)) is None
    later = first_parting(dynamic, Rotary(plain, 2048))
    assert later is not None
    assert 512 <= later < 600
    assert first_parting(Rotary(plain, 512, 1.1), Rotary(plain, 512)) == 0
    assert first_parting(Rotary(plain[:4], 512), Rotary(plain, 512)) == 0


def test_long_factors_by_engine(tmp_path: Path) -> None:
    trained = {"original_max_position_embeddings": 64}
    found = rope_engines(opened(tmp_path, "phi3", LONG, 256, **trained))
    plain = 1_000_000.0 ** -(np.arange(8) / 8)
    for engine, factor, parts in (("transformers", 1, None), ("SGLang", 1, 64), ("llama.cpp", 4, 1), ("mlx-lm", 4, 1)):
        one = row(found, engine, "")
        np.testing.assert_allclose(one.frequencies, plain / factor)
        assert one.parts_at == parts, one
        assert one.attention_factor == pytest.approx(math.sqrt(1 + math.log(4) / math.log(64)))
    served = row(found, "vLLM", "")
    assert (served.length, served.parts_at) == (64, None)


def test_dynamic_scaling_by_engine(tmp_path: Path) -> None:
    """vLLM #41236: a constant base, θ (s² − s + 1)^(d/(d − 2)); llama.cpp #8361: none; mlx-lm refuses."""
    found = rope_engines(opened(tmp_path, "llama", DYNAMIC, 256))
    base = 1_000_000.0 * 3 ** (16 / 14)
    for engine, until in (("vLLM", "2026-04-29"), ("SGLang", "")):
        np.testing.assert_allclose(row(found, engine, until).frequencies, base ** -(np.arange(8) / 8))
        assert row(found, engine, until).parts_at == 1
    assert row(found, "llama.cpp", "").parts_at is None
    assert "stops at the rope type 'dynamic'" in row(found, "mlx-lm", "").refused
    assert found.rows[0].engine == "transformers"


def test_internlm_positions_count_double_in_mlx_lm(tmp_path: Path) -> None:
    found = rope_engines(opened(tmp_path, "internlm3", {"rope_type": "dynamic", "factor": 6.0}, 256))
    ours, mlx = row(found, "transformers", ""), row(found, "mlx-lm", "")
    assert ours.frequencies is not None
    np.testing.assert_allclose(mlx.frequencies, 2 * ours.frequencies)


@pytest.mark.parametrize(
    "stated", [None, {"type": "linear", "factor": 2.0}, {"type": "mrope", "mrope_section": [2, 3, 3]}]
)
def test_plain_positions_are_the_same_everywhere(tmp_path: Path, stated: Any) -> None:
    found = rope_engines(opened(tmp_path, "llama", stated, 256))
    assert [one.engine for one in found.rows] == list(ENGINES)
    assert not found.differing
    assert all(one.known for one in found.rows)


def test_what_no_rule_covers_is_not_known(tmp_path: Path) -> None:
    """Engines have code of their own for latent attention; none but DeepSeek's was read."""
    found = rope_engines(opened(tmp_path, "mistral_large4", LAGUNA, 256, qk_rope_head_dim=16))
    assert [one.engine for one in found.rows if not one.known] == ["SGLang", "llama.cpp", "mlx-lm"]
    assert "llama.cpp     not known" in str(found)
    values = {one["engine"]: one for one in found.to_dict()["engines"]}
    assert values["mlx-lm"]["attention_factor"] is None
    assert values["mlx-lm"]["known"] is False


def test_layers_with_parameters_of_their_own(tmp_path: Path) -> None:
    both = {
        "full_attention": {**LAGUNA, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    change(llama(tmp_path), max_position_embeddings=262_144, model_type="laguna", rope_parameters=both)
    source = hpe.extract(tmp_path)
    assert row(rope_engines(source, part="full_attention"), "vLLM", "2026-09-11").attention_factor == pytest.approx(
        1.41589, abs=1e-5
    )
    assert not rope_engines(source, part="sliding_attention").differing


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(tmp_path, "laguna", LAGUNA, 262_144)
    assert main(["rope", str(tmp_path), "--engines"]) == 0
    said = capsys.readouterr().out
    assert "https://github.com/vllm-project/vllm/pull/46280, 2026-06-21" in said
    assert "1.416" in said
    assert main(["rope", str(tmp_path), "--engines", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {one["engine"] for one in values["engines"]} >= set(ENGINES)
    assert values["reference"] == "transformers"
    assert main(["rope", "sample:bert", "--engines"]) == 1
    assert "no rotary positions" in capsys.readouterr().err


@pytest.mark.parametrize("stated", [{"rope_type": "deepseek_yarn", "factor": "x"}, {"rope_type": "magic"}])
def test_what_cannot_be_computed_is_refused(tmp_path: Path, stated: dict[str, Any]) -> None:
    source = opened(tmp_path, "llama", stated, 1)
    with pytest.raises(MissingTableError, match=r"cannot be computed|unknown type"):
        rope_engines(source)


NOTED = {
    "an explicit factor": ("laguna", LAGUNA, {}, "llama.cpp, mlx-lm", 0),
    "attn_factor": ("qwen3", R1_QWEN, {}, "SGLang", 0),
    "telechat3": ("telechat3", TELECHAT, {}, "mlx-lm", 0),
    "long factors": ("phi3", LONG, {"original_max_position_embeddings": 4096}, "llama.cpp, mlx-lm", 1),
    "plain YaRN": ("qwen3", QWEN, {}, "", 0),
    "all agree by now": ("ministral3", MINISTRAL, {}, "", 0),
    "shown by source alone": ("gpt_oss", GPT_OSS, {}, "", 0),
    "no scaling": ("llama", None, {}, "", 0),
}


@pytest.mark.parametrize("name", NOTED)
def test_check_notes_what_present_engines_do_differently(tmp_path: Path, name: str) -> None:
    model_type, stated, more, engines, position = NOTED[name]
    opened(tmp_path, model_type, stated, 131_072, **more)
    found = hpe.check(tmp_path)
    assert ("rope-engines-differ" in found) == bool(engines), str(found)
    if engines:
        one = found["rope-engines-differ"]
        assert one.severity == "note"
        assert one.numbers["position"] == position
        assert one.numbers["engines"] == engines
        assert "--engines" in one.fix
