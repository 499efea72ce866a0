"""Fingerprints: what two of eight billion parameters cost, files that are kept, and files of strangers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.row_fingerprints import ANCHORS, MOST_FILE_BYTES, read_fingerprint, to_bfloat16, token_hashes
from hfposemb.comparison.row_kinship import search
from hfposemb.errors import InputError, SourceError
from tests.conftest import FULL
from tests.hub.server import FakeHub
from tests.support.checkpoints.sparse_files import sparse, write_rows

PART = 1 if FULL else 8
EIGHT_BILLION = (128_256 // PART, 4096 // PART)
"""Rows and width, of which `make test` takes an eighth each: the most that may be received is one, too."""
SEARCHED = 1000 if FULL else 100
"""Fingerprints in a folder."""

NAME = "model.embed_tokens.weight"


def eight_billion(hub: FakeHub, folder: Path, repo: str, rows: np.ndarray) -> None:
    """Put a model of 8 billion parameters on the Hub, whose rows at the anchors are given; or one an eighth as wide."""
    folder.mkdir()
    count, width = EIGHT_BILLION
    layers = {f"model.layers.{at}.mlp.up_proj.weight": [14_336 // PART, width] for at in range(32)}
    config = {"model_type": "llama", "hidden_size": width, "vocab_size": count, "num_attention_heads": 32}
    made = sparse(folder, {NAME: [count, width], **layers}, 4, config)
    vocabulary = {f"token{at}": at for at in range(count)}
    made["tokenizer.json"] = json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})
    hub.add(repo, made)
    first = folder / "model-00001-of-00004.safetensors"
    for at, row in zip(np.linspace(0, count - 1, len(rows)).astype(int), rows, strict=True):
        write_rows(first, NAME, int(at), row[None])


def test_two_models_of_eight_billion_cost_a_few_megabytes(hub: FakeHub, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count, width = EIGHT_BILLION
    plain = hpe.from_arrays(token=np.zeros((count, 1)), labels=[f"token{at}" for at in range(count)]).token
    anchors = np.sort(np.argsort(token_hashes(plain))[:ANCHORS])
    rows = rng.normal(0, 0.02, (ANCHORS, width))
    other = rng.normal(0, 0.02, (ANCHORS, width))
    for repo, own in (("a/base", rows), ("a/tuned", rows + 0.01 * other), ("b/other", other)):
        eight_billion(hub, tmp_path / repo.replace("/", "-"), repo, own[:0])
        for at, row in zip(anchors, own, strict=True):
            write_rows(tmp_path / repo.replace("/", "-") / "model-00001-of-00004.safetensors", NAME, int(at), row[None])
    tuned, apart = ("derived", "keeps"), ("same tokenizer", "destroys")
    for pair, verdicts in ((("a/base", "a/tuned"), tuned), (("a/base", "b/other"), apart)):
        for answer, verdict in zip((hpe.kinship, hpe.merge_preview), verdicts, strict=True):
            before = len(hub.requests)
            found = answer(*pair)
            assert (found.verdict, found.shared) == (verdict, ANCHORS)
            assert sum(one.body_bytes for one in hub.requests[before:]) <= 2 * 20e6 / PART


def table(seed: int, width: int = 64) -> hpe.Embeddings:
    rows = np.random.default_rng(seed).normal(size=(500, width))
    return hpe.from_arrays(token=rows, labels=[f"word{at}" for at in range(500)], name=f"model {seed}")


def test_a_file_keeps_what_decides(tmp_path: Path) -> None:
    for width in (64, 6000):
        one, other = table(1, width), table(2, width)
        path = hpe.fingerprint(one).save(tmp_path / f"{width}.kinship.safetensors")
        assert path.stat().st_size < MOST_FILE_BYTES
        assert hpe.kinship(path, one).verdict == "same"
        found, direct = hpe.kinship(path, other), hpe.kinship(one, other)
        assert found.verdict == direct.verdict == "same tokenizer"
        assert hpe.kinship(path, path).evidence[0].value == 1
        tuned = hpe.from_arrays(token=one.token.vectors + 0.3 * other.token.vectors, labels=one.token.labels.texts)
        kept, direct = (hpe.kinship(a, tuned) for a in (path, hpe.fingerprint(one)))
        assert kept.verdict == "derived"
        assert kept.evidence[1].value == pytest.approx(direct.evidence[1].value, abs=0.02)
    with pytest.raises(InputError, match=r"must end in \.kinship\.safetensors"):
        hpe.fingerprint(table(1)).save(tmp_path / "x.safetensors")


def test_bfloat16_is_rounded_as_torch_does() -> None:
    import torch

    rows = np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32)
    theirs = torch.tensor(rows).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bfloat16(rows), theirs)


def test_a_folder_of_many_fingerprints_is_searched(tmp_path: Path) -> None:
    wanted = table(7)
    mine = hpe.fingerprint(wanted)
    for seed in range(20):
        hpe.fingerprint(table(seed)).save(tmp_path / f"{seed}.kinship.safetensors")
    for at in range(20, SEARCHED):
        (tmp_path / f"{at}.kinship.safetensors").write_bytes(
            (tmp_path / f"{at % 19 + (at % 19 >= 7)}.kinship.safetensors").read_bytes()
        )
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    turned = hpe.from_arrays(token=wanted.token.vectors @ turn, labels=wanted.token.labels.texts, name="turned")
    hpe.fingerprint(turned).save(tmp_path / f"{SEARCHED - 1}.kinship.safetensors")
    hpe.fingerprint(table(7, 32)).save(tmp_path / "0.kinship.safetensors")
    (tmp_path / "other.kinship.safetensors").write_bytes(b"PK")
    found, wrong = search(mine, tmp_path)
    assert len(found) == SEARCHED
    assert [(one.b, one.verdict) for one in found if one.kin] == [("model 7", "same"), ("turned", "rotated")]
    assert [one.score for one in found].index(None) == SEARCHED - 1, "what cannot be told comes last"
    assert wrong == (wrong[0],)
    assert "other.kinship.safetensors is no fingerprint" in wrong[0]


def test_a_survey_keeps_fingerprints_that_are_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "survey"
    measured = ["survey", "sample:gpt2", "sample:bert", "sinusoidal:16x8", "--metric", "mean norm", "--draws", "0"]
    assert main([*measured, "--out", str(out)]) == 0
    assert main(["kinship", "sample:gpt2", "--against", str(out)]) == 1
    assert "survey --fingerprints" in capsys.readouterr().err
    assert main([*measured, "--out", str(out), "--fingerprints"]) == 0
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert main([*measured, "--out", str(out), "--fingerprints"]) == 0
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before, "nothing is measured again"
    capsys.readouterr()
    assert main(["kinship", "sample:gpt2", "--against", str(out), "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert {one["b"]: one["verdict"] == "same" for one in pairs} == {"sample:gpt2": True, "sample:bert": False}


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:start]), raw[start:]


def rewrite(path: Path, head: object, data: bytes) -> None:
    said = head if isinstance(head, bytes) else json.dumps(head).encode()
    path.write_bytes(len(said).to_bytes(8, "little") + said + data)


def heads(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return what changes the header of a file."""

    def changed(path: Path) -> None:
        head, data = parts(path)
        change(head)
        rewrite(path, head, data)

    return changed


