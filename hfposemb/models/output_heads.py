"""Output heads: which tensor is one, and whether it is tied to a token table, from names and configuration alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checkpoints.gguf.config import HEAD as HEAD_IN_GGUF
from ..checkpoints.quantised.decoded import table_refusal
from ..checkpoints.stated_roles import stated_roles
from ..checkpoints.torch_module import LiveTensors
from ..errors import MissingTableError
from ..memory_maps import lent
from ..tables.output_head import OutputHead, Tying
from ..tables.table import EmbeddingTable, Labels
from .architectures.config_values import class_of
from .architectures.head_names import (
    bias_names,
    class_heads,
    head_candidates,
    head_evidence,
    is_headed,
    module_of,
    other_outputs,
)
from .architectures.table_names import WHOLE_TOKEN_NAMES, Candidate, outside_layers, tower_of
from .architectures.tied_types import is_tied, stated_tie, tie_rule, tie_words, ties_by_default
from .architectures.type_defaults import type_of_class
from .named_tables import HEAD, tensor_named
from .opened_model import Opened, can_reopen, itself, labels_of, table_in_tensor


@dataclass(frozen=True, eq=False)
class FoundHeads:
    """What was found of the heads of a source, without reading a tensor or a header.

    Attributes:
        makers: Makes each head, by key: ``head``, ``decoder.head``.
        ties: How each is tied, by key.
        absent: Why there is none; "" if there is one.
        note: Remark for the user about a head that should be there; "" if there is nothing to remark.
    """

    makers: Mapping[str, Callable[[], OutputHead]]
    ties: Mapping[str, Tying]
    absent: str = ""
    note: str = ""


def find_heads(opened: Opened, token: Mapping[str, Candidate], tables: Mapping[str, EmbeddingTable]) -> FoundHeads:
    """Find the heads of a source from tensor names and configuration.

    Args:
        opened: The opened source.
        token: The token tables by part, "" and ``decoder``.
        tables: All tables by role, made on first access.
    """
    if (named := opened.named.get(HEAD)) is not None:
        tensor = tensor_named(opened.tensors, named)
        own = Tying(False, "own tensor", f"{tensor} was named as the head", tensor, _token_of("head", token)[0])
        return FoundHeads({"head": partial(_head, opened, tables, "head", own)}, {"head": own})
    stored = opened.tensors.names()
    aliases = opened.aliases
    headed = _headed(opened)
    # Without any vocabulary, an output layer forecasts numbers or pictures.
    names = frozenset((*outside_layers(stored), *aliases) if token or opened.vocabularies else ())
    raw = "" in token and token[""].tensor in WHOLE_TOKEN_NAMES
    loose = raw or opened.in_gguf or (bool(headed) and bool(opened.vocabularies))
    found = _by_key(head_candidates(names, loose=loose), token)
    stated = stated_roles(opened.tensors)
    if reason := stated.absent.get("head"):
        return FoundHeads({}, {}, reason)
    if heads := stated.tables.get("head"):
        found = {"decoder.head" if "decoder" in token else "head": heads[0]}
    ties = {key: _stored_tie(opened, name, aliases, *_token_of(key, token)) for key, name in found.items()}
    main = "decoder.head" if "decoder" in token else "head"
    # A head of another part, such as CLVP's speech decoder, is the one that such a class has.
    elsewhere = other_outputs(stored)
    if main not in ties and elsewhere is None and not any("lm_head" in name for name in found.values()):
        tie = _absent_tie(opened, headed, *_token_of(main, token))
        ties = ties if tie is None else {main: tie, **ties}
    if not ties:
        reason, fault = _reason(opened, headed, bool(token), elsewhere)
        return FoundHeads({}, {}, reason, f"head: {reason}" if fault else "")
    return FoundHeads({key: partial(_head, opened, tables, key, tie) for key, tie in ties.items()}, ties)


def _by_key(candidates: tuple[str, ...], token: Mapping[str, Candidate]) -> dict[str, str]:
    """Return the best candidate of each part: the text's, and those of towers for other inputs."""
    found: dict[str, str] = {}
    main = tower_of(token[""].tensor) if "" in token else ""
    text = "decoder.head" if "decoder" in token else "head"
    for name in candidates:
        tower = tower_of(name)
        key = text if tower in ("", "text", "encoder", "decoder", main) else f"{tower}.head"
        if key != text or _is_beside(name, token):
            found.setdefault(key, name)
    return found


def _is_beside(head: str, token: Mapping[str, Candidate]) -> bool:
    """Return whether a head is in a module that holds a token table, not in another language model beside it."""
    return not token or any(one.tensor.startswith(module_of(head)) for one in token.values())


def _token_of(key: str, token: Mapping[str, Candidate]) -> tuple[str, str]:
    """Return role and tensor of the token table that a head belongs to; empty strings if there is none."""
    part = key.removesuffix("head").removesuffix(".")
    return (f"{part}.token".strip("."), token[part].tensor) if part in token else ("", "")


def _stated(opened: Opened, role: str, tensor: str = "") -> bool | None:
    return stated_tie(opened.config, tensor=tensor, decoder=role == "decoder.token")


def _headed(opened: Opened) -> str:
    """Return the class that was saved if it has an output head, or a tensor that only such a model has; else ""."""
    if isinstance(opened.tensors, LiveTensors):
        return ""  # its state names the head, tied or not
    if kind := class_of(opened.config)[:60]:
        return kind if is_headed(kind) else ""
    evidence = head_evidence(opened.tensors.names()) if opened.config else ()
    return f"a model with {evidence[0]}" if evidence else ""


