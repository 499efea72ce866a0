"""A model trained by transformers' Trainer, with a frozen and an exploding row, and what the watch says of them."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import hfposemb as hpe
from hfposemb.errors import HfposembError, InputError, SourceError
from hfposemb.training.trainer_callback import RowWatch
from hfposemb.training.watch_folder import WatchFolder

ROWS, WIDTH, POSITIONS = 60, 16, 8
FROZEN, EXPLODING, UNSEEN = 7, 11, 59


class Explosion(transformers.TrainerCallback):
    """Multiplies a row once."""

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Do so before the first log."""
        if state.global_step == 3:
            with torch.no_grad():
                given["model"].transformer.wte.weight[EXPLODING] *= 20


def trainer(folder: Path, *callbacks: transformers.TrainerCallback, **options: Any) -> transformers.Trainer:
    """Return a trainer of a small GPT-2, whose head is a table of its own, so that unseen rows stay."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=WIDTH, vocab_size=ROWS, n_positions=POSITIONS, bos_token_id=0, eos_token_id=0
    )
    config.tie_word_embeddings = False
    model = transformers.GPT2LMHeadModel(config)

    def frozen(gradient: torch.Tensor) -> torch.Tensor:
        kept = torch.ones(len(gradient), 1)
        kept[FROZEN] = 0
        return gradient * kept

    model.transformer.wte.weight.register_hook(frozen)
    ids = torch.arange(16 * POSITIONS).remainder(UNSEEN).reshape(-1, POSITIONS)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        logging_steps=4,
        per_device_train_batch_size=16,
        disable_tqdm=True,
        use_cpu=True,
        **{"report_to": [], "save_strategy": "no", "max_steps": 12, **options},
    )
    data: Any = [{"input_ids": one, "labels": one} for one in ids]
    return transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=list(callbacks))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A run with the watch attached, logged to TensorBoard and to a folder."""
    folder = tmp_path_factory.mktemp("trained")
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hfposemb").addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "logs"))
        run = trainer(folder, Explosion(), report_to=["tensorboard"])
        start = run.model.transformer.wte.weight.detach().clone().double().numpy()
        watch = hpe.EmbeddingWatch(rows=[FROZEN, EXPLODING], new=[20, 21], sample=8, folder=folder / "watch")
        watch.attach(run)
        run.train()
    logging.getLogger("hfposemb").removeHandler(handler)
    return SimpleNamespace(run=run, watch=watch, folder=folder, start=start, messages=messages)


def test_a_frozen_and_an_exploding_row_are_found_at_the_first_log(trained: SimpleNamespace) -> None:
    first = next(one for one in trained.watch.history if one.table == "token")
    assert first.step == 4
    assert first.exploding_rows == (EXPLODING,)
    assert set(first.unchanged_rows) == {FROZEN, UNSEEN}, "no batch had the last token"
    assert first.followed[str(FROZEN)] == 0.0
    assert first.followed[str(EXPLODING)] > 10
    warnings = [one for one in trained.messages if "exploding" in one]
    assert warnings == [f"EmbeddingWatch: {first}"], "once, not at every log"


def test_the_figures_are_those_of_the_rows(trained: SimpleNamespace) -> None:
    now = trained.run.model.transformer.wte.weight.detach().double().numpy()
    last = [one for one in trained.watch.history if one.table == "token"][-1]
    norms = np.linalg.norm(now, axis=1)
    assert last.norm_mean == pytest.approx(norms.mean(), rel=1e-6)
    assert last.norm_max == pytest.approx(norms.max(), rel=1e-6)
    drift = np.linalg.norm(now - trained.start, axis=1) / np.linalg.norm(trained.start, axis=1)
    assert last.followed[str(EXPLODING)] == pytest.approx(drift[EXPLODING], rel=1e-5)
    others = np.delete(norms, [20, 21])
    assert last.new_norm == pytest.approx(norms[[20, 21]].mean() / others.mean(), rel=1e-5)
    assert [one.step for one in trained.watch.history if one.table == "position"] == [4, 8, 12]


def test_the_trainers_loggers_get_the_figures(trained: SimpleNamespace) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(trained.folder / "logs"))
    events.Reload()
    drawn = [(one.step, one.value) for one in events.Scalars("train/embeddings/token/norm_mean")]
    history = [(one.step, pytest.approx(one.norm_mean)) for one in trained.watch.history if one.table == "token"]
    assert drawn == history
    logged = [one for one in trained.run.state.log_history if "loss" in one]
    assert [one["embeddings/token/unchanged"] for one in logged] == [pytest.approx(2 / ROWS)] * 3


def test_the_folder_is_a_training_run(trained: SimpleNamespace) -> None:
    steps = hpe.revisions(str(trained.folder / "watch"), "step-*")
    assert [Path(one).name for one in steps] == ["step-0", "step-4", "step-8", "step-12"]
    token = hpe.extract(steps[-1]).token
    assert token.labels[0] == str(FROZEN)
    now = trained.run.model.transformer.wte.weight.detach().numpy()
    np.testing.assert_array_equal(token.vectors, now[[int(label) for label in token.labels]])
    np.testing.assert_array_equal(hpe.extract(steps[0]).token[str(EXPLODING)], trained.start[EXPLODING])
    assert hpe.extract(steps[-1]).position.table.shape == (POSITIONS, WIDTH)
    with pytest.raises(SourceError, match="but in step-0, step-4"):  # what is kept of the start is no model
        hpe.extract(trained.folder / "watch")


