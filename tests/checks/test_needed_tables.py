"""Which tables a type needs: as small models of transformers store them, and nothing where that is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

import hfposemb as hpe
from hfposemb.models.architectures.tied_types import needed_tables
from tests.architectures.needed import DATA, roles_of, text, written
from tests.architectures.tiny import configurations
from tests.conftest import FULL

SOME = ("gpt2", "bart", "t5", "clip")


@pytest.mark.parametrize("model_type", SOME if FULL else SOME[:2])
def test_the_data_are_what_the_classes_of_a_type_store(model_type: str) -> None:
    made, written = json.loads(text([roles_of(model_type)])), json.loads(DATA.read_text(encoding="utf-8"))
    (roles,) = made["types"]
    assert model_type in written["types"][roles]
    assert made["classes"].get(model_type) == written["classes"].get(model_type)


def test_the_data_are_read_as_they_are_written() -> None:
    assert text(sorted(written().items())) == DATA.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "position token token_type"),
        ({"model_type": "bart", "architectures": ["BartForCausalLM"]}, "position token"),
        ({"model_type": "bart"}, "token"),  # of the class nothing is known
        ({"model_type": "bert", "architectures": ["BertEncoder"]}, ""),
        ({"model_type": "bert", "auto_map": {"AutoModel": "mine.Model"}}, ""),
        ({"model_type": "mine"}, ""),
        ({"model_type": ["bert"]}, ""),
        ({}, ""),
        ({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}, "token vision.position"),
        ({"model_type": "llava", "vision_config": {"model_type": "pixtral"}}, "token"),
        ({"model_type": "llava", "vision_config": {}}, "token"),
        ({"model_type": "musicgen", "text_encoder": {"model_type": "t5"}}, "token"),  # its sinusoids are computed
    ],
)
def test_tables_are_needed_only_where_that_is_known(config: dict[str, Any], needed: str) -> None:
    assert needed_tables(config) == frozenset(needed.split())


@pytest.mark.parametrize(
    ("base", "saved"),
    [("Data2VecTextModel", "Data2VecTextForMaskedLM"), ("ViTModel", "ViTForImageClassification")],
)
def test_a_base_model_has_its_tables_without_the_prefix(base: str, saved: str, tmp_path: Path) -> None:
    kind = getattr(transformers, base)
    model = kind(next(configurations(kind.config_class.model_type)))
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"architectures": [saved]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "table-missing" not in hpe.check(tmp_path)


@pytest.mark.parametrize("kind", ["Wav2Vec2ForCTC", "HubertForCTC", "BeitForMaskedImageModeling"])
def test_a_model_of_sound_or_pictures_needs_no_token_table(kind: str, tmp_path: Path) -> None:
    made = getattr(transformers, kind)
    made(next(configurations(made.config_class.model_type))).save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    assert "token" not in found.tables
    assert found.head.tied.about == "lm_head.weight is stored, and there is no token table"
    assert not any("token table is lm_head" in note for note in found.notes)
    assert "table-missing" not in hpe.check(tmp_path)
