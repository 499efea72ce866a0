"""Whatever a configuration or a tokenizer's file holds, a check ends with a report or one line."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.reports.json_schema import SCHEMAS
from tests.checks.planted import LLAMA, llama

FIELDS = [
    *LLAMA,
    *("pad_token_id", "rope_scaling", "rope_parameters", "text_config", "torch_dtype", "auto_map", "pruned_heads"),
    *("n_positions", "original_max_position_embeddings", "num_nextn_predict_layers", "thinker_config"),
]
TOKENIZER = ["added_tokens_decoder", "chat_template", "bos_token", "eos_token", "pad_token", "model_max_length"]
SCALING = ["rope_type", "type", "factor", "short_factor", "original_max_position_embeddings", "rope_theta"]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["yarn", "llama"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from([*FIELDS, *SCALING, "content", "7"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@example({"rope_parameters": {"rope_theta": []}, "rope_theta": 5}, {}, {})
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=5),
    st.dictionaries(st.sampled_from(TOKENIZER), ANY, max_size=4),
    st.dictionaries(st.text(max_size=6), ANY, max_size=3),
)
def test_any_values_give_a_report(config: dict[str, Any], tokenizer: dict[str, Any], added: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as home:
        folder = llama(Path(home))
        (folder / "config.json").write_text(json.dumps({**LLAMA, **config}), encoding="utf-8")
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")) | tokenizer
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        for name in ("added_tokens.json", "generation_config.json", "special_tokens_map.json"):
            (folder / name).write_text(json.dumps(added), encoding="utf-8")
        try:
            found = hpe.check(folder)
        except hpe.HfposembError:
            return
        written = {"format": "hfposemb.check/1", "version": "0", "reports": [found.to_dict()]}
        jsonschema.validate(json.loads(json.dumps(written, allow_nan=False)), SCHEMAS["check"])
        for one in found.findings:
            assert all(text.isprintable() for text in (one.message, one.why, one.fix))
        json.dumps(found.to_sarif())
        assert str(found)
