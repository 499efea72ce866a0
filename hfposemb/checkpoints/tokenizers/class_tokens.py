"""Special tokens that the classes of tokenizers define, which follow a vocabulary that lacks them.

The tokens are those of the classes of transformers 5.24 that read vocab.txt or vocab.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .declared import Declared, tokenizer_class

FAIRSEQ: Mapping[str, str] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
_BERT: Mapping[str, str] = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_TEXT_END: Mapping[str, str] = {"eos_token": "<|endoftext|>"}
_SPOKEN: Mapping[str, str] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

LIKE_BERT = (
    *("Bert", "ConvBert", "DPRContextEncoder", "DPRQuestionEncoder", "DistilBert", "Electra", "LayoutLM", "Lxmert"),
    *("MobileBert", "SqueezeBert"),
)
"""Classes that have BERT's special tokens and tokenise as it does."""

_WORDPIECE = (*LIKE_BERT, "DPRReader", "LayoutLMv2", "RoFormer")

_OF_CLASSES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys((*_WORDPIECE, "BertJapanese"), _BERT),
    **dict.fromkeys(("Bart", "Blenderbot", "LED", "LayoutLMv3", "Longformer", "Mvp", "Roberta"), FAIRSEQ),
    **dict.fromkeys(("CodeGen", "GPT2", "Qwen2", "Whisper"), _TEXT_END),
    "MPNet": {**FAIRSEQ, "unk_token": "[UNK]"},
    "Funnel": {**FAIRSEQ, "sep_token": "<sep>", "cls_token": "<cls>"},
    "Herbert": {role: token for role, token in FAIRSEQ.items() if role not in ("bos_token", "eos_token")},
    "Deberta": {"bos_token": "[CLS]", "eos_token": "[SEP]", **_BERT},
    "Splinter": {**_BERT, "question_token": "[QUESTION]"},
    "Tapas": {**_BERT, "empty_token": "[EMPTY]"},
    "CLIP": {"bos_token": "<|startoftext|>", **_TEXT_END},
    "GPTNeoX": {**_TEXT_END, "pad_token": "<|padding|>"},
    "OpenAIGPT": {"unk_token": "<unk>"},
    "CTRL": {"unk_token": "<unk>"},
    "Esm": {
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
        "cls_token": "<cls>",
    },
    "Vits": {"unk_token": "<unk>", "pad_token": "<pad>"},
    "Wav2Vec2CTC": {**_SPOKEN, "word_delimiter_token": "|"},
    "Wav2Vec2PhonemeCTC": _SPOKEN,
    "BlenderbotSmall": {
        **{"bos_token": "__start__", "eos_token": "__end__", "unk_token": "__unk__", "pad_token": "__null__"}
    },
}
"""Special tokens by role, of the classes without ``Tokenizer`` at the end of their names."""

_OF_TYPES: Mapping[str, str] = {
    **{name.lower(): f"{name}Tokenizer" for name in _OF_CLASSES},
    **{"blenderbot-small": "BlenderbotSmallTokenizer", "openai-gpt": "OpenAIGPTTokenizer"},
    **{"gpt_neox": "GPTNeoXTokenizer", "gpt_bigcode": "GPT2Tokenizer", "gpt_neo": "GPT2Tokenizer"},
    **{"opt": "GPT2Tokenizer", "wav2vec2": "Wav2Vec2CTCTokenizer", "hubert": "Wav2Vec2CTCTokenizer"},
}
"""Classes by model type, for folders that state none."""

_KEEP_IDS = frozenset(
    (
        *("BertGeneration", "BertJapanese", "BlenderbotSmall", "CTRL", "ChatGLM", "Cpm", "Esm", "GPTSw3", "PLBart"),
        *("Siglip", "SpeechT5", "Tapas", "Vits", "Wav2Vec2CTC", "Wav2Vec2PhonemeCTC"),
    )
)
"""Classes written in Python, whose added tokens have the ids that their file states."""


_LINES = frozenset((*_WORDPIECE, "BertJapanese", "Esm", "Funnel", "MPNet", "Splinter", "Tapas"))
"""Classes that read vocab.txt; all others read vocab.json."""


def class_tokens(folder: Path, declared: Declared, file: str) -> tuple[Mapping[str, str], bool]:
    """Return the special tokens by role of the class that reads a bare vocabulary, and whether it numbers added tokens.

    Args:
        folder: Folder of the tokenizer's files.
        declared: What they declare.
        file: The vocabulary's file; for one that the class does not read, there are none.
    """
    name = tokenizer_class(folder, declared, _OF_TYPES).removesuffix("Tokenizer")
    if (file == "vocab.txt") != (name in _LINES):
        return {}, False
    tokens = _OF_CLASSES.get(name, {})
    # A null says that there is none.
    kept = {role: token for role, token in tokens.items() if declared.settings.get(role, token) is not None}
    return kept, name in _OF_CLASSES and numbers_anew(name)


def numbers_anew(name: str) -> bool:
    """Return whether a class numbers added tokens itself, as the tokenizers library does, whatever a file states.

    Args:
        name: The name of a known class.
    """
    return name.removesuffix("Tokenizer") not in _KEEP_IDS
