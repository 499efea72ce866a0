"""The check of files on Start: its sentences are those of the report, and strangers get no more than they may read."""

from __future__ import annotations

import html
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hfposemb.app.findings.start import file_checks
from hfposemb.app.findings.start.file_checks import (
    QUESTION,
    check_key,
    checked,
    counted,
    has_files,
    heading,
    known,
    page,
)
from hfposemb.app.jobs.measuring import check as check_in_child
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb.checks.check_report import CheckReport
from hfposemb.checks.findings import Finding
from hfposemb.errors import HfposembError, SourceError
from tests.checks.planted import change, llama
from tests.hub import FakeHub
from tests.support.app.models import WORDS, checkpoint
from tests.support.app.sessions import computed, open_session

HOSTILE = "<img src=x onerror=alert(1)>"


def finished(session: Session, *texts: str) -> None:
    """Run the job of the fold."""
    computed(session, [[text] for text in texts], partial(file_checks.check_request, session))


def test_a_fault_is_said_with_severity_reason_and_fix(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    folder = llama(tmp_path / "broken")
    change(folder, tie_word_embeddings=True)
    session = open_session()
    opened = session.open((str(folder), "sample:gpt2", "sinusoidal:8x4"))
    found = checked(opened, session)
    assert [one.name for one in found] == [opened[0].name, opened[1].name], "a closed form has no files"
    report = hpe.check(folder)
    assert found[opened[0]] == report
    assert heading(found) == f"{QUESTION} 1 wrong in broken; nothing in {opened[1].name}"
    said = html.unescape(page(found, [opened[2]]))
    (one,) = report.findings
    for text in (one.message, one.why, one.fix, report.summary, *report.checked):
        assert text in said
    assert "</span> Wrong</strong>" in said, "a word, not colour alone"
    assert f'hpe.check("{folder}")' in said
    assert f"hfposemb check {folder} sample:gpt2" in said
    assert f"{opened[2].name} is computed and has no files." in said
    change(folder, tie_word_embeddings=False)
    assert heading(checked(opened, session)) == f"{QUESTION} Nothing in broken and {opened[1].name}", "files changed"


def test_what_a_file_says_is_text() -> None:
    bad = Finding("x", "suspicious", HOSTILE, {}, HOSTILE, HOSTILE, HOSTILE)
    source = Opened("owner/name", HOSTILE, "", "")
    report = CheckReport(HOSTILE, (bad, bad), (HOSTILE,), (HOSTILE,))
    said = page({source: report}, [Opened("sinusoidal:8x4", HOSTILE, "", "")])
    assert "<img" not in said
    assert said.count("&lt;img") >= 9
    assert counted(report) == "2 suspicious"
    one = Finding("x", "note", "m", {}, "w", "f")
    assert [counted(CheckReport("x", (one,) * count)) for count in (1, 2)] == ["1 note", "2 notes"]


def test_only_small_local_checkpoints_are_checked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "bert", WORDS)
    session = open_session()
    opened = session.open((folder, "sample:bert"))
    monkeypatch.setattr(file_checks, "CHECKED_AT_ONCE", 10)
    found = checked(opened, session)
    assert [report is None for report in found.values()] == [True, False]
    finished(session, folder)
    assert known(opened, session)[opened[0]] == hpe.check(folder), "the job gives what the library does"


def test_a_source_that_fails_leaves_the_others(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "bert", WORDS)
    session = open_session()
    with pytest.raises(HfposembError, match=r"absent: .*does not exist") as failed:
        finished(session, str(tmp_path / "absent"), folder)
    assert "\n" not in str(failed.value)
    found = known(session.open((folder,)), session)
    assert found
    assert None not in found.values()


def test_strangers_get_no_local_files(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "bert", WORDS)
    session = open_session(public=True)
    (source,) = session.open((folder,))
    assert not has_files(source, session)
    assert checked([source], session) == {}
    with pytest.raises(SourceError, match="folders and files can be opened only if"):
        finished(session, folder)


@pytest.fixture
def owned(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Offer a model as owner/open, and privately as owner/secret to the token of this process; return its folder."""
    folder = Path(checkpoint(tmp_path / "bert", [*WORDS, "[MASK]"]))
    files = {path.name: path for path in folder.iterdir()}
    hub.add("owner/open", files)
    hub.add("owner/secret", files, private=True)
    hub.grant("hf_owner", {"owner/secret"})
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    return folder


def test_a_check_for_strangers_carries_no_token(hub: FakeHub, owned: Path) -> None:
    def run(text: str, *, public: bool) -> Any:
        return check_in_child(text, lambda share, doing: None, public=public)

    assert run("owner/secret", public=False).commit, "the user's own token reads the user's models"
    before = len(hub.requests)
    assert run("owner/open", public=True).findings == hpe.check(owned).findings
    with pytest.raises(HfposembError):
        run("owner/secret", public=True)
    assert hub.requests[before:]
    assert not [one for one in hub.requests[before:] if "authorization" in one.headers]
    assert check_key("owner/open", public=True) != check_key("owner/open", public=False)


def test_the_code_of_a_report_gives_its_numbers() -> None:
    session = open_session("sample:minilm", "sample:gpt2")
    said = page(checked(session.open(session.first), session), [])
    python = html.unescape(re.findall(r'aria-label="Python" role="group">(.*?)</pre>', said, flags=re.S)[0])
    names: dict[str, Any] = {}
    exec(compile(python, "snippet", "exec"), names)
    assert names["shown"]["sample:minilm"] == {"wrong": 0, "suspicious": 0, "note": 0}
    assert "0 wrong, 0 suspicious, 0 notes" in said


def test_the_job_for_strangers_reads_public_models_only(hub: FakeHub, owned: Path) -> None:
    session = open_session(public=True)
    with pytest.raises(HfposembError, match="not a public model"):
        finished(session, "owner/secret", "owner/open")
    results = session.library.results
    assert results.get(check_key("owner/secret", public=True)) is None
    assert results.get(check_key("owner/open", public=True)).findings == hpe.check(owned).findings
    assert not [one for one in hub.requests if "authorization" in one.headers]
