"""Which tables a type needs: as small models of transformers store them, and nothing where that is not known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hfposemb.models.architectures.tied_types import needed_tables
from tests.architectures.needed import DATA, roles_of, text
from tests.conftest import FULL

SOME = ("gpt2", "bart", "t5", "clip")


@pytest.mark.parametrize("model_type", SOME if FULL else SOME[:2])
def test_the_data_are_what_the_classes_of_a_type_store(model_type: str) -> None:
    made, written = json.loads(text([roles_of(model_type)])), json.loads(DATA.read_text(encoding="utf-8"))
    (roles,) = made["types"]
    assert model_type in written["types"][roles]
    assert made["classes"].get(model_type) == written["classes"].get(model_type)


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
    ],
)
def test_tables_are_needed_only_where_that_is_known(config: dict[str, Any], needed: str) -> None:
    assert needed_tables(config) == frozenset(needed.split())
