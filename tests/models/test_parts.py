"""Models of several parts: words are compared and fed with the positions of the part that they enter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import InputError, MissingTableError
from hfposemb.models.architectures.families import parts_fed
from hfposemb.reports.report import report

_SIDES = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in (
    ("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))}  # fmt: skip
_SEQ: dict[str, Any] = {**_SIDES, "vocab_size": 61, "d_model": 16, "pad_token_id": 1, "max_position_embeddings": 40}
_TOWER: dict[str, Any] = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
}
_IMAGE = {**_TOWER, "image_size": 32, "patch_size": 4}
_SOUND: dict[str, Any] = {"max_source_positions": 50, "max_target_positions": 30, "num_mel_bins": 8}

MODELS: dict[str, Callable[[], tf.PreTrainedModel]] = {
    "whisper": lambda: tf.WhisperModel(tf.WhisperConfig(**_SIDES, **_SOUND, vocab_size=61, d_model=16, pad_token_id=1)),
    "bart": lambda: tf.BartModel(tf.BartConfig(**_SEQ)),
    "t5": lambda: tf.T5Model(tf.T5Config(vocab_size=61, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)),
    "marian": lambda: tf.MarianModel(tf.MarianConfig(**_SEQ)),
    "marian, own words": lambda: tf.MarianModel(
        tf.MarianConfig(**_SEQ, share_encoder_decoder_embeddings=False, decoder_vocab_size=51)
    ),
    "clip": lambda: tf.CLIPModel(
        tf.CLIPConfig(text_config={**_TOWER, "vocab_size": 61, "max_position_embeddings": 30}, vision_config=_IMAGE)
    ),
    "vit": lambda: tf.ViTModel(tf.ViTConfig(**_IMAGE)),
}
EXPECTED: dict[str, tuple[str, dict[str, int | None]]] = {
    "whisper": ("decoder", {"decoder": 61, "encoder": None}),
    "bart": ("encoder", {"encoder": 61, "decoder": 61}),
    "t5": ("encoder", {"encoder": 61, "decoder": 61}),
    "marian": ("encoder", {"encoder": 61, "decoder": 61}),
    "marian, own words": ("encoder", {"encoder": 61, "decoder": 51}),
    "clip": ("text", {"text": 61, "vision": None}),
    "vit": ("position", {"position": None}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny checkpoints made by transformers."""
    made = {name: tmp_path_factory.mktemp("parts") / name.replace(", ", "-") for name in MODELS}
    for name, build in MODELS.items():
        build().save_pretrained(made[name])
    return made


@pytest.mark.parametrize("name", MODELS)
def test_each_part_has_its_positions_and_the_words_that_enter_it(name: str, folders: dict[str, Path]) -> None:
    """The first part is where the words enter; another part has its own words, the shared ones, or none."""
    source = hpe.extract(str(folders[name]))
    first, words = EXPECTED[name]
    assert next(iter(source.positions)) == first
    assert source.position is source.positions[first]
    assert set(source.positions) == set(words)
    for part, rows in words.items():
        of = source.part(part)
        assert of.position is source.positions[part]
        if rows is not None:
            assert of.token.shape[0] == rows
        else:
            with pytest.raises(MissingTableError, match="has no token table"):
                assert of.token
    with pytest.raises(InputError, match="has no part 'nowhere'"):
        source.part("nowhere")


def test_whisper_compares_the_decoder_with_its_words(folders: dict[str, Path]) -> None:
    """Its encoder hears sound: its 50 positions never stand beside words, and its own part says so."""
    source = hpe.extract(str(folders["whisper"]))
    text = source.inputs([5, 6, 7])
    assert text.position.tolist() == source.positions["decoder"].table.rows(0, 3).tolist()
    found = hpe.compare(source, hpe.extract(str(folders["bart"])), draws=0, words=())
    assert [(one.part, one.position_shape) for one in found.sources] == [("decoder", (30, 16)), ("encoder", (40, 16))]
    assert "learned, decoder" in str(found)
    assert "decoder and encoder positions" in str(found)
    heard = hpe.compare(source, part="encoder", draws=0, words=()).sources[0]
    assert (heard.position_shape, heard.token_shape) == ((50, 16), None)
    assert heard.metrics["token norm / position norm"].value is None
    assert any("words enter its decoder, not its encoder" in note for note in heard.notes)


