"""Tensor and class names of output heads, of their biases, and of what resembles them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from .table_names import outside_layers, tower_of

HEAD_ENDINGS: tuple[str, ...] = (
    "lm_head.weight",
    "lm_head.decoder.weight",
    "cls.predictions.decoder.weight",
    "predictions.decoder.weight",
    "generator_lm_head.weight",
    "mlm_score.decoder.weight",
    "embed_out.weight",
    "vocab_projector.weight",
    "pred_layer.proj.weight",
    "output_projection.weight",
    "output_layer.weight",
    "codec_head.weight",
    "lm_loss.weight",
    "head.decoder.weight",
    "unembed.weight",
    "log_softmax.mlp.layer0.weight",
)
"""Endings of head names, the most reliable first. Prefixes are arbitrary."""

SURE_HEADS = HEAD_ENDINGS[:5]
"""Endings that name nothing else: of the others, the rows must be those of a vocabulary where no class says more."""

LOOSE_HEADS: tuple[str, ...] = ("proj_out.weight", "output.weight", "head.weight", "decoder.weight", "cls.weight")
"""Whole names of heads that name other modules too; accepted for classes that have a head."""

_HEADED = re.compile(
    r"(CausalLM|LMHeadModel|MaskedLM|ConditionalGeneration|PreTraining|Seq2SeqLM|DoubleHeadsModel|MTModel|"
    r"2Text|ToText|ForTextToSpeech|SpeechToSpeech|TokenForGeneration|EncoderDecoderModel|GenerationDecoder|"
    r"CausalImageModeling|Blip2Model|FSMTModel|Seamless\w*Model)$"
)
"""Names of transformers classes that have an output head, judged by their ends."""

_CLASS_HEADS: Mapping[str, str] = {
    "score.weight": "a classification head, with one row for each class",
    "classifier.weight": "a classification head, with one row for each class",
    "classifier.out_proj.weight": "a classification head, with one row for each class",
    "classification_head.out_proj.weight": "a classification head, with one row for each class",
    "qa_outputs.weight": "a head that finds answers, with one row each for their start and end",
    "cls.predictions.transform.dense.weight": "the transform before an output head, not the head",
    "predictions.dense.weight": "the transform before an output head, not the head",
    "lm_head.dense.weight": "the transform before an output head, not the head",
    "generator_predictions.dense.weight": "the transform before an output head, not the head",
    "vocab_transform.weight": "the transform before an output head, not the head",
}
"""Endings of tensors that resemble a head, with what they are."""

_OTHER_OUTPUTS: Mapping[str, str] = {
    r"(^|\.)(lm_heads|codec_heads|codebooks_head)\.(\d+\.)?weight$": "one of the heads of audio codes",
    r"(^|\.)(codebooks_head|logits_dense|codec_head)\.weight$": "the head of audio codes",
    r"(^|\.)action_out_proj\.weight$": "a head of actions",
}
"""Patterns of heads whose rows are no tokens: a model that has one and no head of tokens does not predict tokens."""

_ANY_OUTPUT = re.compile("|".join(_OTHER_OUTPUTS))


def is_headed(name: str) -> bool:
    """Return whether the name of a class is that of a model with an output head."""
    return _HEADED.search(name) is not None


def head_candidates(names: Iterable[str], *, loose: bool) -> tuple[str, ...]:
    """Return the names that are those of heads, the best first: reliable endings, the text's, short paths.

    Args:
        names: Tensor names.
        loose: Whether the class of the model has a head, so that ambiguous names are accepted.
    """
    endings = (*HEAD_ENDINGS, *(LOOSE_HEADS if loose else ()))
    order = {"": 0, "text": 0, "decoder": 1}
    found = []
    for name in outside_layers(names):
        rank = _rank(name, endings)
        if rank is not None:
            found.append((order.get(tower_of(name), 2), rank, name.count("."), name))
    return tuple(entry[-1] for entry in sorted(found))


@lru_cache(maxsize=1024)
def _rank(name: str, endings: tuple[str, ...]) -> int | None:
    if not name.endswith(endings):
        return None  # in one step, for a header may have a hundred thousand names
    return next((rank for rank, ending in enumerate(endings) if _ends(name, ending)), None)


def _ends(name: str, ending: str) -> bool:
    return name == ending or (ending not in LOOSE_HEADS and name.endswith(f".{ending}"))


def module_of(head: str) -> str:
    """Return the path of the module that a head is in, with a final dot; "" for one of the whole model."""
    ending = next(ending for ending in (*HEAD_ENDINGS, *LOOSE_HEADS) if _ends(head, ending))
    return head.removesuffix(ending)


def bias_names(head: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names among ``names`` that a head's bias can have, the best first.

    Args:
        head: Name of the head's tensor; "" for a head that is not stored.
        names: Tensor names.
    """
    there = frozenset(names)
    heads = (head,) if head else (*HEAD_ENDINGS, *LOOSE_HEADS)
    for one in heads:
        module = one.removesuffix(".weight")
        for ending in (module, module.removesuffix(".decoder")):
            if head:
                found = [f"{ending}.bias"] if f"{ending}.bias" in there else []
            else:
                found = sorted((name for name in there if _ends_bias(name, ending)), key=lambda name: name.count("."))
            yield from found


def _ends_bias(name: str, module: str) -> bool:
    bias = f"{module}.bias"
    return name == bias or (f"{module}.weight" not in LOOSE_HEADS and name.endswith(f".{bias}"))


def head_evidence(names: Iterable[str]) -> tuple[str, ...]:
    """Return the tensors that only a model with a head has, such as the bias of a head or the transform before it."""
    there = outside_layers(names)
    biases = tuple(f"{ending.removesuffix('.weight')}.bias" for ending in HEAD_ENDINGS)
    biases += tuple(name.replace(".decoder.bias", ".bias") for name in biases if ".decoder" in name)
    transforms = tuple(ending for ending, what in _CLASS_HEADS.items() if what.startswith("the transform"))
    ends = tuple(f".{ending}" for ending in (*biases, *transforms))
    return tuple(name for name in there if f".{name}".endswith(ends))


@lru_cache(maxsize=16)
def other_outputs(names: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first head that predicts something other than tokens, and what it is; ``None`` if there is none."""
    some = [name for name in names if _ANY_OUTPUT.search(name)]
    return next(
        ((name, what) for pattern, what in _OTHER_OUTPUTS.items() for name in some if re.search(pattern, name)), None
    )


def class_heads(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the tensors that resemble a head but are none, each with what it is."""
    return _class_heads(outside_layers(names))


# Models have the same names, as in ``outside_layers``.
@lru_cache(maxsize=16)
def _class_heads(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, what)
        for ending, what in _CLASS_HEADS.items()
        for name in names
        if name == ending or name.endswith(f".{ending}")
    )
