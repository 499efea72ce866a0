"""What decides whether a class ties its head: ``python -m tests.architectures.ties`` writes it, five minutes."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from multiprocessing import get_context
from typing import Any

import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hfposemb.models.architectures.config_values import part_config
from hfposemb.models.architectures.head_names import head_candidates, is_headed
from hfposemb.models.architectures.tied_types import DATA, PARTS
from hfposemb.models.verification.heads import output_module
from tests.architectures.survey import model_types
from tests.architectures.tiny import _classes, configurations, workplace

SECONDS = 240
FIELD = "tie_word_embeddings"
_PLACES = ("whole", "text")
_CASES = [(whole, text) for text in (None, False, True) for whole in (None, False, True)]
"""What is stated of the whole and of its text part; ``None`` for nothing."""

Rules = dict[str, str]


def rules_of(model_type: str) -> tuple[str, bool, Rules]:
    """Build each class of a type without numbers; return the type, whether it ties by default, and what decides."""
    found: Rules = {}
    ties = True
    try:
        with workplace(SECONDS):
            ties = bool(getattr(CONFIG_MAPPING[model_type](), FIELD, False))
            for config in configurations(model_type):
                for kind in _classes(config):
                    named = not kind.__name__.endswith(PARTS)
                    if named and kind.__name__ not in found and (rule := _rule(kind, config)):
                        found[kind.__name__] = rule
                if found:
                    break
    except Exception:  # noqa: BLE001 - a type without a configuration, or too slow: nothing is said of it
        return model_type, ties, {}
    return model_type, ties, found


def _rule(kind: Any, config: Any) -> str:
    """Return what decides whether a class ties its head; "" if it has none, or if no rule fits."""
    try:
        head = _head(kind, config)
        if not head or hasattr(config, f"{head.partition('.')[0]}_config"):
            return ""  # none, or that of a part, whose own configuration decides
        tied = {case: _tied(kind, made, head) for case, made in _stated(config)}
    except Exception:  # noqa: BLE001 - what transformers cannot build is not ours to judge
        return ""
    if len({*tied.values()}) == 1:
        return "always" if tied[None, None] else "never"
    if len(tied) == len(_PLACES) + 1:
        return "whole"
    default = dict.fromkeys(_PLACES, tied[None, None]) | {"text": tied[False, None]}
    for rule, decides in _DECIDES.items():
        if all(value == decides(*_said(case, default)) for case, value in tied.items()):
            return rule
    return ""


_DECIDES: Mapping[str, Any] = {
    "whole": lambda whole, text: whole,
    "text": lambda whole, text: text,
    "either": lambda whole, text: whole or text,
}


def _said(case: tuple[bool | None, bool | None], default: Mapping[str, bool]) -> tuple[bool, ...]:
    return tuple(default[place] if one is None else one for place, one in zip(_PLACES, case, strict=True))


def _head(kind: Any, config: Any) -> str:
    """Return the parameter of a class that is its head; "" if there is none."""
    with torch.device("meta"):
        model = kind(config)
    theirs = output_module(model)
    if theirs is None:
        names = [name for name, _ in model.named_parameters()]
        return next(iter(head_candidates(names, loose=is_headed(kind.__name__))), "")
    named = (name for name, module in model.named_modules() if module is theirs)
    return f"{next(named)}.weight" if isinstance(getattr(theirs, "weight", None), torch.Tensor) else ""


def _stated(config: Any) -> Iterator[tuple[tuple[bool | None, bool | None], Any]]:
    """Yield configurations that state something or nothing of tying, as they are read from a file."""
    plain = _without(config.to_dict())
    for whole, inner in _CASES:
        values = deepcopy(plain)
        text: Any = part_config(values, "decoder" if "decoder" in values else "text")
        if inner is not None and text is values:
            continue
        text |= {} if inner is None else {FIELD: inner}
        values |= {} if whole is None else {FIELD: whole}
        yield (whole, inner), type(config).from_dict(values)


def _without(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without(one) for name, one in value.items() if name not in (FIELD, "scale_decoder_outputs")}


def _tied(kind: Any, config: Any, head: str) -> bool:
    with torch.device("meta"):
        tied = kind(config).all_tied_weights_keys
    return head in tied or head in tied.values()


def text(rows: Iterable[tuple[str, bool, Rules]]) -> str:
    """Return the data as JSON: the types that do not tie by default, and the types and classes of each rule.

    Of a type whose classes differ, each class is listed.
    """
    untied: list[str] = []
    types: defaultdict[str, list[str]] = defaultdict(list)
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for model_type, ties, found in rows:
        untied += [] if ties else [model_type]
        rules = [*dict.fromkeys(found.values())]
        if len(rules) == 1:
            types[rules[0]].append(model_type)
        for kind, rule in found.items() if len(rules) > 1 else ():
            classes[rule].append(kind)
    sections = {"untied": untied, "types": dict(sorted(types.items())), "classes": dict(sorted(classes.items()))}
    return "{\n" + ",\n".join(f'"{name}": {json.dumps(section)}' for name, section in sections.items()) + "\n}\n"


def main(types: list[str]) -> int:
    """Build all types and write the data, or print the rules of the given types."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(rules_of, types or model_types()))
    if types:
        print(*rows, sep="\n")
    else:
        DATA.write_text(text(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