def _stored_tie(opened: Opened, name: str, aliases: Mapping[str, str], role: str, token: str) -> Tying:
    """Return how a head that is stored as ``name`` is tied."""
    head, kept = aliases.get(name, name), aliases.get(token, token)
    if not role:
        return Tying(False, "no token table", f"{head} is stored, and there is no token table", head, "")
    live = isinstance(opened.tensors, LiveTensors) and opened.tensors.shares(name, token)
    if name != token and (live or head == kept):
        return Tying(True, "alias", f"{name} is another name of {token}", kept, role)
    if head == kept:
        return Tying(True, "same tensor", f"only {head} is stored, and the configuration ties it", head, role)
    both = f"{head} and {token} are stored separately"
    if isinstance(opened.tensors, LiveTensors):
        return Tying(False, "own tensor", f"{head} and {token} are different tensors of the live model", head, role)
    if tie_rule(opened.config) == "never":
        return Tying(False, "own tensor", f"{both}, and {tie_words(opened.config)}", head, role)
    said = None if opened.in_gguf else _stated(opened, role, name)
    named = opened.config and head in stated_roles(opened.tensors).tables.get("head", ())
    if said is None and named and ties_by_default(opened.config):
        return Tying(
            True, "configuration", f"{both}, but tie_word_embeddings is not stated, which means true", head, role
        )
    if said:
        return Tying(True, "configuration", f"{both}, but tie_word_embeddings is true", head, role)
    if opened.in_gguf or not opened.config:
        return Tying(False, "own tensor", both, head, role)
    about = f"{both}, and tie_word_embeddings is {'not stated' if said is None else 'false'}"
    return Tying(False, "own tensor", about, head, role)


def _absent_tie(opened: Opened, headed: str, role: str, token: str) -> Tying | None:
    """Return how a head that is not stored is tied; ``None`` if there is no head, or if it should be stored."""
    if not headed or not role:
        return None
    if opened.in_gguf and _stated(opened, role) is not False:
        return Tying(True, "absent", f"no {HEAD_IN_GGUF} is stored, so {token} is the head", token, role)
    decoder = role == "decoder.token"
    if not is_tied(opened.config, decoder=decoder):
        return None
    return Tying(True, "absent", f"no head is stored, and {tie_words(opened.config, decoder=decoder)}", token, role)


def _reason(opened: Opened, headed: str, tokens: bool, elsewhere: tuple[str, str] | None) -> tuple[str, bool]:
    """Return why there is no head, and whether the checkpoint should have one."""
    if elsewhere is not None:
        return f"it predicts no tokens: {elsewhere[0]} is {elsewhere[1]}", False
    if headed and tokens:
        said = "never ties it" if tie_rule(opened.config) == "never" else tie_words(opened.config)
        reason = (
            f"{headed} has one and {said}, but no tensor is named as one; the checkpoint is "
            "incomplete, or its head has a name that is not known"
        )
        return reason, True
    kind = class_of(opened.config)[:60]
    unstated = "no class in config.json has one" if opened.config else "there is no config.json"
    what = f"it is a {kind}" if kind else f"no tensor is named as one, and {unstated}"
    if others := class_heads(opened.tensors.names()):
        name, like = others[0]
        return f"{what}, and {name} is {like}", False
    if kind and not type_of_class(opened.config):
        return f"no tensor is named as one, and its class {kind} is not known to have one", False
    return f"{what}, which has none" if kind else what, False


# --- making a head ---------------------------------------------------------------------------------------------------


def _head(opened: Opened, tables: Mapping[str, EmbeddingTable], key: str, tie: Tying) -> OutputHead:
    """Return a head; its vectors are read later."""
    token = tables.get(tie.token)
    if token is not None and tie.how in ("absent", "alias", "same tensor"):
        base = token
    else:
        if reason := table_refusal(opened.tensors, tie.tensor):
            raise MissingTableError(f"{opened.name} has no readable {key}: {reason}", reason=reason)
        base = table_in_tensor(opened, "head", tie.tensor)
    same_rows = token is not None and token.shape[0] == base.shape[0]
    if token is not None and not same_rows and tie.how == "configuration":
        about = f"{base.provenance.tensor} and {token.provenance.tensor} have {len(base):,} and {len(token):,} rows"
        tie = replace(tie, tied=False, how="own tensor", about=about)
    named = partial(_labels_of, token) if token is not None and same_rows else partial(labels_of, opened, base.shape[0])
    bias = _bias_of(opened, tie)
    return OutputHead(
        f"{opened.name} {key.replace('.', ' ')}",
        base.shape,
        base.dtype,
        base.provenance,
        base.reader,
        named,
        tied=tie,
        token=token,
        bias_tensor=bias,
        read_bias=None if bias is None else _Bias(opened, bias),
    )


def _labels_of(table: EmbeddingTable) -> Labels:
    return table.labels


def _bias_of(opened: Opened, tie: Tying) -> str | None:
    """Return the tensor with the bias of a head; ``None`` if there is none."""
    stored = opened.tensors.names()
    if bias := stated_roles(opened.tensors).biases.get(tie.tensor):
        return bias
    own = tie.tensor if tie.how not in ("absent", "alias") else ""
    return next(bias_names(own, (*stored, *opened.tensors.metadata())), None)


@dataclass(frozen=True, eq=False)
class _Bias:
    """Reader of a bias, one number per token."""

    opened: Opened
    name: str

    def __call__(self) -> NDArray[Any]:
        return lent(np.ascontiguousarray(self.opened.tensors.read(self.name)).reshape(-1))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the bias if another process can read it there, otherwise its numbers."""
        if not can_reopen(self.opened.tensors):
            return partial, (itself, self())
        return _Bias, (self.opened, self.name)
