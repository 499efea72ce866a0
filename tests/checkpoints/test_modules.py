"""Modules of one's own: their tables by name, their tokens by a tokenizer or a list."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from torch import nn

import hfposemb as hpe
from hfposemb.errors import InputError, MissingTableError, SourceError

ROWS, LENGTH, WIDTH = 12, 9, 8
WORDS = [f"word{number}" for number in range(ROWS)]


class MinGPT(nn.Module):
    """Karpathy's minGPT of 2020: the positions are a parameter [1, n, d]."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_emb = nn.Embedding(ROWS, WIDTH)
        self.pos_emb = nn.Parameter(torch.randn(1, LENGTH, WIDTH))
        self.head = nn.Linear(WIDTH, ROWS, bias=False)


class NanoGPT(nn.Module):
    """NanoGPT: two nn.Embeddings in a ModuleDict, the head tied to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(ROWS, WIDTH), "wpe": nn.Embedding(LENGTH, WIDTH)})
        self.lm_head = nn.Linear(WIDTH, ROWS, bias=False)
        self.transformer.wte.weight = self.lm_head.weight


def sinusoids() -> torch.Tensor:
    place = torch.arange(LENGTH)[:, None]
    turn = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
    found = torch.zeros(LENGTH, WIDTH)
    found[:, 0::2], found[:, 1::2] = torch.sin(place * turn), torch.cos(place * turn)
    return found


class PositionalEncoding(nn.Module):
    """The tutorial of PyTorch: a buffer [n, 1, d]."""

    def __init__(self, *, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoids()[:, None], persistent=persistent)


class Tutorial(nn.Module):
    """The language model of the same tutorial."""

    def __init__(self, *, persistent: bool = True) -> None:
        super().__init__()
        self.pos_encoder = PositionalEncoding(persistent=persistent)
        self.encoder = nn.Embedding(ROWS, WIDTH)


class Attribute(nn.Module):
    """Positions that are a plain tensor, which no list of parameters or buffers has."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(ROWS, WIDTH))
        self.angles = torch.randn(LENGTH, WIDTH, dtype=torch.float64)


class Renamed(nn.Module):
    """Names that say nothing, in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ModuleList([nn.Embedding(LENGTH, WIDTH), nn.Embedding(ROWS, WIDTH)])
        self.b = nn.Linear(WIDTH, 3)
        self.to(torch.bfloat16)


class TwoSides(nn.Module):
    """An encoder and a decoder with positions of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, WIDTH)
        self.left, self.right = (nn.Parameter(torch.randn(1, LENGTH + more, WIDTH)) for more in (0, 1))


