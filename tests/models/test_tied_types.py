"""What decides whether a head is tied: as the classes of transformers do it, whatever else a configuration states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import hfposemb as hpe
from hfposemb.models.architectures.tied_types import DATA, is_tied, tie_words
from tests.architectures.ties import rules_of, text
from tests.architectures.tiny import configurations, randomise
from tests.conftest import FULL

SOME = ("t5", "llama", "bigbird_pegasus", "qwen2_audio", "wav2vec2", "internvl", "llava", "kosmos-2", "encoder-decoder")


@pytest.mark.parametrize("model_type", SOME if FULL else SOME[:3])
def test_the_data_are_what_the_classes_of_a_type_do(model_type: str) -> None:
    made, written = json.loads(text([rules_of(model_type)])), json.loads(DATA.read_text(encoding="utf-8"))
    assert made["untied"] == [name for name in written["untied"] if name == model_type]
    for kind in ("types", "classes"):
        assert all({*names} <= {*written[kind][rule]} for rule, names in made[kind].items())


def nested(model_type: str, text_type: str, text: bool | None, whole: bool | None = None) -> dict[str, Any]:
    """Return a configuration with a text part, and what each states."""
    inner = {"model_type": text_type} | ({} if text is None else {"tie_word_embeddings": text})
    return {"model_type": model_type, "text_config": inner} | ({} if whole is None else {"tie_word_embeddings": whole})


@pytest.mark.parametrize(
    ("config", "tied", "words"),
    [
        ({"model_type": "gpt2"}, True, "is not stated, which means true"),
        ({"model_type": "gpt2", "tie_word_embeddings": False}, False, "is false"),
        ({"model_type": "t5", "tie_word_embeddings": False}, True, "t5 always ties it"),
        ({"model_type": "csm", "tie_word_embeddings": True}, False, "csm never ties it"),
        ({"model_type": "bigbird_pegasus"}, True, "which means true"),
        ({"model_type": "bigbird_pegasus", "architectures": ["BigBirdPegasusForCausalLM"]}, False, "never ties it"),
        (nested("internvl", "qwen2", False), True, "is not stated outside its text part, which means true"),
        (nested("internvl", "qwen2", True, False), False, "is false"),
        (nested("llava", "llama", True, False), True, "is true"),
        (nested("llava", "llama", None), False, "which means false"),
        (nested("llava", "gemma2", None), True, "which means true"),
        (nested("paddleocr_vl", "ernie4_5", False), True, "is not stated, which means true"),
        (nested("paddleocr_vl", "ernie4_5", False, False), False, "is false"),
        (nested("blip-2", "opt", False, True), False, "is false"),
        (nested("blip-2", "t5", False, False), True, "which means true"),
        ({"model_type": "blip-2", "tie_word_embeddings": False}, False, "is false"),
        (nested("internvl", "qwen2", False) | {"auto_map": {}}, False, "is false"),
        (nested("mine", "qwen2", False), False, "is false"),
    ],
)
def test_the_place_that_decides_is_that_of_the_class(config: dict[str, Any], tied: bool, words: str) -> None:
    assert is_tied(config) is tied
    assert tie_words(config).endswith(words)


@pytest.mark.parametrize(
    ("kind", "model_type", "whole", "inner"),
    [
        ("LongT5ForConditionalGeneration", "longt5", False, None),
        ("InternVLForConditionalGeneration", "internvl", None, False),
        ("Qwen2AudioForConditionalGeneration", "qwen2_audio", None, None),
        ("VoxtralForConditionalGeneration", "voxtral", None, True),
    ],
)
def test_heads_are_tied_as_transformers_ties_them(
    kind: str, model_type: str, whole: bool | None, inner: bool | None, tmp_path: Path
) -> None:
    made = getattr(transformers, kind)(next(configurations(model_type))).eval()
    randomise(made)
    made.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for part, said in ((config, whole), (config.get("text_config", {}), inner)):
        part.pop("tie_word_embeddings", None)
        part |= {} if said is None else {"tie_word_embeddings": said}
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded, told = getattr(transformers, kind).from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"]
    head = hpe.extract(tmp_path).head
    theirs = loaded.get_output_embeddings().weight
    assert np.array_equal(head.vectors, theirs.detach().numpy())
    shared = any(isinstance(one, torch.nn.Embedding) and one.weight is theirs for one in loaded.modules())
    assert bool(head.tied) is shared
    assert [one.name for one in hpe.check(tmp_path).findings if one.name.startswith("head")] == []


def test_a_head_of_its_own_stays_where_the_file_says_so(tmp_path: Path) -> None:
    """As FLAN-T5's: the class would tie it, but transformers keeps a stored head that differs."""
    from safetensors.torch import load_file, save_file

    made = transformers.T5ForConditionalGeneration(next(configurations("t5"))).eval()
    made.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    own = torch.randn_like(stored["shared.weight"])
    save_file({**stored, "lm_head.weight": own}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text()) | {"tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path)
    head = hpe.extract(tmp_path).head
    assert np.array_equal(head.vectors, loaded.lm_head.weight.detach().numpy())
    assert not head.tied
    assert not [one.name for one in hpe.check(tmp_path).findings if one.name.startswith("head")]


def test_a_model_that_predicts_no_tokens_lacks_no_head(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    table = np.ones((9, 4), np.float32)
    save_file({"text_encoder.shared.weight": table, "decoder.lm_heads.0.weight": table}, tmp_path / "model.safetensors")
    config = {"model_type": "musicgen", "architectures": ["MusicgenForConditionalGeneration"]}
    config |= {"text_encoder": {"model_type": "t5", "vocab_size": 9}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "head-missing" not in hpe.check(tmp_path)
