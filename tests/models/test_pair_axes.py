"""Which pairs turn with time, height and width equals what the module of every such type in transformers does."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import hfposemb as hpe
from hfposemb.checks.rope_report import rope_report
from hfposemb.models.positions.rope import _TYPES, pair_axes, rotary_encodings
from hfposemb.models.summary import describe
from hfposemb.tables.rotary import Rotary
from tests.checks.planted import change, llama

MODELS = Path(str(transformers.__file__)).parent / "models"
POSITIONS = (3, 50, 700, 9000)
"""Position of a token on each axis, far enough apart that its cosines say which axis turned a pair."""

AXES = ("time", "height", "width")


@functools.cache
def modules() -> dict[str, tuple[Any, Any]]:
    """Return module and configuration class of every type whose rotary module reads ``mrope_section``."""
    found = {}
    for file in sorted(MODELS.glob("*/modeling_*.py")):
        text = file.read_text()
        if '"mrope_section"' not in text:
            continue
        module = importlib.import_module(f"transformers.models.{file.parent.name}.{file.stem}")
        sources = {re.split(r"\W", one)[0]: one for one in re.split(r"^class ", text, flags=re.M)[1:]}
        for rotary, source in sources.items():
            if not rotary.endswith("RotaryEmbedding") or '"mrope_section"' not in source:
                continue
            model = next(one for one in sources if f"{rotary}(" in sources[one] and one != rotary)
            takes = inspect.signature(getattr(module, model).__init__).parameters["config"].annotation
            found[file.parent.name] = (
                getattr(module, rotary),
                getattr(module, takes) if isinstance(takes, str) else takes,
            )
    return found


def test_every_type_with_sections_is_known() -> None:
    assert set(modules()) == set(_TYPES)


def live_axes(module: Any, frequencies: np.ndarray[Any, Any], layers: str | None) -> list[set[int]]:
    """Return for each dimension of a head which axes' positions its cosine can be of."""
    count = len(module.mrope_section) if isinstance(module.mrope_section, list) else 3
    positions = torch.tensor(POSITIONS[: max(count, 3)]).view(-1, 1, 1)
    with torch.no_grad():
        cosines, _ = module(torch.zeros(1, 1, 1), positions, *([layers] if layers else []))
    turned = cosines[0, 0].double().numpy()
    expected = np.cos(np.multiply.outer(POSITIONS, frequencies))
    return [
        {axis for axis in range(len(POSITIONS)) if abs(expected[axis, at] - turned[at]) < 1e-4}
        for at in range(len(turned))
    ]


