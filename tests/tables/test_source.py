"""Names of sources: what each spelling means, and that nothing else is taken."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfposemb.errors import SourceError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, LocalSource, SampleSource


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("gpt2", HubSource("gpt2")),
        ("openai-community/gpt2", HubSource("openai-community/gpt2")),
        ("EleutherAI/pythia-70m@step1000", HubSource("EleutherAI/pythia-70m", "step1000")),
        ("a/b@refs/pr/3", HubSource("a/b", "refs/pr/3")),
        ("a/b/text_encoder", HubSource("a/b", None, "text_encoder")),
        ("a/b/onnx/model_q4.onnx@v1.0", HubSource("a/b", "v1.0", "onnx/model_q4.onnx")),
        ("a/b@refs/pr/3?token=emb.weight", HubSource("a/b", "refs/pr/3", "", {"token": "emb.weight"})),
        ("./d?token=x&position=y.z", LocalSource(PurePath("d"), {"token": "x", "position": "y.z"})),
        ("./what?", LocalSource(PurePath("what?"))),
        ("./gpt2", LocalSource(PurePath("gpt2"))),
        ("../x/y.safetensors", LocalSource(PurePath("../x/y.safetensors"))),
        ("/srv/model", LocalSource(PurePath("/srv/model"))),
        ("~/model", LocalSource(PurePath("~/model"), in_home=True)),
        ("./~/model", LocalSource(PurePath("~/model"))),
        (".", LocalSource(PurePath("."))),
        ("sinusoidal:1024x768", BuiltinSource("sinusoidal", 1024, 768)),
        ("random:8x4?std=0.1&seed=3", BuiltinSource("random", 8, 4, {"std": "0.1", "seed": "3"})),
        ("sample:bert", SampleSource("bert")),
        ("sample:gpt2@step-1500", SampleSource("gpt2", 1500)),
        ("  gpt2 \n", HubSource("gpt2")),
    ],
)
def test_spellings(text: str, source: object) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a/b/../c", "a b", "-x", "a/", "/../\x00", "x" * 5000, "http://a/b", "a@", "a@@b", "a--b/c", "a..b"),
        *("sample:", "sample:bert@3", "sample:gpt2@step-", "sinusoidal:", "sinusoidal:3", "sinusoidal:axb"),
        *("a/b?tokens=x", "a/b?token=", "a/b?token=x&token=y", "./d?role=x", "a/b/.hidden", "a/b/c//d", "x/y.git/z"),
        *(
            "sinusoidal:3x4?x",
            "sinusoidal:-3x4",
            "nope:3x4",
            "ünïcode/x",
            "<script>",
            "a\nb",
            "a/b?base= c/d",
            "a/b?base=c/d\u00a0?x=y",
        ),
        *("a/b?base=c/d?base=e/f", "a/b?base=", "a/b?base=\t/x", "./d?base= ./e"),
    ],
)
def test_everything_else_is_one_line(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        *("gpt2", "a/b@refs/pr/3", "a/b/c/d.gguf@main?token=t&head=h", "a/b?token=onnx::Gather_7", "a/b?base=./c"),
        *(
            "./d?token=t&base=a/b@main",
            "./~x",
            "~/x",
            "~x/y",
            "/a/b c",
            ".hidden/d",
            "\\\\server\\d",
            "sample:gpt2@step-500",
        ),
        *("sample:minilm", "sinusoidal:8x4", "random:8x4?std=0.1&seed=3"),
    ],
)
def test_a_source_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_source(text)) == text


@given(st.text(max_size=200) | st.text(alphabet="ab/@.-_~:%\\ \x00é", max_size=20))
def test_any_text_is_a_source_or_an_error_and_only_marked_paths_are_local(text: str) -> None:
    try:
        source = parse_source(text)
    except SourceError:
        return
    assert isinstance(source, HubSource | LocalSource | BuiltinSource | SampleSource)
    if isinstance(source, LocalSource):
        assert text.strip().startswith((".", "/", "~", "\\"))