CASES: dict[str, tuple[Callable[[], nn.Module], dict[str, str], Callable[..., torch.Tensor], str]] = {
    "minGPT": (MinGPT, {"position": "pos_emb"}, lambda m: m.pos_emb[0], "learned"),
    "nanoGPT": (NanoGPT, {"position": "transformer.wpe"}, lambda m: m.transformer.wpe.weight, "learned"),
    "tutorial": (Tutorial, {"position": "pos_encoder.pe"}, lambda m: m.pos_encoder.pe[:, 0], "sinusoidal"),
    "tutorial, by module": (Tutorial, {"position": "pos_encoder"}, lambda m: m.pos_encoder.pe[:, 0], "sinusoidal"),
    "not persistent": (
        lambda: Tutorial(persistent=False),
        {"position": "pos_encoder.pe"},
        lambda m: m.pos_encoder.pe[:, 0],
        "sinusoidal",
    ),
    "attribute": (Attribute, {"token": "words", "position": "angles"}, lambda m: m.angles, "fixed"),
    "renamed": (Renamed, {"position": "a.0", "token": "a.1"}, lambda m: m.a[0].weight.float(), "learned"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_tables_of_ones_own_module(case: str) -> None:
    make, tables, positions, kind = CASES[case]
    module = make()
    found = hpe.extract(module, tokenizer=WORDS, tables=tables, name=case)
    assert (found.name, found.position.kind) == (case, kind)
    np.testing.assert_array_equal(found.position, positions(module).detach().numpy())
    assert found.token.shape == (ROWS, WIDTH)
    assert list(found.token.labels) == WORDS
    assert hpe.neighbours(found.token, "word3", k=2).labels


def test_two_sides_have_positions_of_their_own() -> None:
    module = TwoSides()
    found = hpe.extract(module, tables={"encoder.position": "left", "decoder.position": "right"})
    assert list(found.positions) == ["encoder", "decoder"]
    np.testing.assert_array_equal(found.positions["decoder"], module.right[0].detach().numpy())


def test_a_module_without_an_embedding_says_how_to_name_its_tables() -> None:
    module = Attribute()
    with pytest.raises(SourceError, match="name its tables"):
        hpe.extract(module)
    assert hpe.extract(module, tables={"position": "angles"}).position.table.dtype == np.float64


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"position": "pe"}, r"no parameter, buffer or module 'pe'; similar names: pos_encoder\.pe"),
        ({"position": "pos_encode"}, r"similar names: pos_encoder\.pe"),
        ({"position": "zzz"}, r"its tables are pos_encoder\.pe, encoder\.weight"),
        (
            {"positions": "pos_encoder.pe"},
            "unknown role 'positions' in tables; the roles are token, token_type, position",
        ),
        ({"position": 3}, "name of a tensor or module; got int"),
    ],
)
def test_a_name_that_no_tensor_has_is_answered_with_the_nearest(tables: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.extract(Tutorial(), tables=tables)


def test_what_is_no_table_is_refused_by_its_shape() -> None:
    module = nn.TransformerEncoderLayer(WIDTH, 2)
    with pytest.raises(InputError, match=r"norm1\.weight of .* has the shape \[8\]; a table needs \[rows, width\]"):
        hpe.extract(module, tables={"position": "norm1.weight"})
    with pytest.raises(InputError, match=r"norm1 of .* is a module with no tensor of shape"):
        hpe.extract(module, tables={"position": "norm1"})
    with pytest.raises(InputError, match=r"self_attn of .* is a module with several tables"):
        hpe.extract(module, tables={"position": "self_attn"})


def tokenizer() -> tokenizers.Tokenizer:
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: row for row, word in enumerate(WORDS)}, "word0"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return found


@pytest.mark.parametrize(
    "given",
    [
        tokenizer(),
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer()),
        WORDS,
        tuple(WORDS),
        {word: row for row, word in enumerate(WORDS)},
        dict(enumerate(WORDS)),
    ],
    ids=["tokenizers", "transformers", "list", "tuple", "token to number", "number to token"],
)
def test_whatever_names_tokens_names_the_rows(given: object) -> None:
    found = hpe.extract(NanoGPT(), tokenizer=given)
    assert list(found.token.labels) == WORDS
    again = pickle.loads(pickle.dumps(found))
    assert list(again.token.labels) == WORDS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (WORDS[:-1], "11 labels were given for 12 token vectors"),
        ([*WORDS[:-1], 3], "labels must be strings; got 3"),
        ({"a": 0, "b": 2}, "must number the rows from 0 to 1, each once; found 2 numbers from 0 to 2"),
        ({"a": "b"}, "must map strings to row numbers"),
        ("gpt2", "got str"),
    ],
)
def test_what_does_not_name_the_rows_is_refused(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.extract(NanoGPT(), tokenizer=given)


def test_names_are_for_checkpoints_and_modules() -> None:
    with pytest.raises(InputError, match="apply to checkpoints and torch modules, not to bert"):
        hpe.extract("sample:bert", name="mine")


def test_a_tokenizer_needs_tokens() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pe = nn.Parameter(torch.randn(LENGTH, WIDTH))

    with pytest.raises(MissingTableError, match="no token table"):
        hpe.extract(Positions(), tokenizer=WORDS, tables={"position": "pe"})
