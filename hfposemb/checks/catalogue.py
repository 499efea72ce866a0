"""Every finding that a check can have: its usual severity, what it means, why it matters and what corrects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..text import display
from .findings import Finding, Number, Severity


@dataclass(frozen=True)
class Rule:
    """What a finding means.

    Attributes:
        severity: Its usual severity.
        about: What it says, for the list of findings.
        why: Why it matters, in one sentence.
        fix: The line that corrects it; ``{name}`` stands for a value of the finding.
        file: File that it is about.
    """

    severity: Severity
    about: str
    why: str
    fix: str
    file: str = "config.json"


WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer_config.json"

_FILES: Mapping[str, Rule] = {
    "missing-shard": Rule(
        "wrong",
        "the index names a file that is not there",
        "Loading stops, or leaves the tensors of that file at random values.",
        "hf download {source} {missing} --local-dir .",
        f"{WEIGHTS}.index.json",
    ),
    "index-mismatch": Rule(
        "wrong",
        "the index and the headers of the shards list different tensors",
        "A tensor that the index does not list, or lists in the wrong file, is not loaded.",
        "model.save_pretrained(folder)  # writes shards and index anew",
        f"{WEIGHTS}.index.json",
    ),
    "table-missing": Rule(
        "wrong",
        "a table of tokens, positions or token types that every model of the type has is not stored",
        "The table starts from random values, so the model writes noise.",
        "model.save_pretrained(folder)  # with all of its weights",
        WEIGHTS,
    ),
    "layers-missing": Rule(
        "wrong",
        "fewer layers are stored than the configuration states",
        "Layers without stored weights start from random values.",
        '"{field}": {stored},',
    ),
    "layers-unexplained": Rule(
        "suspicious",
        "more layers are stored than the configuration states",
        "The additional layers are ignored when the model is loaded.",
        '"{field}": {stored},',
    ),
    "wrapped-names": Rule(
        "suspicious",
        "tensor names begin with the name of a wrapper, such as module. or _orig_mod.",
        "transformers looks for the names without the prefix, finds none, and starts from random values.",
        "state = {{name.removeprefix('{prefix}'): tensor for name, tensor in state.items()}}",
        WEIGHTS,
    ),
    "foreign-tensors": Rule(
        "note",
        "tensors that nothing in the configuration explains, such as an optimizer's state",
        "They take space and are ignored when the model is loaded.",
        "model.save_pretrained(folder)  # keeps the model's own tensors only",
        WEIGHTS,
    ),
    "mixed-dtypes": Rule(
        "note",
        "tables and weights are stored in different precisions",
        "A model loaded in one dtype rounds the tensors of the other.",
        "model.to(torch.{dtype}).save_pretrained(folder)",
        WEIGHTS,
    ),
    "dtype-differs": Rule(
        "note",
        "the configuration states another dtype than that of the token table",
        'With dtype="auto", transformers converts the weights while it loads them.',
        '"dtype": "{stored}",',
    ),
    "width": Rule(
        "wrong",
        "the vectors of the token table have another width than the configuration states",
        "Loading stops because the shapes differ.",
        '"hidden_size": {width},',
    ),
}
_VOCABULARY: Mapping[str, Rule] = {
    "vocabulary-size": Rule(
        "wrong",
        "the token table has another number of rows than the configuration states",
        "Loading stops because the shapes differ, or the table is replaced by random values.",
        '"vocab_size": {rows},',
    ),
    "token-beyond-table": Rule(
        "wrong",
        "the tokenizer has ids for which the token table has no row",
        "A text with one of these tokens ends in an index error, on a GPU in a failed assertion.",
        "model.resize_token_embeddings({needed}, pad_to_multiple_of=64)",
        TOKENIZER,
    ),
    "padded-rows": Rule(
        "note",
        "the table has rows that no token uses, up to a multiple that hardware prefers",
        "len(tokenizer) is not the number of rows: resizing the table to it cuts these rows off.",
        "model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of={multiple})",
        WEIGHTS,
    ),
    "surplus-rows": Rule(
        "suspicious",
        "the table has many rows more than the tokenizer has tokens",
        "The tokenizer was perhaps cut, or belongs to another model.",
        "tokenizer = AutoTokenizer.from_pretrained(base_model)  # and save it next to the weights",
        TOKENIZER,
    ),
    "missing-ids": Rule(
        "suspicious",
        "ids inside the vocabulary belong to no token",
        "Ids without a token cannot be decoded, and usually mean that the vocabulary was cut.",
        "tokenizer = AutoTokenizer.from_pretrained(base_model)  # and save it next to the weights",
        "tokenizer.json",
    ),
    "two-tokens-one-id": Rule(
        "wrong",
        "two files of the tokenizer give one id to different tokens",
        "Which of the two tokens a text contains depends on the file that a program reads.",
        "tokenizer.save_pretrained(folder)  # writes all files from one vocabulary",
        TOKENIZER,
    ),
    "special-id": Rule(
        "wrong",
        "an id of a special token in the configuration has no row in the token table",
        "Generation never stops at it, and looking it up ends in an index error.",
        '"{field}": {expected},',
    ),
    "special-ids-differ": Rule(
        "suspicious",
        "configuration and tokenizer name different tokens for the same purpose",
        "Programs that read one file stop or pad at other tokens than programs that read the other.",
        '"{field}": {expected},',
    ),
    "padding-id": Rule(
        "wrong",
        "the padding id has no row in the token table",
        "torch refuses to make a table whose padding index it does not have.",
        '"pad_token_id": {expected},',
    ),
    "padding-ends-text": Rule(
        "note",
        "the padding token is also the token that ends a text",
        "Training that masks the padding masks the end of the text too, and the model never learns to stop.",
        "tokenizer.add_special_tokens({{'pad_token': '<pad>'}})",
        TOKENIZER,
    ),
    "template-token": Rule(
        "suspicious",
        "the chat template writes a token that the vocabulary does not have",
        "It is cut into pieces, so the model sees text where it was trained on a single token.",
        "tokenizer.add_special_tokens({{'additional_special_tokens': ['{token}']}})",
        TOKENIZER,
    ),
    "tokenizer-unreadable": Rule(
        "suspicious",
        "a file of the tokenizer violates its format",
        "Labels and ids cannot be checked, and other programs may fail to read the file as well.",
        "tokenizer.save_pretrained(folder)",
        "tokenizer.json",
    ),
    "longest-text": Rule(
        "suspicious",
        "the tokenizer allows longer texts than the table of positions",
        "A text of that length ends in an index error, since there is no row for its last positions.",
        '"model_max_length": {positions},',
        TOKENIZER,
    ),
}
_ROWS: Mapping[str, Rule] = {
    "not-finite": Rule(
        "wrong",
        "rows of a table hold NaN or infinite numbers",
        "Every text with such a row gives NaN in all layers.",
        "model.get_input_embeddings().weight.data[{row}] = model.get_input_embeddings().weight.data.nanmean(0)",
        WEIGHTS,
    ),
    "reserved-row-in-use": Rule(
        "wrong",
        "a token that the chat template or the configuration uses has a row of zeros or an untrained one",
        "The model cannot tell what the token means, because its vector was never trained.",
        "model.get_input_embeddings().weight.data[{row}] = model.get_input_embeddings().weight.data[:{row}].mean(0)",
        WEIGHTS,
    ),
    "zero-rows": Rule(
        "suspicious",
        "rows of the token table other than the padding row are zero",
        "Such tokens contribute nothing, and a norm of zero divides by zero in cosines.",
        "model.get_input_embeddings().weight.data[{row}] = model.get_input_embeddings().weight.data.mean(0)",
        WEIGHTS,
    ),
    "rows-zero": Rule(
        "suspicious",
        "rows of an output head, of token types or of another part's table are zero",
        "A token whose row of the head is zero has the same logit after every text; other zero rows add nothing.",
        "train the rows, or copy them from the model that this one was made from",
        WEIGHTS,
    ),
    "padding-row-zero": Rule(
        "note",
        "the padding row is zero",
        "That is how torch starts a padding row; it is left out of means and norms.",
        "nothing to do",
        WEIGHTS,
    ),
    "equal-rows": Rule(
        "suspicious",
        "tokens that are in use have the same vector",
        "The model cannot distinguish these tokens in its input.",
        "model.get_input_embeddings().weight.data[{row}] += 0.01 * torch.randn(width)  # then train",
        WEIGHTS,
    ),
    "unused-rows-equal": Rule(
        "note",
        "reserved or unused rows have the same vector",
        "They were never trained, and stay indistinguishable until they are.",
        "hfposemb odd {source}  # lists them",
        WEIGHTS,
    ),
    "one-table": Rule(
        "wrong",
        "all rows that were read are equal",
        "The table was never filled, so the model sees the same input whatever the text.",
        "model.save_pretrained(folder)  # from the model as it was trained",
        WEIGHTS,
    ),
}
_HEAD: Mapping[str, Rule] = {
    "head-differs": Rule(
        "wrong",
        "the configuration ties the output head to the token table, but a different head is stored",
        "Some versions of transformers use the stored head, others replace it by the token table.",
        '"tie_word_embeddings": false,',
    ),
    "head-missing": Rule(
        "wrong",
        "the configuration does not tie the output head, and no head is stored",
        "The head starts from random values, so the model writes noise.",
        '"tie_word_embeddings": true,',
    ),
    "head-stored-twice": Rule(
        "note",
        "the configuration ties the output head, and an equal copy is stored",
        "The copy takes space, and programs that look for a stored head take the model for an untied one.",
        "model.save_pretrained(folder)  # leaves the tied copy out",
        WEIGHTS,
    ),
    "head-equal-untied": Rule(
        "suspicious",
        "the configuration does not tie the output head, but the head is equal to the token table",
        "Trained apart they would differ: one of them was perhaps overwritten by the other.",
        '"tie_word_embeddings": true,',
    ),
    "head-shape": Rule(
        "wrong",
        "output head and token table are tied but have different shapes",
        "Tying them cuts rows off or stops loading.",
        "model.resize_token_embeddings({rows})",
        WEIGHTS,
    ),
    "copies-differ": Rule(
        "wrong",
        "tensors that the architecture shares are stored with different values",
        "Which of them is used depends on the program and the order of loading.",
        "state['{copy}'] = state['{kept}']",
        WEIGHTS,
    ),
    "tie-stated-twice": Rule(
        "suspicious",
        "the configuration and its text part disagree about tying the output head",
        "transformers 5 reads the outer value, other programs read the inner one.",
        '"tie_word_embeddings": {stored},',
    ),
}
_POSITIONS: Mapping[str, Rule] = {
    "position-rows": Rule(
        "wrong",
        "the table of positions has another number of rows than the configuration states",
        "Loading stops because the shapes differ.",
        '"max_position_embeddings": {rows},',
    ),
    "positions-shifted": Rule(
        "wrong",
        "the stored sinusoids belong to other positions than their rows",
        "Every token is read at a wrong position.",
        "table.data = sinusoids(0, len(table))  # row k holds the sinusoid of position k",
        WEIGHTS,
    ),
    "positions-repeated": Rule(
        "suspicious",
        "rows of the table of positions are equal",
        "Equal rows are one position to the model, as after extending a table by copying it without training.",
        "train the model on texts that reach position {first} and later ones",
        WEIGHTS,
    ),
    "positions-zero": Rule(
        "suspicious",
        "rows of the table of positions are zero",
        "Positions without a vector were never trained.",
        "train the model on texts that reach position {first} and later ones",
        WEIGHTS,
    ),
    "rope-unknown-type": Rule(
        "wrong",
        "the scaling of rotary positions is of a type that transformers does not know",
        "Programs stop at it or ignore it; ignored, long texts are read with wrong angles.",
        '"rope_type": "yarn",',
    ),
    "rope-parameter": Rule(
        "wrong",
        "the scaling of rotary positions lacks a parameter or has an impossible one",
        "The angles cannot be computed.",
        '"rope_scaling": {{"rope_type": "{rope_type}", …}},  # with all parameters of the type',
    ),
    "rope-counted-twice": Rule(
        "suspicious",
        "the scaling factor is perhaps applied to a length that already includes it",
        "Programs that multiply the two read short texts with angles that are too small by the factor.",
        '"original_max_position_embeddings": {original},',
    ),
    "rope-no-effect": Rule(
        "suspicious",
        "the scaling of rotary positions changes no frequency",
        "The context is not extended, whatever the configuration says.",
        '"rope_scaling": null,',
    ),
    "rope-stored-differs": Rule(
        "wrong",
        "frequencies stored with the weights differ from those of the configuration",
        "The model was trained with the stored ones, but is run with those of the configuration.",
        '"rope_theta": {theta},',
    ),
    "rope-stated-twice": Rule(
        "suspicious",
        "the configuration states rotary parameters twice, with different values",
        "Old and new versions of transformers read different values.",
        '"rope_theta": {theta},  # and the same value in rope_parameters',
    ),
    "rope-base": Rule(
        "note",
        "the base of rotary positions fails the bound of Men et al. (2024) for the stated length",
        "Where the sum is negative, distant similar words score lower than random ones, so far retrieval suffers.",
        "hfposemb rope {source}  # shows the bound for each length",
    ),
    "rope-engines-differ": Rule(
        "note",
        "inference engines are known to read the rotary parameters differently in their present versions",
        "The model answers differently from engine to engine, and training in one does not fit serving in another.",
        "hfposemb rope {source} --engines  # shows numbers, dates and threads",
    ),
}
RULES: Mapping[str, Rule] = {**_FILES, **_VOCABULARY, **_ROWS, **_HEAD, **_POSITIONS}
"""Every finding by its name."""

SUBJECTS: Mapping[str, Mapping[str, Rule]] = {
    "Files, shapes and dtypes": _FILES,
    "Vocabulary": _VOCABULARY,
    "Rows": _ROWS,
    "Output head": _HEAD,
    "Positions": _POSITIONS,
}
"""The findings by subject."""


def finding(
    name: str,
    message: str,
    *,
    severity: Severity | None = None,
    file: str | None = None,
    fix: Mapping[str, object] | None = None,
    **numbers: Number,
) -> Finding:
    """Return a finding with the texts of its rule.

    Args:
        name: Name of the rule.
        message: What was found, on one line; it passes through ``text.display``.
        severity: Its severity if it is not the usual one.
        file: File that it is about if it is not the usual one.
        fix: Further values of the rule's line, besides ``numbers``.
        numbers: The numbers that the message states.
    """
    rule = RULES[name]
    values: dict[str, Any] = {
        key: display(one, width=80) if isinstance(one, str) else one for key, one in {**numbers, **(fix or {})}.items()
    }
    return Finding(
        name,
        severity or rule.severity,
        display(message, width=400),
        dict(numbers),
        rule.why,
        rule.fix.format(**values),
        file or rule.file,
    )
