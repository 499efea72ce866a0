"""A bug behind one panel is one line in it: the other panels go on, and the details are in a file."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
from hfposemb.app import failures
from hfposemb.app.components.events import State
from hfposemb.app.components.plot import Panel, PanelRow
from hfposemb.app.failures import BugError, said_of
from hfposemb.app.jobs import queue as lines
from hfposemb.app.session.background_jobs import Request
from hfposemb.app.session.guard import guarded
from hfposemb.app.session.library import Library
from hfposemb.app.session.state import Session

from hfposemb import app
from hfposemb.errors import InputError, SourceError
from hfposemb.tables.closed_forms import BUILTINS
from tests.support.app.serving import Visitor, called, visited
from tests.support.processes import errands

LOCAL = re.compile(r"Something went wrong while computing this: (.*)\. Details were written to (\S+\.txt)")
PUBLIC = re.compile(
    r"Something went wrong while computing this\. If you report it, include the reference [0-9a-f]{8}\."
)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is written out of the user's own folder."""
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(failures, "_known", OrderedDict())
    return tmp_path / "cache"


def fault(text: str) -> Exception:
    """Return a bug as it is caught."""
    try:
        raise KeyError(text)
    except KeyError as error:
        return error


def test_bug_is_said_with_its_file_here_and_by_a_reference_to_strangers(
    cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = LOCAL.fullmatch(said_of(fault("a"), public=False))
    assert found[1] == "KeyError: 'a'"
    text = Path(found[2]).read_text()
    assert "KeyError: 'a'" in text
    assert "in fault" in text
    assert Path(found[2]).parent == cache_folder / "faults"
    said = said_of(fault("b"), public=True)
    assert PUBLIC.fullmatch(said)
    assert "/" not in said
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 2, "whoever runs the server learns of both, once"
    assert str(cache_folder) in printed
    assert "Traceback" not in printed


def test_one_bug_has_one_report_whatever_a_visitor_writes(
    cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {said_of(fault(f"written by {number}\nin two lines"), public=True) for number in range(300)}
    assert len(said) == 1
    (report,) = (cache_folder / "faults").glob("*.txt")
    assert "happened  256 times" in report.read_text()
    assert len(capsys.readouterr().err.splitlines()) == 9, "once, and for 2, 4, 8 … 256 times"
    assert said_of(ZeroDivisionError("elsewhere"), public=True) not in said


def test_bug_of_a_child_keeps_the_childs_traceback() -> None:
    found = LOCAL.fullmatch(said_of(BugError("Traceback of the child\nOSError: no room\n"), public=False))
    assert found[1] == "OSError: no room"
    assert "Traceback of the child" in Path(found[2]).read_text()


def test_errors_of_ours_keep_their_words() -> None:
    for error in (InputError("write less"), SourceError("write less")):
        assert said_of(error, public=False) == said_of(error, public=True) == "write less"
    assert "not enough memory" in said_of(MemoryError(), public=False)


def test_tracebacks_are_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show_tracebacks(True)
    try:
        said_of(fault("printed"), public=False)
    finally:
        failures.show_tracebacks(False)
    assert "KeyError: 'printed'" in capsys.readouterr().err


def raising(error: Exception) -> Any:
    """Return a handler that raises."""

    def handler(*_: Any) -> Any:
        raise error

    return handler


def test_handler_says_a_bug_in_the_panels_it_was_to_draw() -> None:
    with gr.Blocks():
        row, page, state = PanelRow(), gr.HTML(), gr.State()
    shown = guarded(raising(KeyError("x")), public=True, outputs=[state, row, page])("a")
    assert set(shown) == {row, page}
    (panel,) = shown[row]
    assert isinstance(panel, Panel)
    assert PUBLIC.fullmatch(panel.message)
    assert panel.tone == "error"
    assert 'role="alert"' in shown[page]
    (panel,) = guarded(raising(KeyError("x")), public=True, outputs=[row])("a")[row]
    assert PUBLIC.fullmatch(panel.message)
    with pytest.raises(gr.Error, match="include the reference"):
        guarded(raising(KeyError("x")), public=True, outputs=[state])("a")
    with pytest.raises(gr.Error, match="write less"):
        guarded(raising(InputError("write less")), public=True, outputs=[row])("a")
    with pytest.raises(gr.Error, match="as it is"):
        guarded(raising(gr.Error("as it is")), public=True, outputs=[row])("a")


# --- on a page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faulty() -> Iterator[None]:
    """A built-in whose rows cannot be computed, for a reason that nobody foresaw, and one that cannot be opened."""

    def rows(*_: Any) -> np.ndarray:
        raise ZeroDivisionError("planted in the rows")

    class Options(dict[str, Any]):
        def items(self) -> Any:
            raise ZeroDivisionError("planted in the opening")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BUILTINS, "faulty", replace(BUILTINS["sinusoidal"], rows=rows))  # type: ignore[arg-type]
        patch.setitem(BUILTINS, "closed", replace(BUILTINS["sinusoidal"], options=Options()))  # type: ignore[arg-type]
        yield


@pytest.fixture(scope="module")
def page(faulty: None, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """The page of an app, where faults are planted; a parameter says whether it is for strangers."""
    public = getattr(request, "param", False)
    blocks = app.launch(("sinusoidal:16x8",), public=public, warm=False, prevent_thread_lock=True, quiet=True)
    with visited(blocks) as visitor:
        yield visitor


def said_in(page: Visitor) -> list[tuple[str, str]]:
    """Return what the page's panels say in place of pictures, by their keys."""
    rows = [json.loads(one["row"]) for one in page.values.values() if isinstance(one, dict) and one.get("row")]
    return [(panel["key"], panel["message"]) for row in rows if row for panel in row["panels"]]


@pytest.mark.parametrize("page", [False, True], indirect=True, ids=["local", "public"])
def test_bug_in_one_source_leaves_the_page_at_work(page: Visitor, request: pytest.FixtureRequest) -> None:
    wanted = PUBLIC if request.node.callspec.params["page"] else LOCAL
    page.show("Positions")
    page.choose(["sinusoidal:16x8", "faulty:16x8"])
    assert list(dict.fromkeys(key for key, said in said_in(page) if wanted.fullmatch(said))) == ["failed"]
    said = json.dumps(page.heard)
    assert ("planted" in said) is (wanted is LOCAL), "a stranger learns no text of an exception"
    assert "Traceback" not in said
    page.choose(["sinusoidal:16x8", "closed:16x8"])
    alerts = [value for value in page.values.values() if isinstance(value, str) and 'role="alert"' in value]
    assert any(wanted.search(one) for one in alerts), alerts
    assert ("sinusoidal:16x8", "") in said_in(page), "the other source is drawn"
    assert "failed" not in dict(said_in(page))
    page.choose(["sinusoidal:16x8", "random:16x8"])
    assert not [value for value in page.values.values() if isinstance(value, str) and 'role="alert"' in value]


@pytest.mark.parametrize("page", [False], indirect=True, ids=["local"])
def test_endpoint_answers_a_bug_with_one_line(page: Visitor) -> None:
    answer = called(page.client, "neighbours", "faulty:16x8", "0", 3, "cosine", "position", False)
    assert answer.startswith("event: error")
    assert LOCAL.search(answer), answer
    assert "Traceback" not in answer


def test_bug_in_a_child_is_said_in_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfposemb.app.session.background_jobs.LINE", lines.Line())
    with gr.Blocks() as blocks:
        session = Session(False, (), State([]), State(""), gr.Tabs(), library=Library())

        umaps = session.jobs.bind(lambda one: Request("key", errands.failing))
        start = gr.Button("Start")
        start.click(lambda: [["x"]], None, umaps.wanted)
    with visited(blocks) as page:
        page.act(page.find(lambda one: one.get("value") == "Start"), "click")
        said = next(value for value in page.values.values() if isinstance(value, str) and "failed" in value)
        found = LOCAL.search(said)
        assert found is not None, said
        assert "KeyError: 'planted, public False'" in Path(found[2]).read_text()


def test_what_failed_is_computed_again_on_a_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfposemb.app.session.background_jobs.LINE", lines.Line())
    wanted, asked = [["x"]], []

    def asks(one: list[str]) -> Request:
        asked.append(one)
        return Request("key", errands.failing)

    with gr.Blocks() as blocks:
        session = Session(False, (), State([]), State(""), gr.Tabs(), library=Library())
        job = session.jobs.bind(asks)
        job.done.change(lambda done: [] if job.failed(done, wanted) else wanted, job.done, job.wanted)
        gr.Button("Start").click(lambda: wanted, None, job.wanted)
        job.again_on(gr.Button("Again").click)
    with visited(blocks) as page:
        counts = []
        for button in ("Start", "Again", "Again"):
            page.act(page.find(lambda one, button=button: one.get("value") == button), "click")
            page.act(job.done._id, "change")  # a page hears of each answer of a job, not of the last alone
            counts.append(len(asked))
    assert counts == [counts[0], 2 * counts[0], 3 * counts[0]]
    assert counts[0]