@pytest.mark.parametrize("kind", sorted(_TYPES))
@pytest.mark.parametrize("own", [False, True])
def test_pairs_equal_the_live_module(kind: str, own: bool) -> None:
    """The stated sections, and those of the type where none are stated."""
    made, takes = modules()[kind]
    arrangement, usual = _TYPES[kind]
    sections = [4, 4, 8] if arrangement == "alternating" else [4, 6, 6]
    if arrangement == "by dimension":
        sections = [4, 4, 4, 4]
    if own and kind in ("hunyuan_vl", "cosmos3_edge"):
        pytest.skip("configurations of this type must state their sections")
    pairs = sum(usual) if own else 16
    stated: dict[str, Any] = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0}
    stated |= {} if own else {"mrope_section": sections}
    layers = "full_attention" if kind == "cohere_compass" else None
    width = {"head_dim": 2 * pairs, **({"qk_rope_head_dim": 2 * pairs} if kind == "hy_v4_vl" else {})}
    given = {**width, "rope_parameters": {layers: stated, "sliding_attention": stated} if layers else stated}
    config = takes(**given)
    module = made(config)
    encoding = rotary_encodings({**config.to_dict(), **given}, name=kind)[layers or "position"]
    assert isinstance(encoding, Rotary)
    axes = encoding.axes
    assert not axes.reason
    assert axes.arrangement == arrangement
    by = np.asarray(encoding.inv_freq)
    if arrangement == "by dimension":
        found = live_axes(module, np.tile(by, 2), layers)
        names = ("position", "width", "height", "image")
        for at, name in enumerate(axes.names):
            first, second = (name.split("/") * 2)[:2]
            assert names.index(first) in found[at]
            assert names.index(second) in found[at + pairs]
        return
    # What rotates HunYuan's queries spreads the first half of the cosines over both dimensions of a pair.
    side_by_side = encoding.layout == "interleaved" and kind != "hy_v4_vl"
    live = np.repeat(by, 2) if side_by_side else np.tile(by, 2)
    order = list(range(pairs))
    if (
        arrangement == "alternating"
    ):  # In the head, height and width take turns; the encoding lists one after the other.
        half = axes.sections[0]
        order = [one for at in range(half) for one in (at, half + at)] + order[2 * half :]
        live = np.repeat(by[order], 2)
    found = live_axes(module, live, layers)
    dimension = (lambda at: 2 * at) if side_by_side or arrangement == "alternating" else (lambda at: at)
    told = 0
    for at, pair in enumerate(order):
        assert AXES.index(axes.names[pair]) in found[dimension(at)], (at, axes)
        told += len(found[dimension(at)]) == 1
    assert told >= pairs // 2


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"model_type": "qwen2_vl", "mrope_section": [16, 24, 24]},
            "contiguous: time 0 to 15; height 16 to 39; width 40 to 63",
        ),
        ({"model_type": "qwen3_vl_text"}, "time 0, 3, … 60, 61 to 63; height 1, 4, … 58; width 2, 5, … 59"),
        ({"model_type": "llama"}, None),
        ({"model_type": "new", "mrope_section": [16, 24, 24]}, "not known: the type new is unknown"),
        ({"model_type": "new", "mrope_section": [24, 20, 20], "mrope_interleaved": True}, "interleaved: time 0, 3"),
        ({"model_type": "qwen2_vl", "mrope_section": [16, 24]}, "must list time, height and width"),
        ({"model_type": "qwen2_vl", "mrope_section": [16, 24, 25]}, "sums to 65, but 64 pairs turn"),
        ({"model_type": "qwen2_vl", "mrope_section": ["a", 1, 2]}, "must list whole numbers"),
        ({"model_type": "qwen2_vl", "mrope_section": {"a": 1}}, "must list whole numbers"),
        ({"model_type": "qwen2_vl", "mrope_section": [10**30, 1, 1]}, "must list whole numbers"),
    ],
)
def test_what_is_said_of_sections(values: dict[str, Any], said: str | None) -> None:
    found = pair_axes(values, 64)
    assert said in str(found) if said else found is None


YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "factor": 4.0}


@pytest.mark.parametrize(
    ("stated", "factor", "rule"),
    [
        (YARN, 1.277259, "0.1 ln s + 1, s = 16"),
        ({**YARN, "factor": 64.0, "attention_factor": 1.0}, 1.0, "attention_factor is stated; 0.1 ln s + 1 is 1.41589"),
        ({**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0, "mscale = 1, mscale_all_dim = 1, s = 16"),
        ({**YARN, "mscale": 0.7}, 1.277259, "0.1 ln s + 1, s = 16"),
        ({**LONG, "original_max_position_embeddings": 64}, 1.154701, "sqrt(1 + ln s / ln L0), s = 4, L0 = 64"),
        ({**LONG, "original_max_position_embeddings": 64, "attention_factor": 1.5}, 1.5, "gives 1.1547"),
        ({"rope_type": "linear", "factor": 2.0}, 1.0, ""),
    ],
)
def test_attention_factor_and_its_rule(tmp_path: Path, stated: dict[str, Any], factor: float, rule: str) -> None:
    change(llama(tmp_path), max_position_embeddings=1024, rope_theta=10_000.0, rope_scaling=stated)
    opened = hpe.extract(tmp_path)
    found = rope_report(opened).to_dict()
    assert found["attention_scaling"] == pytest.approx(factor, abs=1e-6)
    assert rule in found["attention_rule"]
    assert bool(rule) == bool(found["attention_rule"])
    facts = describe(opened)["positions"]["position"]["facts"]
    assert facts.get("by", "") == found["attention_rule"]
    assert ("attention factor" in str(rope_report(opened))) == bool(rule)


def test_report_and_info_state_the_sections(tmp_path: Path) -> None:
    stated = {"type": "mrope", "mrope_section": [2, 3, 3]}
    change(llama(tmp_path), max_position_embeddings=64, rope_scaling=stated, model_type="qwen2_vl")
    opened = hpe.extract(tmp_path)
    found = rope_report(opened)
    assert found.to_dict()["axes"]["pairs"] == {"time": [0, 1], "height": [2, 3, 4], "width": [5, 6, 7]}
    assert "mrope_section [2, 3, 3], contiguous: time 0, 1; height 2 to 4; width 5 to 7" in str(found)
    assert "height 2 to 4" in describe(opened)["positions"]["position"]["facts"]["mrope_section"]