def test_beside_other_callbacks_and_at_steps_of_its_own(tmp_path: Path) -> None:
    watch = hpe.EmbeddingWatch(every=5, rows=3)
    run = trainer(tmp_path, watch)
    run.train()
    assert [one.step for one in watch.history if one.table == "token"] == [5, 10]
    with_figures = [one["step"] for one in run.state.log_history if "embeddings/token/drift/3" in one]
    assert with_figures == [5, 10]


@pytest.mark.parametrize(
    ("given", "said"),
    [({"every": 0}, "every must be at least 1; got 0"), ({"sample": 0}, "sample must be at least 1; got 0")],
)
def test_what_cannot_be_measured_is_refused(given: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        hpe.EmbeddingWatch(**given)


def test_rows_that_the_model_has_not_are_refused_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="king"):
        trainer(tmp_path, hpe.EmbeddingWatch(rows="king")).train()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_least_change_of_any_row_is_seen(kind: torch.dtype) -> None:
    """Rows of 4,096 numbers of which one moves to the next number that there is."""
    weight = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)).to(kind)
    watch = RowWatch(weight, "token", {"five": 5, "5": 5, "three": 3}, sample=4)
    first = watch.measure(1, weight)
    assert (first.unchanged, first.unchanged_rows) == (64, (5, 3, 0, 1, 2, 4, *range(6, 20))), "20 are named"
    weight[:32, 100] = torch.nextafter(weight[:32, 100].to(kind), torch.full((32,), 9.0, dtype=kind))
    if kind == torch.float32:  # a single last bit of 4,096 is below what a sum in float32 shows
        weight[:32] += 3e-6
    assert watch.measure(2, weight).unchanged == 32
    weight[40, 3] = torch.nan
    found = watch.measure(3, weight)
    assert (found.exploding, found.exploding_rows) == (1, (40,))
    weight[3] *= 2
    moved = watch.measure(4, weight).followed
    assert (moved["five"], moved["three"]) == (moved["5"], pytest.approx(1.0, abs=1e-2)), "two names of one row"


def test_a_resumed_training_goes_on_from_its_start(tmp_path: Path) -> None:
    """A watch of another process compares with what the first one kept, and its folder goes on."""
    folder = tmp_path / "watch"
    first = trainer(tmp_path, hpe.EmbeddingWatch(rows=[3], folder=folder), save_strategy="steps", save_steps=4)
    start = first.model.transformer.wte.weight.detach().clone()
    first.train()
    watch = hpe.EmbeddingWatch(rows=[3], folder=folder)
    again = trainer(tmp_path, watch, max_steps=16)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-12"))
    (last,) = (one for one in watch.history if one.table == "token")
    now = again.model.transformer.wte.weight.detach()
    assert last.step == 16
    assert last.followed["3"] == pytest.approx(float((now[3] - start[3]).norm() / start[3].norm()), rel=1e-5)
    assert set(last.unchanged_rows) == {FROZEN, UNSEEN}
    assert {one.name for one in folder.glob("step-*")} == {f"step-{step}" for step in (0, 4, 8, 12, 16)}
    other = trainer(tmp_path, hpe.EmbeddingWatch(rows=[5], folder=folder), max_steps=16)
    with pytest.raises(InputError, match="begun with other rows"):
        other.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-12"))
    with pytest.raises(InputError, match="steps of another training"):
        trainer(tmp_path, hpe.EmbeddingWatch(folder=folder)).train()


@pytest.mark.parametrize("rows", [ROWS + 4, ROWS - 1])
def test_a_table_that_is_resized_is_watched_on(tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: int) -> None:
    watch = hpe.EmbeddingWatch(rows=[3, UNSEEN], folder=tmp_path / "watch")
    model = trainer(tmp_path).model
    state = SimpleNamespace(is_world_process_zero=True, global_step=0, log_history=[])
    watch.on_train_begin(None, state, None, model=model)
    model.resize_token_embeddings(rows)
    state.global_step = 8
    watch.on_log(None, state, None, {"loss": 1.0}, model=model)
    last = next(one for one in watch.history if one.table == "token")
    assert (last.rows, last.new_norm is None) == (rows, rows < ROWS)
    # A sum over a row may be rounded otherwise beside another number of rows.
    assert last.unchanged >= rows - 4
    assert set(last.followed) == ({"3", str(UNSEEN)} if rows > ROWS else {"3"})
    assert [one for one in caplog.messages if f"went from {ROWS} to {rows} rows by step 8" in one]
    assert len(hpe.extract(tmp_path / "watch" / "step-8").token) == min(rows, ROWS)
    model.transformer.wte = torch.nn.Embedding(rows, WIDTH + 1)
    watch.on_log(None, state, None, {"loss": 1.0}, model=model)
    assert "no longer the one that training began with" in caplog.text


def test_two_trainings_of_one_folder_and_one_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = WatchFolder(tmp_path / "watch"), WatchFolder(tmp_path / "watch")
    one.begin({"a": torch.ones(2)})
    one.write(0, b"")
    other.begin({"a": torch.ones(2)})
    one.write(4, b"")
    other.write(8, b"")
    one.write(12, b"")
    assert sorted(path.name for path in (tmp_path / "watch").glob("step-*")) == ["step-0", "step-8"]
    assert sum("another training writes into" in message for message in caplog.messages) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(HfposembError, match="cannot write into"):
        trainer(tmp_path, hpe.EmbeddingWatch(folder=tmp_path / "file" / "watch")).train()
