"""Sources by the dozen: files of names, searches, revisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfposemb.cli.main import main
from hfposemb.errors import HubError, InputError, SourceError
from hfposemb.surveys.source_lists import in_file, on_hub, revisions, step_of
from tests.hub import FakeHub
from tests.hub.training import RUN, add_run


def test_a_file_names_a_source_a_line(tmp_path: Path) -> None:
    path = tmp_path / "models.txt"
    path.write_text("# the models\nsample:bert  # ours\n\n  owner/name@v1\n./folder#1\n")
    assert in_file(path) == ["sample:bert", "owner/name@v1", "./folder#1"]
    path.write_text("sample:bert\na b\n")
    with pytest.raises(SourceError, match=r"models.txt, line 2: 'a b' is not a source"):
        in_file(path)
    path.write_text("# nothing\n")
    with pytest.raises(SourceError, match="lists no source"):
        in_file(path)
    with pytest.raises(SourceError, match="cannot be read as a list"):
        in_file(tmp_path / "none.txt")


def test_a_search_finds_the_most_downloaded(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.page_size = 2
    for number in range(5):
        hub.add(f"lab/m{number}", {"config.json": b"{}"}, downloads=number, tags=["bert", *(["odd"] * (number % 2))])
    hub.add("else/where", {"config.json": b"{}"}, tags=["bert"])
    assert on_hub(author="lab", limit=3) == ["lab/m4", "lab/m3", "lab/m2"]
    assert on_hub(author="lab", filters=["odd"]) == ["lab/m3", "lab/m1"]
    assert "else/where" in on_hub(filters=["bert"])
    with pytest.raises(InputError, match="no model by nobody with odd on the Hub;"):
        on_hub(author="nobody", filters=["odd"])
    with pytest.raises(InputError, match="limit must be at least 1"):
        on_hub(author="lab", limit=0)
    assert main(["survey", "sample:gpt2", "--limit", "3", "--dry-run"]) == 1
    assert "--limit is of the models of --author or --filter; give one of these" in capsys.readouterr().err
    with hub.fault("status", code=400, times=None), pytest.raises(HubError, match="the Hub returned status 400"):
        on_hub(author="lab")


def test_revisions_of_a_repository(hub: FakeHub) -> None:
    sources = add_run(hub, 12)
    hub.add(RUN, {}, branch="refs/tags/v1.0")
    hub.add(RUN, {}, branch="refs/pr/1")
    assert revisions(RUN, "step*") == sources, "by number, not by letter"
    assert revisions(RUN, "v*") == [f"{RUN}@v1.0"]
    with pytest.raises(
        InputError, match=r"has no revision matching 'refs\*'; its revisions are step0, step1, .*\(13\)"
    ):
        revisions(RUN, "refs*")
    with pytest.raises(HubError, match="not a public model"):
        revisions("lab/none", "*")


def test_revisions_of_what_is_not_on_the_hub(tmp_path: Path) -> None:
    assert revisions("sample:gpt2", "step-?00")[:2] == ["sample:gpt2@step-100", "sample:gpt2@step-200"]
    for step in (1000, 500):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "model.safetensors").touch()
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").touch()
    (tmp_path / "runs.txt").write_text("")
    assert revisions(f"{tmp_path}/", "*") == [f"{tmp_path}/checkpoint-500", f"{tmp_path}/checkpoint-1000"]
    with pytest.raises(InputError, match="it has no checkpoints"):
        revisions(str(tmp_path / "checkpoint-500"), "*")
    with pytest.raises(InputError, match="has no revisions"):
        revisions("sinusoidal:8x4", "*")
    with pytest.raises(SourceError, match="not a folder of checkpoints"):
        revisions("./none", "*")


def test_the_step_in_a_name() -> None:
    names = ("sample:gpt2@step-500", "EleutherAI/pythia-70m@step1000", "./run-2/checkpoint-1500", "a/b@main", "a/b")
    assert [step_of(name) for name in names] == [500, 1000, 1500, None, None]
