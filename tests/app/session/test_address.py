"""The address: what it holds, and what is made of any query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio.components.base import FormComponent
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from app.findings import chosen_word
from app.findings.tokens import token_search
from app.session import address

WORD = "Word, part of a word, or id"


# --- every control ---

SAID_BY_OTHERS = {
    "Models to compare (up to 8)": "the sources are in the address as models",
    "Marked position": "a slider tells the position once it is let go",
    "Range": "a state is kept as range, which the field follows",
    "Part": "a state is kept as part or stack, which the field follows",
    "Source": "a state is kept as words-of, map or run, which the field follows",
    "Model": "a state is kept as sentence-of, which the field follows",
    "Table": "a state is kept as table in Tokens, which the field follows",
    "Projection": "a state is kept as layout in Tokens, which the field follows",
    WORD: "the word is kept, and what is searched",
    "Regex": "kept with what is searched",
    "Metric": "a state is kept as by, which the field follows",
    "What do you expect?": "whoever opens a lesson guesses anew",
    "Pair": "a state is kept as pair, which the field follows",
}


def test_every_control_is_kept_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(address, "bind", lambda session, bar, keys, late: kept.extend(session.controls))
    with gr.Blocks() as blocks:
        app.panel(sources=("sample:bert", "sinusoidal:42x16"), address=True)
    names = [one.name for one in kept]
    assert len(set(names)) == len(names)
    fields = [block for block in blocks.blocks.values() if isinstance(block, FormComponent)]
    named = {id(one.component) for one in kept}
    unkept = {str(block.label) for block in fields if id(block) not in named}
    assert unkept == set(SAID_BY_OTHERS), "keep it with session.keep, or say here why not"
    assert len(fields) > 25


def test_a_link_with_a_control_of_a_fold_opens_the_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that are older than the folds lead to what is in them."""
    opens: dict[str, str] = {}
    monkeypatch.setattr(address, "bind", lambda session, bar, keys, late: opens.update(session.opens))
    with gr.Blocks():
        app.panel(sources=("sample:bert",), address=True)
    found = address.unfolding({"head": ["1"], "text": ["a king"]}, opens)
    assert found == {"head": ["1"], "text": ["a king"], "logits": ["unfolded"]}
    assert address.unfolding({"anchors": ["bread"]}, opens)["remains"] == ["unfolded"]
    assert address.unfolding({"text": ["a king"]}, opens) == {"text": ["a king"]}


# --- what is read and written -----------------------------------------------------------------------------------------


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_query_is_read_or_passed_over(query: str) -> None:
    for name, values in address.read(query).items():
        assert isinstance(name, str)
        assert all(isinstance(value, str) for value in values)


def test_a_long_query_is_passed_over() -> None:
    assert address.read("?tab=" + "x" * address.LONGEST_ADDRESS) == {}
    assert address.read("&".join(f"a{i}=1" for i in range(100))) == {}


@given(st.dictionaries(st.sampled_from(["word", "method"]), st.text(min_size=1, max_size=20)), st.text(max_size=9))
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_again(values: dict[str, str], model: str) -> None:
    models = [model] if model else []
    found = address.read(address.written(values, models, "tokens"))
    expected = {address.TAB: ["tokens"], **{name: [value] for name, value in values.items()}}
    assert found == expected | ({address.MODELS: models} if models else {})


@pytest.mark.parametrize("text", ["", "[1]", '{"a": -1}', '{"a": true}', '{"a": "x"}', "[" * 9000, "{" + "x" * 9000])
def test_what_is_no_number_for_each_source_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".{0,40}"):
        address.numbers_by_source(text)


def test_numbers_by_source_are_read_again() -> None:
    assert address.numbers_by_source('{"sample:bert": 3}') == {"sample:bert": 3}


@pytest.mark.parametrize("sought", [["king", False], ["^a:b", True]])
def test_a_search_is_written_and_read(sought: list[Any]) -> None:
    assert token_search.read_search(token_search.write_sought(sought)) == sought


@pytest.mark.parametrize("text", ["", "king", "regex:", "text:", "other:x", "regex:" + "x" * 999])
def test_what_is_no_search_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".{0,40}"):
        token_search.read_search(text)


@pytest.mark.parametrize("text", ["-1", "1e9", "nan", "inf", "x", "", "9" * 30, "٣"])
def test_numbers_out_of_range_are_none(text: str) -> None:
    read = address.number_up_to(100)
    with pytest.raises(ValueError, match=r"^(could not convert .*|.{0,40})$"):
        read(text)


@pytest.mark.parametrize("state", [["king", "", -1], [" king", "sample:gpt2", 12], ["a|b", "", -1], ["|", "x|y", 3]])
def test_a_word_is_written_and_read(state: list[object]) -> None:
    word = chosen_word.Word(*state)  # type: ignore[arg-type]
    assert chosen_word.read_word(chosen_word.write_word(word)) in (word, chosen_word.Word("||3|x|y"))


def test_sources_of_a_link_are_repeated_or_separated_by_commas(tmp_path: Path) -> None:
    (folder := tmp_path / "a,b").mkdir()
    assert list(address.sources_of(["x/a,y/b", "x/a", " "], public=True)) == ["x/a", "y/b"]
    assert list(address.sources_of([str(folder), "x/a,y/b"], public=False)) == [str(folder), "x/a", "y/b"]
    assert list(address.sources_of([str(folder)], public=True)) == [str(tmp_path / "a"), "b"]
    for odd in ("\0,a", "~nobody-here/,a", "a" * 300 + ",a"):
        assert list(address.sources_of([odd], public=False))[-1] == "a"