def test_a_part_is_chosen_for_all_sources_or_one_by_one(folders: dict[str, Path]) -> None:
    bart, clip, flat = (hpe.extract(str(folders[name])) for name in ("bart", "clip", "vit"))
    one = hpe.compare(bart, clip, flat, part="decoder", draws=0, pairs=False)
    assert [source.part for source in one.sources] == ["decoder", "text", ""]
    each = hpe.compare(bart, clip, flat, part=(None, "vision", None), draws=0, pairs=False)
    assert [source.part for source in each.sources] == ["encoder", "vision", ""]
    same = hpe.compare(bart, bart, part=("encoder", "decoder"), draws=0)
    assert same.pairs[0].parts == ("encoder", "decoder")
    with pytest.raises(InputError, match="no source has a part 'audio'"):
        hpe.compare(bart, clip, part="audio")
    with pytest.raises(InputError, match="one entry per source"):
        hpe.compare(bart, clip, part=("encoder",))


def test_the_report_names_the_stack_in_its_headings(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whisper, bart = (str(folders[name]) for name in ("whisper", "bart"))
    source = hpe.extract(whisper)
    page = report(source, comparison=hpe.compare(source, draws=0))
    assert "<h2>Decoder positions</h2>" in page
    assert "30 decoder positions" in page
    assert "--part decoder" in page, "the command that gives the page again"
    out = tmp_path / "report.html"
    common = ["--draws", "0", "--words", ""]
    assert main(["compare", whisper, *common, "--part", "encoder", "--out", str(out)]) == 0
    assert "<h2>Encoder positions</h2>" in out.read_text(encoding="utf-8")
    assert main(["compare", whisper, bart, *common, "--part", "-", "--part", "decoder", "--json"]) == 0
    assert main(["compare", whisper, *common, "--part", "vision"]) == 1
    assert "no source has a part 'vision'" in capsys.readouterr().err


_JOINED = {"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def test_the_words_of_two_joined_models_enter_the_encoder_as_it_says(tmp_path: Path) -> None:
    """The whole may state a vocabulary, as Hugging Face's notebook writes it; it speaks for neither model."""
    sizes = {**_JOINED, "intermediate_size": 16, "max_position_embeddings": 40}
    encoder = tf.RobertaConfig(**sizes, pad_token_id=3, layer_norm_eps=0.1)
    decoder = tf.BertConfig(**sizes, is_decoder=True, add_cross_attention=True)
    config = tf.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.vocab_size = 61
    model = tf.EncoderDecoderModel(config).eval()
    model.save_pretrained(tmp_path)
    check_inputs(tmp_path, model.encoder.embeddings)


def test_the_prefix_of_a_whole_model_is_no_part(tmp_path: Path) -> None:
    """A base model named ``visual_bert`` or ``data2vec_text`` has the words of a picture's or a text's part."""
    config = tf.VisualBertConfig(**_JOINED, intermediate_size=16, max_position_embeddings=40, visual_embedding_dim=8)
    model = tf.VisualBertForPreTraining(config).eval()
    model.save_pretrained(tmp_path)
    found = check_inputs(tmp_path, model.visual_bert.embeddings)
    assert list(found.tables)[:3] == ["token", "token_type", "vision.token_type"]
    assert list(found.positions) == ["text", "vision"]


def check_inputs(folder: Path, embeddings: torch.nn.Module) -> hpe.Embeddings:
    """Compare the first layer's input with that of the module that makes it; return the source."""
    ids = [5, 60, 9, 5]
    found = hpe.extract(folder)
    with torch.no_grad():
        theirs = embeddings(input_ids=torch.tensor([ids]))[0].numpy()
    np.testing.assert_allclose(found.inputs(ids).normed, theirs, atol=1e-6)
    return found


def test_the_rule_of_the_parts_that_words_enter() -> None:
    both = ("decoder", "encoder", "vision")
    assert parts_fed(both, "") == ("encoder", "decoder")
    assert parts_fed(both, "decoder") == ("decoder",)
    assert parts_fed(("position", "x"), "") == ("position",)
    assert parts_fed(("vision", "text.decoder", "text.encoder"), "text") == ("text.encoder", "text.decoder")
    assert parts_fed((), "") == ()


def test_look_alike_tables_cost_no_more_than_their_number(tmp_path: Path) -> None:
    """Counted in lines that run, loops over them included: nothing is compared with everything before it."""
    costs = []
    for count in (50, 100, 200, 400):  # the first imports what is needed
        table = np.zeros((4, 8), np.float32)
        tables = {f"m{row}.embeddings.position_embeddings.weight": table for row in range(count)}
        save_file(tables, tmp_path / f"{count}.safetensors")
        lines = 0

        def count_lines(frame: Any, event: str, value: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return count_lines

        before = sys.gettrace()
        sys.settrace(count_lines)
        try:
            found = hpe.extract(str(tmp_path / f"{count}.safetensors"))
        finally:
            sys.settrace(before)
        assert len(found.tables) == count
        costs.append(lines)
    assert costs[3] - costs[2] < 2.2 * (costs[2] - costs[1]), costs
