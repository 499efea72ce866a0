"""Two vocabularies compared: planted differences, formats of one vocabulary, the Hub, and what the JSON says."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tokenizers import Tokenizer

import hfposemb as hpe
from hfposemb.checkpoints.tokenizers.small_files import Merges
from hfposemb.cli.main import main
from hfposemb.errors import InputError
from hfposemb.reports.json_schema import SCHEMAS
from hfposemb.reports.pair_cards import vocabulary_card
from hfposemb.vocabularies.comparing import headline, vocabulary_pairs
from hfposemb.vocabularies.matched_ids import matched_ids
from hfposemb.vocabularies.opened_tokenizer import OpenedTokenizer
from hfposemb.vocabularies.tokenizer_rules import TokenizerRules
from hfposemb.vocabularies.vocabulary_findings import findings_of
from tests.hub.server import FakeHub
from tests.vocabularies.planted import TEXT, Pair, base, files, gguf, pairs, renumbered, swapped, with_model, write

PAIRS = pairs()
SAMPLES = Path(hpe.__file__).parent / "samples"
CODES = {"same": 0, "cannot tell": 2}
ANSWERS = {
    "same": ["yes"] * 3,
    "same ids": ["yes"] * 3,
    "moved": ["with a map", "no", "with a map"],
    "extended": ["with a map", "yes", "with a map"],
    "different": ["no"] * 3,
    "cannot tell": ["cannot tell"] * 3,
}
"""What a verdict answers to a merge, a draft model and a distillation."""


@pytest.mark.parametrize("planted", PAIRS)
def test_planted_pairs(tmp_path: Path, planted: str) -> None:
    pair: Pair = PAIRS[planted]
    found = hpe.vocabulary_difference(write(tmp_path / "a", pair.a), write(tmp_path / "b", pair.b))
    assert found.verdict == pair.verdict, str(found)
    assert [one.answer for one in found.answers.values()] == ANSWERS[pair.verdict], str(found)
    assert found.exit_code == CODES.get(pair.verdict, 1)
    assert not pair.finding or pair.finding in {one.name for one in found.findings}, str(found)
    assert pair.verdict != "same" or not any(one.matters for one in found.findings)


def test_findings_have_one_order() -> None:
    found = hpe.vocabulary_difference("sample:bert", "sample:minilm").findings
    roles = [one.message.split()[0] for one in found if one.name == "special-role"]
    assert roles == ["cls", "sep", "mask", "unk"], "in the order of ROLES, not as a set happens to be iterated"


def test_sentencepiece_is_the_same_as_its_conversions(tmp_path: Path) -> None:
    spm = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 9), model_writer=model, vocab_size=420, byte_fallback=True, model_type="bpe",
        minloglevel=2, hard_vocab_limit=False, user_defined_symbols=["▁▁", "<turn>"],
    )  # fmt: skip
    read = spm.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [read.id_to_piece(row) for row in range(len(read))]
    listed = [{"id": row, "content": pieces[row], "special": row < 3} for row in range(5)]
    data = base("sentencepiece")
    data = with_model(
        {**data, "added_tokens": listed}, vocab={piece: row for row, piece in enumerate(pieces)}, merges=[]
    )
    ours = write(tmp_path / "model", {"tokenizer.model": model.getvalue(), "tokenizer_config.json": "{}"})
    theirs = write(tmp_path / "json", {"tokenizer.json": json.dumps(data)})
    theirs_too = write(tmp_path / "gguf", gguf(data, model="llama"))
    for other in (theirs, theirs_too, ours / "tokenizer.model"):
        found = hpe.vocabulary_difference(ours, other)
        assert (found.verdict, found.exit_code) == ("same", 0), str(found)


def test_models_of_the_hub_and_open_ones(hub: FakeHub, tmp_path: Path, minilm_folder: Path) -> None:
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    hub.add("a/minilm", {name: minilm_folder / name for name in names if (minilm_folder / name).exists()})
    one = base()
    hub.add("a/alone", {name: text.encode() for name, text in files(one).items() if isinstance(text, str)})
    before = len(hub.requests)
    found = hpe.vocabulary_difference("a/minilm", hpe.extract(minilm_folder))
    assert (found.verdict, found.a.rows, found.b.rows) == ("same", 30_522, 30_522), str(found)
    assert sum(one.body_bytes for one in hub.requests[before:] if "safetensors" in one.path) < 2**18
    alone = hpe.vocabulary_difference(hpe.extract("a/minilm"), "a/alone")
    assert (alone.verdict, alone.b.rows) == ("different", len(alone.b.texts))


def test_what_has_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(hpe.HfposembError, match="formula without a vocabulary"):
        hpe.vocabulary_difference("sinusoidal:64x8", "sample:bert")
    with pytest.raises(hpe.HfposembError, match="does not exist"):
        hpe.vocabulary_difference(tmp_path / "nowhere", "sample:bert")
    broken = write(tmp_path / "broken", {"tokenizer.json": "{", "config.json": "{}"})
    with pytest.raises(hpe.HfposembError, match=r"tokenizer\.json is not JSON"):
        hpe.vocabulary_difference("sample:bert", broken)


def test_the_ids_that_differ_are_listed(tmp_path: Path) -> None:
    a, b = base(), renumbered(base(), swapped(300, 301))
    found = hpe.vocabulary_difference(write(tmp_path / "a", files(a)), write(tmp_path / "b", files(b)))
    names = {row: piece for piece, row in a["model"]["vocab"].items()}
    assert found.to_frame().values.tolist() == [[300, names[300], names[301], 301], [301, names[301], names[300], 300]]
    assert "300 is" in found.answers["draft"].because


@pytest.mark.parametrize(
    ("other", "said", "count"),
    [
        (lambda ours: [*ours[:9], *ours[10:]], "A has all merges of B and 1 more, from {9!r}; texts may", 1),
        (lambda ours: [*ours, "n o"], "B has all merges of A and 1 more, from 'n o'; texts may", 1),
        (
            lambda ours: ["n o", ours[1], ours[0], *ours[2:]],
            "B has all merges of A and 1 more, from 'n o', and the common ones in another order: where A has {0!r}, B",
            1,
        ),
        (
            lambda ours: ["n o", *ours[1:]],
            "1 merge of A is missing in B, from {0!r}, and 1 of B in A, from 'n o'; texts may",
            2,
        ),
        (
            lambda ours: [ours[1], ours[0], *ours[2:]],
            "the same merges have another order: where A has {0!r}, B has {1!r}; texts may",
            2,
        ),
        (lambda ours: [*ours, ours[0]], "one side repeats some of the same merges; texts may be cut otherwise", 1),
    ],
    ids=["fewer", "more", "more, moved", "others", "moved", "repeated"],
)
def test_merges_are_compared_as_lists_not_by_their_numbers(
    other: Callable[[list[str]], list[str]], said: str, count: int
) -> None:
    ours = [f"{first} {last}" for first in "abcd" for last in "efgh"]
    stated = [TokenizerRules("BPE", merges=Merges("", "\n".join(some).encode())) for some in (ours, other(ours))]
    a, b = (OpenedTokenizer("made", "by hand", {0: "a"}, {0: b"a"}, rules=rules) for rules in stated)
    (found,) = (one for one in findings_of(a, b, matched_ids(a, b)) if one.name == "merges")
    assert (found.message.startswith(said.format(*ours)), found.count) == (True, count), found


def test_the_headline_says_that_ids_are_other_ones_only_where_tokens_moved(tmp_path: Path) -> None:
    for planted, said in (("a chat token renamed", "Common texts have the same ids"), ("an offset", "under other ids")):
        pair = PAIRS[planted]
        folders = [write(tmp_path / planted / name, given) for name, given in (("a", pair.a), ("b", pair.b))]
        assert said in headline(hpe.vocabulary_difference(*folders))


def test_tokens_without_a_row_are_counted_in_the_answers(tmp_path: Path) -> None:
    pair = PAIRS["tokens beyond the table"]
    found = hpe.vocabulary_difference(write(tmp_path / "a", pair.a), write(tmp_path / "b", pair.b))
    assert found.answers["merge"].because.endswith("which leaves 2 of them without a row")
    assert f"mask the ids from {found.a.size - 2:,} on" in found.answers["draft"].because


@pytest.mark.parametrize("planted", ["nothing", "one swapped pair", "no tokenizer in B"])
def test_the_command_answers_by_its_exit_code_and_its_schema(
    tmp_path: Path, planted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = PAIRS[planted]
    paths = [str(write(tmp_path / name, given)) for name, given in (("a", pair.a), ("b", pair.b))]
    assert main(["vocab", *paths, "--json"]) == CODES.get(pair.verdict, 1)
    said = json.loads(capsys.readouterr().out)
    jsonschema.validate(said, SCHEMAS["vocab"])
    stated = SCHEMAS["vocab"]["oneOf"][0]["properties"]
    assert said.keys() == stated.keys()  # nothing that the schema does not tell of
    assert said["sources"]["a"].keys() == stated["sources"]["properties"]["a"]["properties"].keys()
    assert said["ids"] is None or said["ids"].keys() == stated["ids"]["anyOf"][0]["properties"].keys()
    assert said["verdict"] == pair.verdict


def test_the_command_ends_with_2_if_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["sample:bert", "./nowhere"], ["sample:bert"], ["sample:bert", "--text", str(tmp_path / "none")]):
        assert main(["vocab", *given]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)


def ids_of(sample: str, text: str) -> list[int]:
    """Return what the tokenizer of a sample cuts a text into."""
    reference = Tokenizer.from_file(str(SAMPLES / sample / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    return list(reference.encode(text, add_special_tokens=False).ids)


def test_a_text_is_measured_as_the_tokenizer_cuts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "The queen's king, 北京 и Привет naïve 3.14\n" * 2_000
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    assert main(["vocab", "sample:minilm", "--text", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    jsonschema.validate(said, SCHEMAS["vocab"])
    (found,) = said["texts"]
    ids = ids_of("minilm", text)
    model = hpe.extract("sample:minilm")
    assert (found["tokens"], found["used"], found["words"]) == (len(ids), len(set(ids)), 16_000)
    assert found["unknown"] == ids.count(model.token.row("[UNK]"))
    stored = model.token.provenance
    assert (stored.stored_dtype, stored.nbytes) == ("I8, one scale per row", 30_522 * (384 + 2))
    assert found["unused_bytes"] == (model.token.shape[0] - len(set(ids))) * (384 + 2)
    scripts = {one["script"]: one["words"] for one in found["scripts"]}
    assert scripts == {"LATIN": 8_000, "CJK": 2_000, "CYRILLIC": 4_000, "none": 2_000}
    with pytest.raises(InputError, match="must have words"):
        hpe.text_coverage("sample:bert", " ")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"the king", ""),
        ("the king".encode("utf-8-sig"), ""),
        ("the king".encode("utf-16"), ""),
        (b"\xfe\xff" + "the king".encode("utf-16-be"), ""),
        (b"", "must have words"),
        (b"a\xff", "is not UTF-8 at byte 1"),
        (b"\xff\xfea", "is not UTF-16 at byte"),
        (b"a " * 26_000_000, "exceeds the limit of 16 MB"),
        ("folder", "is not a regular file"),
        ("fifo", "is not a regular file"),
        ("/dev/null", "is not a regular file"),
    ],
    ids=["plain", "mark", "UTF-16", "UTF-16BE", "empty", "bytes", "odd", "50 MB", "folder", "fifo", "device"],
)
def test_files_of_text_are_read_within_bounds(
    tmp_path: Path, raw: bytes | str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text"
    if isinstance(raw, bytes):
        path.write_bytes(raw)
    elif raw == "folder":
        path.mkdir()
    elif raw == "fifo":
        os.mkfifo(path)
    else:
        path = Path(raw)
    assert main(["vocab", "sample:gpt2", "--text", str(path), "--json"]) == (2 if said else 0)
    shown = capsys.readouterr()
    assert (said in shown.err, shown.err.count("\n")) == (True, 1 if said else 0)
    assert said or json.loads(shown.out)["texts"][0]["characters"] == 8


@pytest.mark.parametrize("sample", ["bert", "gpt2", "minilm"])
def test_the_counts_are_those_of_tokenizers(sample: str) -> None:
    text = "The queen's king, naïve 3.14 walked\n" * 3
    found, ids = hpe.text_coverage(f"sample:{sample}", text), ids_of(sample, text)
    assert found.counts == Counter(ids)
    assert found.tokens / found.words == len(ids) / len(text.split())
    with pytest.raises(InputError, match="text must be a text"):
        hpe.text_coverage(f"sample:{sample}", Path("text"))  # type: ignore[arg-type]


def test_a_text_is_cut_by_a_tokenizer_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone, text = tmp_path / "alone", "The queen's king, naïve 3.14 walked"
    alone.mkdir()
    (alone / "tokenizer.json").write_bytes((SAMPLES / "minilm" / "tokenizer.json").read_bytes())
    model = hpe.text_coverage("sample:minilm", text)
    for source in (alone, alone / "tokenizer.json"):
        found = hpe.text_coverage(source, text)
        assert (found.counts, found.unknown, found.rows) == (model.counts, model.unknown, model.rows)
        assert (found.row_bytes, found.unused_bytes) == (None, None)
        assert re.search(r" of 30,522 ids \(\d+\s%\) are never used$", str(found))
    (tmp_path / "text").write_text(text, encoding="utf-8")
    assert main(["vocab", str(alone), "--text", str(tmp_path / "text"), "--json"]) == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), SCHEMAS["vocab"])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"tokenizer.model": b"\n\x05\n\x01a\x18\x01"}, "tokenizer.model states its tokens, but no text is cut by it"),
        ({"tekken.json": '{"vocab": []}'}, "tekken.json states its tokens, but no text is cut by it"),
        ({"claude.json": "{}"}, r"no file that states a vocabulary .* among 1 file;"),
    ],
)
def test_what_cuts_no_text_is_named(tmp_path: Path, files: dict[str, str | bytes], said: str) -> None:
    folder = write(tmp_path / "a", files)
    with pytest.raises(hpe.HfposembError, match=said) as error:
        hpe.text_coverage(folder, "the king")
    assert "token ids" not in str(error.value), "vocab takes none"


def test_a_folder_with_neither_asks_for_a_vocabulary_first(tmp_path: Path) -> None:
    with pytest.raises(hpe.HfposembError, match="has no file that states a vocabulary"):
        hpe.vocabulary_difference(write(tmp_path / "a", {"claude.json": "{}"}), "sample:bert")


def test_the_report_has_a_card_for_sources_with_files() -> None:
    opened = [hpe.extract("sample:bert"), hpe.extract("sample:gpt2"), hpe.sinusoidal(64, 16)]
    (found,) = vocabulary_pairs(opened)
    made = hpe.from_arrays(token=[[1.0, 0.0]], name="owner/name")
    assert vocabulary_pairs([made, opened[0]]) == [], "a name that was given names no repository"
    card = vocabulary_card(found.to_dict(), ("<i>A</i>", "B"))
    assert card.count('class="finding wrong"') == 3
    assert "<i>" not in card


def test_tokenizers_of_libraries_are_compared_as_they_would_be_saved(tmp_path: Path) -> None:
    import transformers

    path = write(tmp_path / "a", files(base()))
    for one in (Tokenizer.from_str(json.dumps(base())), transformers.AutoTokenizer.from_pretrained(path)):
        assert hpe.vocabulary_difference(one, path).verdict == "same"
    with pytest.raises(InputError, match="a source must be a name, a path"):
        hpe.vocabulary_difference(path, 3)  # type: ignore[arg-type]
