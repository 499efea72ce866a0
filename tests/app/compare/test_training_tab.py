"""The Training tab without a browser: which runs there are, what the panels say, and what its job does."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
from hfposemb.app.components.plot import Panel
from hfposemb.app.findings import training_run
from hfposemb.app.findings.training_run import (
    LAST,
    PATTERN,
    Moment,
    Run,
    beyond_chance,
    chosen_run,
    in_folder,
    run_key,
    run_of,
    runs_of,
)
from hfposemb.app.jobs import measuring
from hfposemb.app.jobs.measuring import Training
from hfposemb.app.limits import PUBLIC_CHECKPOINTS
from hfposemb.app.session.background_jobs import Request
from hfposemb.app.session.library import Library
from hfposemb.app.session.state import Session
from hfposemb.app.tabs import training
from hfposemb.app.tabs.training import of_steps

from hfposemb.errors import HfposembError, SourceError
from hfposemb.samples import folder
from hfposemb.surveys.source_lists import revisions
from hfposemb.surveys.training_run import Course, Trajectory, trajectory
from hfposemb.surveys.worker_pool import Engine
from tests.support.app.sessions import computed, open_session

STEPS = "step-[0-4]*"


@pytest.fixture(scope="module")
def gpt2() -> Trajectory:
    """A few steps of a sample, with a figure."""
    return trajectory(revisions("sample:gpt2", STEPS), metrics=["mean cosine at*"], draws=3, engine=Engine(workers=1))


session_of = partial(open_session, tab="training")


def moment_of(found: Trajectory, place: int, *, total: int = 0) -> Moment:
    (source,) = runs_of(session_of().open(["sample:gpt2"])).values()
    return Moment(Run(source, found.role, STEPS, 40), found, place, total or len(found.steps))


@pytest.mark.parametrize(
    ("source", "run"),
    [
        ("sample:gpt2", "sample:gpt2"),
        ("sample:gpt2@step-100", "sample:gpt2"),
        ("EleutherAI/pythia-70m@step1000", "EleutherAI/pythia-70m"),
        ("./out", "./out"),
        ("sample:minilm", None),
        ("sinusoidal:8x4", None),
        ("", None),
        ("no such thing", None),
    ],
)
def test_the_run_that_a_source_is_a_moment_of(source: str, run: str | None) -> None:
    assert run_of(source) == run


def test_each_run_is_offered_once_in_the_colour_of_its_first_source() -> None:
    opened = session_of().open(["sinusoidal:32x8", "sample:gpt2@step-100", "sample:gpt2", "sample:bert"])
    runs = runs_of(opened)
    assert {text: (source.name, source.color) for text, source in runs.items()} == {
        "sample:gpt2": ("Demo GPT-2", opened[1].color),
        "sample:bert": ("Demo BERT", opened[3].color),
    }
    assert runs["sample:gpt2"].embeddings is None, "what is open is a moment of it"
    run = chosen_run(opened, "gone", "Positions", " ", public=True)
    assert run.wanted == ["sample:gpt2", "position", PATTERN, PUBLIC_CHECKPOINTS]
    assert chosen_run(opened[:1], "", "Positions", "", public=False) is None


def test_the_panels_say_what_is_at_a_step(gpt2: Trajectory) -> None:
    last = len(gpt2.steps) - 1
    first, turned = (training_run.moment_panels(moment_of(gpt2, place)).panels for place in (0, last))
    assert first[0].title == "At step 0, the aligned map differs from the final one by 99\u00a0%"
    assert turned[0].title == "Final map, step 2,000 (the others are aligned to it)"
    cosine = gpt2.courses["mean cosine at distance 1"].values
    assert first[1].title.endswith("neighbouring positions have a mean cosine of .000")
    assert f"{cosine[-1]:.3f}".lstrip("0") in turned[1].title
    np.testing.assert_array_equal(turned[1].drawings[0].figure.data[0].z, gpt2.cosines[last])
    assert re.fullmatch(
        rf"PCA · 256 positions · all {last + 1} checkpoints · \d+ dots? outside the map", turned[0].foot
    )
    found = replace(gpt2, missing={"sample:gpt2@step-1": "it is <b>gone</b>"})
    foot = training_run.moment_panels(moment_of(found, 0, total=150)).panels[0].foot
    assert f"{last + 1} of 150 checkpoints" in foot
    assert "1 cannot be read: sample:gpt2@step-1: it is <b>gone</b>" in foot


def test_a_figure_by_step_stands_beside_chance(gpt2: Trajectory) -> None:
    name = "mean cosine at distance 4"

    def lines(panel: Panel) -> dict[str, Any]:
        return {one.name: one for one in panel.drawings[0].figure.data if one.mode == "lines" and one.name}

    course, alike = training_run.course_panels(moment_of(gpt2, 1), name).panels
    assert course.title.startswith("Mean cosine at distance 4: .0015 at step 0, ")
    np.testing.assert_allclose(lines(course)["Demo GPT-2"].y, gpt2.courses[name].values)
    assert "chance" not in lines(course), "positions have none"
    assert [shape.x0 for shape in course.drawings[0].figure.layout.shapes] == [gpt2.steps[1]]
    np.testing.assert_array_equal(alike.drawings[0].figure.data[0].z, gpt2.likeness)
    fallen_back, _ = training_run.course_panels(moment_of(gpt2, 1), "no such figure").panels
    assert fallen_back.title.startswith("CKA with the last: ")
    assert not fallen_back.subtitle
    mean, low, high = (np.full(len(gpt2.steps), value) for value in (0.5, 0.4, 0.6))
    of_tokens = replace(gpt2, courses={name: replace(gpt2.courses[name], mean=mean, low=low, high=high)})
    drawn, _ = training_run.course_panels(moment_of(of_tokens, 1), name).panels
    np.testing.assert_allclose(lines(drawn)["chance"].y, mean)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.5, 0.5, 2.0], "From step 20 on, it is outside the chance level."),
        ([2.0, 2.0, 2.0], "From step 0 on, it is outside the chance level."),
        ([2.0, 2.0, 0.5], "At the last step, it is within the chance level."),
        ([2.0, 0.5, -1.0], "From step 20 on, it is outside the chance level."),
        ([2.0, 2.0, np.nan], "At the last step, it is within the chance level."),
    ],
)
def test_since_when_a_figure_is_beyond_chance(gpt2: Trajectory, values: list[float], said: str) -> None:
    ends = np.array([[0.5] * 3, [0.0] * 3, [1.0] * 3])
    found = replace(gpt2, steps=(0, 10, 20))
    assert beyond_chance(found, Course("one", "", np.array(values), *ends)) == said


def test_the_slider_names_its_steps(gpt2: Trajectory) -> None:
    found = json.loads(of_steps((0, 500, 12_000), 1)["value"])
    assert found == {"steps": ["0", "500", "12,000"], "at": 1}


def handlers(sources: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[Session, dict[str, Any]]:
    """Draw the tab, and return its session and what draws there, by name."""
    bound: dict[str, Any] = {}

    def note(session: Session, on: Any, draw: Any, outputs: Any, **more: Any) -> None:
        bound[draw.__name__] = draw

    monkeypatch.setattr(Session, "when", note)
    with gr.Blocks():
        session = Session(False, sources, gr.State([]), gr.State(""), gr.Tabs(), library=Library(), **more)
        session = session.at("training", ())
        training.tab(session)
    return session, bound


def test_a_run_is_wanted_until_it_is_there(gpt2: Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    session, bound = handlers(("sample:gpt2", "random:8x4"), monkeypatch)
    draw = partial(bound["draw_run"], session.open(session.first), "", "Positions", STEPS, "CKA with the last")
    *_, wanted, retry = draw(LAST)
    assert wanted == [["sample:gpt2", "position", STEPS, 40]]
    assert not retry["visible"]
    failed = {"ok": False, "wanted": wanted}
    panels, _, _, again, retry = draw(LAST, failed)
    assert (again, retry["visible"]) == ([], True)
    assert panels.panels[0].message == training.FAILED
    session.library.results.put(run_key(wanted[0], public=False), Training(gpt2, 99))
    panels, courses, slider, again, _ = draw(130.0)
    assert again == []
    assert json.loads(slider["value"])["at"] == 1, "the nearest step"
    assert panels.panels[0].title.startswith("At step 100, ")
    assert courses.panels[0].key == "training-course"
    panels, *_ = bound["draw_run"](session.open(["random:8x4"]), "", "Positions", STEPS, "", LAST)
    assert "sample:gpt2" in panels.panels[0].message


def test_fields_offer_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    session, bound = handlers(("sample:gpt2", "sample:bert"), monkeypatch)
    which, of, figure, by = bound["draw_fields"](session.open(session.first), "gone", "Tokens", "helix period")
    assert which["choices"] == [("Demo GPT-2", "sample:gpt2"), ("Demo BERT", "sample:bert")]
    assert (which["value"], of, by) == ("sample:gpt2", "sample:gpt2", "CKA with the last")
    assert by in figure["choices"]


def test_the_job_follows_a_run_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path))
    session = session_of("sample:gpt2")
    wanted = ["sample:gpt2", "position", "step-?00", 3]

    request = Request(run_key(wanted, public=False), measuring.training, (*wanted, 2))
    computed(session, [wanted], lambda one: request)
    found = session.library.results.get(run_key(wanted, public=False))
    assert found.run.steps == (100, 400, 800)
    assert found.total == 7
    told: list[str] = []
    measuring.training(*wanted, 2, lambda _, doing: told.append(doing))  # a child tells only what lasts
    assert told[0] == "looking for checkpoints"
    assert len(told) > len(found.run.steps)
    with pytest.raises(HfposembError, match="has no revision matching 'none'"):
        measuring.training("sample:gpt2", "position", "none", 4, 0, lambda share, doing: None)


def test_a_model_in_a_folder_is_no_run(minilm_folder: Path, tmp_path: Path) -> None:
    """Sentence Transformers keeps its pooling in ``1_Pooling`` beside the weights, which is no moment of training."""
    session = session_of("sample:bert")
    assert not runs_of(session.open((str(minilm_folder),)))
    shutil.copytree(folder("bert"), tmp_path / "run")
    run = str(tmp_path / "run")
    for step in (10, 20):
        shutil.copytree(folder("bert"), tmp_path / "run" / f"checkpoint-{step}")
    assert list(runs_of(session.open((run,)))) == [run]
    (opened,) = session.open((f"{run}/checkpoint-10",))
    for options in ("/", "?base=sample:bert", "?base=./a/b"):  # a question mark may be followed by slashes
        assert list(runs_of([replace(opened, text=f"{run}/checkpoint-10{options}")])) == [run]
    assert in_folder(run, "*", public=False) == 2
    assert in_folder(run, "*", public=True) == 0, "a stranger learns of no folder"
    with pytest.raises(SourceError, match="opened only if the app runs on your own machine"):
        run_key(["./out", "position", "*", 4], public=True)


def test_a_folder_is_followed_while_training_goes_on(
    gpt2: Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is read again once there is another checkpoint, while its tab is open; until then the drawing stays."""
    for step in (10, 20):
        shutil.copytree(folder("bert"), tmp_path / f"step-{step}")
    session, _ = handlers((str(tmp_path / "step-10"),), monkeypatch)
    asked = (session.drawn_with("", session.first), str(tmp_path), "Positions", PATTERN)
    assert list(runs_of(session.open(session.first))) == [str(tmp_path)], "the run around a checkpoint"
    assert training.growing(session.open(session.first), str(tmp_path)).active
    grown = training.Handlers(session).grown
    (first,) = grown(*asked, "training", {})
    session.library.results.put(run_key(first, public=False), Training(gpt2, 2))
    idle = gr.skip()
    assert grown(*asked, "training", {}) == idle
    shutil.copytree(folder("bert"), tmp_path / "step-30")
    assert grown(*asked, "compare", {}) == idle
    (second,) = grown(*asked, "training", {"wanted": [first], "ok": True})
    assert second != first, "a state that stays starts no job"
    assert second[:4] == first[:4]
    failed = {"wanted": [second], "ok": False}
    assert grown(*asked, "training", failed) == idle, "what cannot be read is not tried for ever"
    shutil.copytree(folder("bert"), tmp_path / "step-40")
    assert grown(*asked, "training", failed) != idle
    assert not training.growing(session.open(("sample:gpt2",)), "sample:gpt2").active