def facts(**changed: object) -> Callable[[Path], None]:
    """Return what changes what a file says of its model."""

    def change(head: dict[str, Any]) -> None:
        said = {**json.loads(head["__metadata__"]["fingerprint"]), **changed}
        head["__metadata__"]["fingerprint"] = json.dumps(said)

    return heads(change)


def numbers(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Return what changes the bytes of a tensor, seen as unsigned 64-bit or 32-bit numbers."""

    def changed(path: Path) -> None:
        head, data = parts(path)
        first, last = head[name]["data_offsets"]
        kind = "<f4" if name == "steps" else "<u8"
        new = change(np.frombuffer(data[first:last], kind)).astype(kind).tobytes()
        rewrite(path, head, data[:first] + new + data[last:])

    return changed


HOSTILE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3000]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "large": lambda path: path.write_bytes(b"\0" * (MOST_FILE_BYTES + 1)),
    "no UTF-8": lambda path: rewrite(path, b"\xff\xfe", parts(path)[1]),
    "deep": lambda path: rewrite(path, b"[" * 100_000, parts(path)[1]),
    "deep facts": heads(lambda head: head.update(__metadata__={"fingerprint": "[" * 100_000})),
    "digits": heads(lambda head: head.update(__metadata__={"fingerprint": "9" * 10_000})),
    "a list": lambda path: rewrite(path, [], parts(path)[1]),
    "a part more": heads(lambda head: head.update(more=head["steps"])),
    "a part less": heads(lambda head: head.pop("steps")),
    "another kind": heads(lambda head: head["steps"].update(dtype="I32")),
    "negative": heads(lambda head: head["codes"].update(shape=[-256, -64])),
    "true for one": heads(lambda head: head["codes"].update(shape=[True, 64])),
    "huge": heads(lambda head: head["codes"].update(shape=[2**62, 2**62])),
    "another shape": heads(lambda head: head["codes"].update(shape=[64, 256])),
    "overlapping": heads(lambda head: head["anchors"].update(data_offsets=head["sketch"]["data_offsets"])),
    "no order": numbers("anchors", lambda values: values[::-1]),
    "NaN": numbers("steps", lambda values: values * np.float32("nan")),
    "version": facts(version=2),
    "a name that is none": facts(name=["x"]),
    "a size that is none": facts(words=-1),
    "a truth for a number": facts(words=True),
    "a precision that is none": facts(exact="F4"),
    "facts that are a list": heads(lambda head: head.update(__metadata__={"fingerprint": "[]"})),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_of_a_stranger_ends_in_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = hpe.fingerprint(table(1)).save(tmp_path / "a.kinship.safetensors")
    HOSTILE[kind](path)
    with pytest.raises(SourceError, match=r"^a\.kinship\.safetensors ") as caught:
        read_fingerprint(path)
    assert "\n" not in str(caught.value)
    assert main(["kinship", str(path), "sample:gpt2"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_name_in_a_file_cannot_move_the_cursor(tmp_path: Path) -> None:
    path = hpe.fingerprint(table(1)).save(tmp_path / "a.kinship.safetensors")
    facts(name="\x1b[2J" + "x" * 5000)(path)
    assert read_fingerprint(path).name.isprintable()
    assert len(read_fingerprint(path).name) <= 300


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    assert main(["kinship", "sample:gpt2", "sample:bert", "sample:gpt2", "--save", str(kept), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["kinship", "--schema"])
    jsonschema.validate(said, schema := json.loads(capsys.readouterr().out))
    with pytest.raises(jsonschema.ValidationError, match="'twins' is not one of"):
        jsonschema.validate({"pairs": [said["pairs"][0] | {"verdict": "twins"}], "unread": []}, schema)
    pairs = said["pairs"]
    assert [one["verdict"] for one in pairs][1] == "same"
    assert not {one["verdict"] for one in pairs[::2]} & {"same", "derived"}
    assert {path.name for path in kept.iterdir()} == {
        "sample-gpt2.kinship.safetensors",
        "sample-bert.kinship.safetensors",
    }
    assert main(["kinship", "sample:gpt2", "--against", str(kept)]) == 0
    assert capsys.readouterr().out.startswith("sample:gpt2 and sample:gpt2: same\n")
    file = str(kept / "sample-gpt2.kinship.safetensors")
    assert main(["kinship", file, "--save", str(tmp_path / "again")]) == 0
    assert [path.read_bytes() for path in (tmp_path / "again").iterdir()] == [Path(file).read_bytes()]
    capsys.readouterr()
    assert main(["kinship", "sample:gpt2"]) == 1
    assert "--against FOLDER" in capsys.readouterr().err
    for name in ("a+b", "a-b"):
        hpe.write_table(table(1).token, tmp_path / f"{name}.npz")
    alike = [str(tmp_path / f"{name}.npz") for name in ("a+b", "a-b")]
    assert main(["kinship", *alike, "--save", str(tmp_path / "new")]) == 1
    assert f"is of {alike[0]}; keep {alike[1]} in another folder" in capsys.readouterr().err
    assert not list((tmp_path / "new").iterdir())
    assert main(["kinship", alike[0], "--save", str(tmp_path / "new")]) == 0
    assert main(["kinship", alike[1], "--save", str(tmp_path / "new")]) == 1
    assert main(["kinship", alike[0], "--save", str(tmp_path / "new")]) == 0
