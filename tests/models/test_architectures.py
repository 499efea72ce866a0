"""Rules against the models themselves: a type of every mechanism here, all of them in ``make test-families``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import SourceError
from hfposemb.models.architectures.families import FAMILIES, NO_INPUTS, known_types
from hfposemb.models.verification.verifying import compare, verify
from hfposemb.tables.encodings import Absolute, Alibi, Unmeasured, WindowBias
from hfposemb.tables.rotary import Rotary
from tests.architectures.__main__ import PAGE, tables_agree
from tests.architectures.survey import Row, one, share
from tests.architectures.tiny import CannotBuildError, build
from tests.checks.planted import change, write
from tests.support.checkpoints.extracted import extracted

ROOT = Path(__file__).parents[2]

SOME = (
    *("albert", "bart", "bert", "bloom", "canary", "clip", "codegen", "cohere2", "ctrl", "deberta-v2", "deepseek_v3"),
    *("dinov2", "electra", "esm", "falcon", "florence2", "gemma3", "gemma4_text", "glm4", "gpt2", "gpt_neox"),
    *(
        "granite",
        "hubert",
        "layoutlm",
        "llama",
        "llava",
        "m2m_100",
        "mamba",
        "mobilebert",
        "modernbert",
        "moshi",
        "mpt",
    ),
    *("opt", "pegasus", "phi3", "prophetnet", "qwen2_vl", "rf_detr", "roberta", "sam", "speecht5", "swin"),
    *("t5", "t5gemma", "tapas", "vit", "wav2vec2-bert", "wavlm", "whisper", "xglm", "xlm", "xlnet"),
)
"""Types of every mechanism, offset, formula and kind of tower."""


@pytest.mark.parametrize("model_type", SOME)
def test_type_is_extracted_as_the_model_has_it(model_type: str) -> None:
    row = one(model_type, classes=1)
    assert row.built, row.reason
    assert tables_agree(row), [check for check in row.checks if check.verdict != "equal"]
    assert set(row.verdicts("first layer")) <= {"equal"}
    assert row.mechanisms or model_type == "sam"


@pytest.mark.parametrize(
    ("model_type", "mechanisms"),
    {
        "clip": ("text: learned", "vision: learned"),
        "llava": ("text: rotary", "vision: learned"),
        "mpnet": ("position: learned", "relative: relative-bias"),
        "t5": ("encoder: relative-bias", "decoder: relative-bias"),
        "m2m_100": ("encoder: sinusoidal", "decoder: sinusoidal"),
        "mamba": ("position: none",),
        "bloom": ("position: alibi",),
        "hubert": ("position: convolution",),
        "xlnet": ("position: relative-table",),
        "gemma3_text": ("full_attention: rotary", "sliding_attention: rotary"),
        "qwen3_vl_vision": ("position: learned", "row: rotary", "column: rotary"),
        "roformer": ("position: rotary",),
        "clvp": ("position: rotary", "audio 2: rotary"),
        "bark": ("text: learned", "audio: learned", "audio.fine_acoustics: learned"),
        "layoutlm": ("position: learned", "h: learned", "w: learned", "x: learned", "y: learned"),
    }.items(),
)
def test_parts_and_mechanisms_have_their_names(model_type: str, mechanisms: tuple[str, ...]) -> None:
    assert one(model_type, classes=0).mechanisms == mechanisms


def test_page_lists_every_known_type() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(known_types()) if f"| `{name}` |" not in text] == []
    rows = {name for family in FAMILIES for name in family.model_types}
    unlisted = {"t5gemma2_text", "t5gemma2_decoder", "diffusion_gemma_text", "t5_gemma_module"}
    assert rows - known_types() == unlisted | {"gpt_refact", "rwkv5", "rwkv6", "rwkv7"}  # whose code transformers lacks
    assert [name for name in NO_INPUTS if f"- `{name}`: " not in text] == []
    assert len(known_types()) > 700


# --- verify ----------------------------------------------------------------------------------------------------------


def test_verify_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build("roberta").save_pretrained(tmp_path)
    assert main(["verify", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in printed[1:]] == [
        ["token", "table", "equal"],
        ["position", "table", "equal"],
        ["first", "layer's", "input"],
    ]
    assert main(["verify", str(tmp_path), "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {check["verdict"] for check in checks} == {"equal"}
    assert [check["difference"] for check in checks[:2]] == [0.0, 0.0]


def test_verify_sees_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model: Any = build("gpt2")
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        model.wpe.weight[3, 5] += 1e-6
        model.wte.weight[7] *= 1.01
    found = compare(hpe.extract(tmp_path), model)
    assert [check.verdict for check in found.of("token table")] == ["different"]
    assert [check.verdict for check in found.of("position table")] == ["different"]
    assert not found.passed
    assert found.of("position table")[0].difference == pytest.approx(1e-6, rel=0.1)
    change(tmp_path, model_type="roberta", pad_token_id=0)
    assert main(["verify", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert "of" in shown.err


def test_wrong_frequencies_and_layouts_are_seen(tmp_path: Path) -> None:
    model: Any = build("cohere")
    model.save_pretrained(tmp_path)
    assert compare(hpe.extract(tmp_path), model).passed
    change(tmp_path, model_type="llama")
    assert [check.verdict for check in compare(hpe.extract(tmp_path), model).of("rotary layout")] == ["different"]
    change(tmp_path, model_type="cohere", rope_parameters={"rope_type": "default", "rope_theta": 20_000.0})
    assert [check.verdict for check in compare(hpe.extract(tmp_path), model).of("rotary freq")] == ["different"]


def test_verify_wants_a_checkpoint_that_transformers_can_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extracted(tmp_path, {"wte.weight": torch.randn(9, 4)}, {"model_type": "hal-9000"})
    for source, said in (
        *((name, "hfposemb: ") for name in ("sinusoidal:8x8", "sample:none", "sample:minilm")),
        (str(tmp_path), "transformers cannot load"),
    ):
        assert main(["verify", source]) == 1
        shown = capsys.readouterr().err
        assert said in shown
        assert shown.count("\n") == 1


def test_samples_are_as_transformers_loads_them() -> None:
    for name in ("bert", "gpt2"):
        assert verify(f"sample:{name}").passed
    with pytest.raises(SourceError, match="a complete sample such as sample:bert"):
        verify("sample:gpt2@step-1500")


def test_nothing_counts_as_equal_that_was_not_compared() -> None:
    assert share([Row("none", built="None")], "token table") == (0, 0)
    with pytest.raises(CannotBuildError):
        build("timm_wrapper")


# --- what the survey cannot build ------------------------------------------------------------------------------------


def test_falcon_with_alibi_keeps_raw_and_effective_slopes(tmp_path: Path) -> None:
    sizes = {"hidden_size": 24, "num_attention_heads": 6}
    model = build("falcon", changes={**sizes, "alibi": True, "new_decoder_architecture": False})
    model.save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    position = found.position
    assert isinstance(position, Alibi)
    verified = compare(found, model)
    assert verified.of("ALiBi")[0].verdict == "equal"
    assert verified.passed
    assert np.allclose(position.effective, position.slopes / 2)
    assert position.profile(np.array([-2]))[0] == pytest.approx(-2 * position.effective.mean())


def test_patches_of_a_rectangular_image_know_their_grid(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2}
    build("vit", changes={**sizes, "image_size": (32, 48), "patch_size": 8}).save_pretrained(tmp_path)
    position = hpe.extract(tmp_path).position
    assert isinstance(position, Absolute)
    assert (position.grid.rows, position.grid.columns, position.grid.first) == (4, 6, 1)
    assert position.table.shape == (25, 16)


def test_window_biases_are_those_that_swin_adds(tmp_path: Path) -> None:
    model: Any = build("swin")
    model.save_pretrained(tmp_path)
    position = hpe.extract(tmp_path).position
    assert isinstance(position, WindowBias)
    own = next(module for name, module in model.named_modules() if name.endswith("relative_position_bias"))
    theirs = own().detach().double().numpy()[0] if callable(own) else None
    assert np.allclose(position.matrix(), theirs.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("size", [(56, 56), (56, 84)])
def test_a_model_of_images_turns_by_rows_and_columns_as_its_module(tmp_path: Path, size: tuple[int, int]) -> None:
    """DINOv3 turns by places in the image from −1 to 1; from patch to patch, that is what the encodings say."""
    model = build("dinov3_vit")
    model.save_pretrained(tmp_path)
    patch = model.config.patch_size
    change(tmp_path, image_size=[patch * side // 14 for side in size])
    found = hpe.extract(tmp_path)
    rows, columns = (side // 14 for side in size)
    angles = model.rope_embeddings(torch.zeros(1, 3, patch * rows, patch * columns))
    cos, sin = (values.double().numpy().reshape(rows, columns, -1) for values in angles)
    turned = cos + 1j * sin
    for axis, of in (("row", turned[1, 0] / turned[0, 0]), ("column", turned[0, 1] / turned[0, 0])):
        encoding = found.positions[axis]
        assert isinstance(encoding, Rotary)
        pairs = len(encoding.inv_freq)
        start = 0 if axis == "row" else pairs
        np.testing.assert_allclose(of[start : start + pairs], np.exp(1j * encoding.inv_freq), atol=1e-5)
        assert encoding.length == (rows if axis == "row" else columns)


def test_relative_places_need_the_size_of_the_image(tmp_path: Path) -> None:
    build("dinov3_vit").save_pretrained(tmp_path)
    write(tmp_path, "config.json", json.loads((tmp_path / "config.json").read_text()) | {"image_size": None})
    position = hpe.extract(tmp_path).position
    assert not isinstance(position, Rotary)
    with pytest.raises(hpe.HfposembError, match="row and column"):
        position.profile(np.arange(3))


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("qwen2_vl", ("text", "vision.row", "vision.column")),
        ("glmasr", ("text", "audio")),
        ("qwen3_vl", ("text", "vision", "vision.row", "vision.column")),
        ("llama4", ("text", "vision", "vision.rotary")),
    ],
)
def test_parts_for_images_and_sound_have_their_rotary_positions(
    tmp_path: Path, model_type: str, keys: tuple[str, ...]
) -> None:
    build(model_type).save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    assert tuple(found.positions) == keys
    last = found.positions[keys[-1]]
    if model_type == "llama4":
        assert isinstance(last, Unmeasured)
        return
    assert isinstance(last, Rotary)
    assert last.profile(np.arange(3))[0] == 1.0
    verified = compare(found, build(model_type))
    assert {check.verdict for check in verified.of("rotary frequencies")} == {"equal"}


def test_an_unknown_type_is_read_by_names_and_says_so(tmp_path: Path) -> None:
    build("llama").save_pretrained(tmp_path)
    change(tmp_path, model_type="llama-next", rope_freq_constant=5e5, rotary_scaling_factor=1.0)
    found = hpe.extract(tmp_path)
    assert any("'llama-next' is unknown" in note for note in found.notes)
    assert any("states rope_freq_constant, which hfposemb does not read" in note for note in found.notes)
    assert found.position.kind == "rotary"
    with pytest.raises(hpe.HfposembError, match="is unknown"):
        found.inputs([5, 6])


def test_several_vocabularies_are_apart(tmp_path: Path) -> None:
    build("fsmt").save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    assert set(found.tables) >= {"token", "decoder.token"}
    assert found.token.provenance.tensor != found.tables["decoder.token"].provenance.tensor
