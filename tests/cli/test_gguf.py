"""What a check says of GGUF files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from tests.hub.server import FakeHub
from tests.support.checkpoints.gguf_models import CONTROL, NORMAL, Model, Tokens, keys_of

ROWS, WIDTH = 300, 64
CONFIG = {
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10_000.0},
}


def written(path: Path, *, rows: int = ROWS, eos: int = 0, template: str = "") -> Path:
    """Write a model whose tokens are ``word0`` to ``word299``."""
    raw = np.random.default_rng(3).integers(0, 256, (rows, WIDTH // 32, 34), dtype=np.uint8)
    raw[:, :, :2] = np.float16([0.01]).view(np.uint8)
    types = [CONTROL, *[NORMAL] * (ROWS - 1)]
    tokens = Tokens("gpt2", ["<|end|>", *(f"Ġword{row}" for row in range(1, ROWS))], types, {"eos": eos}, template)
    tensors = {"token_embd.weight": ("Q8_0", raw.reshape(rows, -1)), "output_norm.weight": np.ones(WIDTH, np.float32)}
    return Model("llama", keys_of(CONFIG), tensors, tokens).write(path)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command and return what it prints."""
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    return shown.out


@pytest.mark.parametrize("remote", [False, True])
def test_a_sound_file_has_no_faults(
    remote: bool, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "m-Q8_0.gguf")
    hub.add("a/m", {path.name: path.read_bytes()})
    report = hpe.check("a/m" if remote else path, full=True)
    assert not report.of("wrong")
    assert not report.of("suspicious")
    assert "tokenizer.json" not in str(report)
    assert "0 wrong, 0 suspicious" in run(capsys, "check", "a/m" if remote else path)


def test_faults_of_a_head_are_found(tmp_path: Path) -> None:
    beyond = written(tmp_path / "beyond.gguf", rows=ROWS - 10, template="<|end|><|start|>")
    found = {one.name: one.message for one in hpe.check(beyond).findings}
    assert "10 tokens have ids from 290 to 299, but the table ends at row 289" in found["token-beyond-table"]
    assert "the head of the file states 300 tokens" in found["vocabulary-size"]
    assert "<|start|>, which the vocabulary does not have" in found["template-token"]
    assert "special-id" in {one.name for one in hpe.check(written(tmp_path / "eos.gguf", eos=999)).findings}
