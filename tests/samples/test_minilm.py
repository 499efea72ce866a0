"""The sample of all-MiniLM-L6-v2 is the original but for the rounding of its words, which its page states."""

from __future__ import annotations

import hashlib
import pickle
import re
import shutil
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from app.session.background_jobs import FILE, stored_map
from hfposemb.analysis.projection.quality import measure
from hfposemb.checkpoints.quantised.decoded import Decoded
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint
from hfposemb.cli.main import main
from hfposemb.errors import InputError, SourceError
from hfposemb.models.extraction import sample_steps
from hfposemb.samples import folder
from hfposemb.surveys.source_lists import revisions
from hfposemb.tables.embeddings import Embeddings
from tests.samples import pack

HOME = folder("minilm")
README = (HOME / "README.md").read_text(encoding="utf-8")
TEXT = "The king saw the queen, unbelievably."
WEIGHTS = "model.safetensors"
NOTE = "embeddings.word_embeddings.weight is stored as I8, one scale per row; its rows are decoded"


@pytest.fixture(scope="module")
def original(minilm_folder: Path) -> Embeddings:
    return hpe.extract(minilm_folder)


@pytest.fixture(scope="module")
def sample() -> Embeddings:
    return hpe.extract("sample:minilm")


def stated(row: str) -> list[str]:
    """Return the cells of a row of the page's tables, without its first."""
    (found,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", README, flags=re.M)
    return [cell.strip("` ") for cell in found.split("|")]


# --- what is the same -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["position", "token_type"])
def test_small_tables_are_those_of_the_original(sample: Embeddings, original: Embeddings, role: str) -> None:
    assert sample.tables[role].digest == original.tables[role].digest


def test_configuration_labels_and_pieces_are_those_of_the_original(sample: Embeddings, original: Embeddings) -> None:
    assert list(sample.tables) == list(original.tables)
    assert sample.config == original.config
    assert sample.token.labels.texts == original.token.labels.texts
    np.testing.assert_array_equal(sample.token.labels.classes, original.token.labels.classes)
    assert sample.inputs(TEXT).pieces == original.inputs(TEXT).pieces


def test_first_layer_is_that_of_the_original(sample: Embeddings, original: Embeddings) -> None:
    assert sample.attention is not None
    assert original.attention is not None
    ours, theirs = sample.attention(), original.attention()
    for name in ("query", "key"):
        left, right = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_array_equal(left.weight, right.weight)
        np.testing.assert_array_equal(left.bias, right.bias)
    assert (ours.scale, ours.causal, ours.window) == (theirs.scale, theirs.causal, theirs.window)


def with_rounded_words(sample: Embeddings, home: Path, source: Path) -> Embeddings:
    """Return the whole original with the sample's words in its file, in place of its own."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(source / WEIGHTS)
    tensors[pack.WORDS] = np.array(sample.token.vectors)
    home.mkdir()
    save_file(tensors, home / WEIGHTS)
    for name in pack.COPIED:
        shutil.copyfile(source / name, home / name)
    return hpe.extract(home)


def test_inputs_and_logits_differ_by_the_words_alone(
    sample: Embeddings, original: Embeddings, minilm_folder: Path, tmp_path: Path
) -> None:
    same = with_rounded_words(sample, tmp_path / "same", minilm_folder)
    ours, theirs = sample.inputs(TEXT), same.inputs(TEXT)
    np.testing.assert_array_equal(ours.normed, theirs.normed)
    left, right = sample.logits(TEXT), same.logits(TEXT)
    np.testing.assert_array_equal(left.total, right.total)
    assert np.abs(ours.normed - original.inputs(TEXT).normed).max() < 0.1
    logits = original.logits(TEXT).total
    assert np.abs(left.total - logits).max() < 0.02 * np.abs(logits).max()


# --- what is rounded --------------------------------------------------------------------------------------------------


def test_words_are_within_half_a_step_of_the_original(sample: Embeddings, original: Embeddings) -> None:
    scales = Checkpoint.open(HOME).read(f"{pack.WORDS}_scale")
    difference = np.abs(sample.token.vectors - original.token.vectors)
    # The largest number of a row may be cut by what its scale loses in float16, 2^-11 of it.
    assert (difference <= np.maximum(0.5 * 1.001, 127 * 2**-11) * scales + 1e-9).all()
    assert difference.max() > 0


def test_rounding_is_told(sample: Embeddings, capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.notes == (NOTE,)
    assert sample.token.provenance.stored_dtype == "I8, one scale per row"
    assert sample.position.table.provenance.stored_dtype == "F32"
    assert main(["info", "sample:minilm"]) == 0
    said = capsys.readouterr().out
    assert "30,522 × 384" in said
    assert f"note: {NOTE}" in said


# --- reading ----------------------------------------------------------------------------------------------------------


def test_positions_are_read_without_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("the words are read")

    monkeypatch.setattr(Checkpoint, "codes", refused)
    opened = hpe.extract("sample:minilm")
    assert opened.position.table.vectors.shape == (512, 384)
    assert opened.token.shape == (30_522, 384)
    with pytest.raises(AssertionError, match="the words are read"):
        _ = opened.token.vectors


def test_words_take_no_more_memory_than_twice_what_is_returned() -> None:
    table = hpe.extract("sample:minilm").token
    tracemalloc.start()
    try:
        vectors = table.vectors
        assert tracemalloc.get_traced_memory()[1] <= 2 * vectors.nbytes
    finally:
        tracemalloc.stop()
    assert not vectors.flags.writeable


def test_single_rows_are_those_of_the_whole_table(sample: Embeddings) -> None:
    whole, other = np.array(sample.token.vectors), hpe.extract("sample:minilm").token
    np.testing.assert_array_equal(other.rows(2330, 2340), whole[2330:2340])
    np.testing.assert_array_equal(other["king"], whole[2332])
    with pytest.raises(InputError):
        other.rows(0, 30_523)


def test_another_process_reads_the_words_itself(sample: Embeddings) -> None:
    text = pickle.dumps(sample)
    assert len(text) < 20_000
    assert pickle.loads(text).token.digest == sample.token.digest


def test_tables_without_scales_are_read_as_they_are(minilm_folder: Path) -> None:
    plain, decoded = Checkpoint.open(minilm_folder), Decoded(Checkpoint.open(minilm_folder))
    assert decoded.names() == plain.names()
    assert decoded.info(pack.EXACT[0]) == plain.info(pack.EXACT[0])
    np.testing.assert_array_equal(decoded.read(pack.EXACT[0]), plain.read(pack.EXACT[0]))


def test_the_same_codes_in_a_folder_are_decoded_too(sample: Embeddings) -> None:
    np.testing.assert_array_equal(hpe.extract(HOME).token.vectors, sample.token.vectors)


def test_there_are_no_steps() -> None:
    for ask in (lambda: sample_steps("minilm"), lambda: revisions("sample:minilm", "step-*")):
        with pytest.raises(SourceError, match="sample:minilm has no training steps; write sample:minilm, or"):
            ask()


# --- the files --------------------------------------------------------------------------------------------------------


def test_the_script_makes_the_files(minilm_folder: Path, tmp_path: Path) -> None:
    pack.pack(minilm_folder, tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(made) == {WEIGHTS, *pack.COPIED}
    assert made == {name: (HOME / name).read_bytes() for name in made}


def test_the_page_states_the_digests(minilm_folder: Path) -> None:
    for name in (WEIGHTS, *pack.COPIED, FILE):
        content = (HOME / name).read_bytes()
        assert stated(f"`{name}`") == [f"{len(content):,}", hashlib.sha256(content).hexdigest()]
    original = (minilm_folder / WEIGHTS).read_bytes()
    assert f"{len(original):,}" in README
    assert hashlib.sha256(original).hexdigest() in README


def test_files_are_those_that_are_described() -> None:
    files = {path.name: path.stat().st_size for path in HOME.iterdir()}
    assert set(files) == {WEIGHTS, *pack.COPIED, FILE, "LICENSE", "README.md"}
    assert files[FILE] <= 500_000
    assert (HOME / "LICENSE").read_text() == (HOME.parents[2] / "LICENSE").read_text()


def test_other_libraries_read_the_file(sample: Embeddings) -> None:
    from safetensors.numpy import load_file

    tensors = load_file(HOME / WEIGHTS)
    assert set(tensors) == {*pack.EXACT, pack.WORDS, f"{pack.WORDS}_scale"}
    words = tensors[pack.WORDS].astype(np.float32) * tensors[f"{pack.WORDS}_scale"].astype(np.float32)
    np.testing.assert_array_equal(words, sample.token.vectors)


# --- maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("role", ["token", "position"])
def test_maps_are_those_of_the_defaults(sample: Embeddings, role: str, dims: int) -> None:
    table = sample.tables[role]
    found = stored_map(table, dims)
    assert found is not None
    assert found.coordinates.shape == (table.shape[0], dims)
    more = {"neighbour_search": "exact"}
    if role == "token":
        more = {"neighbour_search": "approximate", "vectors": "before rounding"}
    assert dict(found.parameters) == {**asdict(hpe.UMAPParameters()), **more}


@pytest.mark.parametrize("dims", [2, 3])
def test_trust_is_that_of_the_stored_points(sample: Embeddings, dims: int) -> None:
    table = sample.position.table
    found = stored_map(table, dims)
    assert found is not None
    assert found.trust is not None
    quality = measure(table, found.coordinates, metric="cosine")
    assert quality.neighbours_kept == pytest.approx(found.trust.neighbours_kept.mean(), abs=1e-3)
    assert quality.trustworthiness == pytest.approx(found.trust.trustworthiness.mean(), abs=1e-3)
    assert quality.continuity == pytest.approx(found.trust.continuity.mean(), abs=1e-3)
    assert quality.points == len(found.trust.points)


def test_other_tables_have_no_map(sample: Embeddings, original: Embeddings) -> None:
    assert stored_map(sample.position.table, 5) is None
    assert stored_map(sample.token.part(0, 512), 2) is None, "of the shape of the positions"
    assert stored_map(hpe.sinusoidal(64, 16).position.table, 2) is None
    assert stored_map(original.token, 2) is None, "words that are not rounded"
