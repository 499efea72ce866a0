"""Token table against output head: figures with known truth, their nulls, and what is refused."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.tokens.first_direction import along, first_direction
from hfposemb.cli.main import main
from hfposemb.comparison.alignment import cka
from hfposemb.comparison.head_sample import head_sample
from hfposemb.comparison.token_against_head import compare_head
from tests.support.made_tables import noise

ROWS, WIDTH = 400, 16
NAMES = ("CKA", "Procrustes fit", "norms", "first directions, scores", "first directions, cosine", "distance")


def made(seed: int, share: float) -> hpe.Embeddings:
    """Return a model whose head shares a part of its token table, rotated, and its lengths."""
    rng = np.random.default_rng(seed)
    token = rng.standard_normal((ROWS, WIDTH)) * rng.uniform(0.5, 2, (ROWS, 1))
    turn = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    own = rng.standard_normal((ROWS, WIDTH)) * rng.uniform(0.5, 2, (ROWS, 1))
    return hpe.from_arrays(token=token, head=share * token @ turn + (1 - share) * own)


def test_figures_are_exact_for_a_rotated_copy() -> None:
    found = compare_head(made(0, 1.0), count=3)
    assert found["CKA"].observed == pytest.approx(1)
    assert found["Procrustes fit"].observed == pytest.approx(1)
    assert found["norms"].observed == pytest.approx(1)
    assert found["first directions, scores"].observed == pytest.approx(1)
    assert found["distance"].observed == pytest.approx(0, abs=1e-3)
    assert all(found[name].beyond for name in NAMES if name != "first directions, cosine")
    assert [one.name for one in found.measures] == list(NAMES)


def test_independent_tables_are_beyond_chance_as_rarely_as_the_level_says() -> None:
    found = [compare_head(made(seed, 0.0), count=1) for seed in range(25)]
    for name in NAMES[:-1]:
        # Of 25 tests at the level .05, at most 5 are beyond chance in 998 of 1,000 cases.
        assert sum(one[name].beyond for one in found) <= 5, name


def test_token_that_changed_most_is_found() -> None:
    source = made(1, 0.9)
    head = np.array(source.head.vectors)
    head[37] *= -1
    labels = [f"t{row}" for row in range(ROWS)]
    found = compare_head(hpe.from_arrays(token=source.token.vectors, head=head, labels=labels), count=2)
    assert found.most[0].label == "t37"
    assert found.most[0].distance > 1 > found.most[1].distance


def test_rows_without_a_direction_are_left_out_and_counted() -> None:
    source = made(2, 0.5)
    head = np.array(source.head.vectors)
    head[5] = 0
    found = compare_head(hpe.from_arrays(token=source.token.vectors, head=head), count=1)
    assert found.rows == ROWS - 1
    assert any(note.startswith("1 rows are left out") for note in found.notes)


def test_tied_models_are_refused() -> None:
    """Whatever the configuration says."""
    token = made(3, 0.5).token.vectors
    head = np.where(np.arange(ROWS)[:, None] < 9, 1, np.zeros_like(token))
    equal, few = (hpe.from_arrays(token=token, head=one) for one in (token, head))
    for call, source, said in (
        (compare_head, hpe.extract("sample:gpt2"), r"the head is the token table .* give an untied model"),
        (compare_head, equal, "were read and are equal"),
        (partial(compare_head, draws=5), made(3, 0.5), "draws must be at least 19"),
        (head_sample, equal, "tied: head and token table are equal in all 400 rows"),
        (head_sample, few, "has 9 of 400 tokens with vectors in token table and head"),
    ):
        with pytest.raises(hpe.HfposembError, match=said):
            call(source)  # type: ignore[operator]


def test_text_lists_every_figure_beside_its_null() -> None:
    found = compare_head(made(4, 0.5), count=1)
    lines = str(found).split("\n")
    assert all(any(line.startswith(f"  {name}") and "chance" in line for line in lines) for name in NAMES)
    with pytest.raises(hpe.HfposembError, match="there is no figure 'RSA'"):
        _ = found["RSA"]


def test_first_direction_is_that_of_largest_variance() -> None:
    rng = np.random.default_rng(0)
    for width in (8, 80):
        axis = np.linalg.qr(rng.standard_normal((width, width)))[0][0]
        token = rng.standard_normal((300, width)) + 10 * rng.standard_normal((300, 1)) * axis
        table = hpe.from_arrays(token=token).token
        found = first_direction(table)
        assert abs(found @ axis) > 0.99
        assert np.allclose(along(table, found), token @ found)


def test_commands_know_heads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "sample:gpt2"]) == 0
    assert "tied: no head is stored, and tie_word_embeddings is true" in capsys.readouterr().out
    assert main(["info", "--json", "sample:bert"]) == 0
    facts = json.loads(capsys.readouterr().out)["heads"]["head"]
    assert (facts["tied"], facts["how"], facts["bias"]) == (True, "absent", "cls.predictions.bias")
    assert main(["info", "sample:minilm"]) == 0
    assert "no output head: it is a BertModel, which has none" in capsys.readouterr().out
    assert main(["neighbours", "sample:gpt2", "king", "--table", "head"]) == 0
    assert main(["neighbours", "sample:minilm", "king", "--table", "head"]) == 1
    assert main(["head", "sample:gpt2"]) == 1
    assert "give an untied model" in capsys.readouterr().err


def test_sampled_figures_are_those_of_the_whole_comparison() -> None:
    """Of more rows than a sample has."""
    token, own = noise(6000, 24), noise(6000, 24, 1)
    source = hpe.from_arrays(token=token, head=(token + own) / 2)
    sample, whole = head_sample(source), compare_head(source, count=1, draws=19)
    assert len(sample.head) == 2000
    assert sample.figure("CKA") == pytest.approx(whole["CKA"].observed, abs=1e-6)
    assert sample.figure("CKA") == pytest.approx(cka(source.token.vectors, source.head.vectors), abs=0.02)
    assert sample.figure("norms") == pytest.approx(whole["norms"].observed, abs=0.05)


def test_permuted_figures_are_those_of_permuted_rows() -> None:
    source = made(5, 0.6)
    sample, order = head_sample(source), np.random.default_rng(0).permutation(ROWS)
    other = head_sample(hpe.from_arrays(token=source.token.vectors, head=source.head.vectors[order]))
    for name in ("CKA", "norms", "first directions"):
        assert sample.figure(name, order) == pytest.approx(other.figure(name), abs=1e-6)  # type: ignore[arg-type]


def test_figures_of_tables_with_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    token = rng.standard_normal((60, 200)) + 9 * rng.standard_normal((60, 1)) * rng.standard_normal(200)
    turn = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    sample = head_sample(hpe.from_arrays(token=token, head=token @ turn))
    assert sample.figure("CKA") == pytest.approx(1)
    assert sample.figure("first directions") == pytest.approx(1)


def test_comparisons_give_figures_of_heads_and_say_what_is_tied() -> None:
    found = hpe.compare(made(6, 0.7), "sample:gpt2", "sample:minilm", pairs=False, words=[], draws=39)
    own, tied, none = found.sources
    assert (own.head, tied.head, none.head) == (f"{ROWS} × {WIDTH}", "tied", "")
    figure = own.metrics["head and tokens, CKA"]
    assert (figure.null.kind, figure.null.beyond) == ("permutation", True)
    assert tied.metrics["head and tokens, CKA"].note.startswith("tied: no head is stored")
    assert "Output heads\n" in str(found)
    assert "Output heads\n" not in str(hpe.compare("sample:gpt2", pairs=False, words=[], draws=0))
