"""Hub sources in the app: read in the background, for whoever waits, stopped for certain; suggestions while typing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np
import pytest
from hfposemb.app.jobs import fetching
from hfposemb.app.jobs.fetching import Fetch, Fetches, megabytes, reading
from hfposemb.app.session import opening
from hfposemb.app.session.opened import WAITING, left_out, split, waiting
from hfposemb.app.session.source_names import HUB_PRESETS, choices, short_name
from hfposemb.app.session.state import Session
from hfposemb.app.session.suggestions import MOST, Suggestions

import hfposemb as hpe
from hfposemb import app
from hfposemb.errors import CancelledError, HubError
from tests.conftest import FULL
from tests.hub import FakeHub
from tests.hub.gpt2 import small_gpt2
from tests.support.app.sessions import open_session

REPO = "somebody/gpt"
files = partial(small_gpt2, 9000, 4096, 64)


@pytest.fixture
def repo(hub: FakeHub) -> str:
    hub.add(REPO, files())
    return REPO


session_of = partial(open_session, tab="positions", needs=("position",))


async def fetched(session: Session, *sources: str, page: str = "page") -> list[Fetch]:
    wanted = session.wanted(session.open(sources))
    async with aclosing(session.library.fetches.follow(page, sources, wanted)) as follow:
        return [shown async for shown in follow][-1]


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_hub_source_waits_until_its_tables_are_here(hub: FakeHub, repo: str) -> None:
    session = session_of()
    (opened,) = session.open([repo])
    assert opened.error == WAITING
    assert not hub.requests, "what draws never asks the network"
    (one,) = asyncio.run(fetched(session, repo))
    assert one.error is None
    (opened,) = session.open([repo])
    assert not opened.error
    assert hub.cdn_bytes == 100_000 + 4096 * 64 * 4
    before = len(hub.requests)
    assert np.array_equal(opened.embeddings.position.table.vectors, hpe.extract(repo).position.table.vectors)
    assert [one.method for one in hub.requests[before:]] == ["HEAD"], "the second extract's"
    # Another tab needs more.
    assert waiting(session.at("tokens", ("token",)).open([repo]))
    asyncio.run(fetched(session.at("tokens", ("token",)), repo))
    assert not waiting(session.at("tokens", ("token",)).open([repo]))
    foot = app.provenance(session.open([repo, "sinusoidal:8x4"]))
    assert "commit " in foot
    assert f"of {megabytes(len(files()['model.safetensors']))}" in foot
    assert "wpe.weight 4,096 × 64 F32" in foot


def test_what_needs_no_network_is_never_fetched() -> None:
    session = session_of()
    assert not session.wanted(session.open(["sample:bert", "sinusoidal:8x4", "./absent", "random:8x4"]))


def test_a_failing_source_leaves_the_others(hub: FakeHub, repo: str) -> None:
    session = session_of()
    bad, good = asyncio.run(fetched(session, "nobody/nothing", repo))
    assert isinstance(bad.error, HubError)
    assert good.error is None
    told = opening.with_problem(opening.told_of({}, [repo]), "positions", "nobody/nothing", str(bad.error))
    first, second = session.open(["nobody/nothing", repo], told)
    assert "not a public model" in first.error
    assert second.embeddings is not None
    # Taken away and chosen again it is tried again; in place it is not.
    assert not opening.told_of(told, [repo])["problems"]["positions"]
    assert opening.told_of(told, [repo, "nobody/nothing"])["problems"]["positions"]


def test_no_request_of_strangers_carries_a_token(hub: FakeHub, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("owner/secret", files(seed=1), private=True)
    hub.grant("hf_owner", {"owner/secret"})
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    session = session_of()
    (one,) = asyncio.run(fetched(session, "owner/secret"))
    assert one.error is None, "the user's own token reads the user's models"
    before = len(hub.requests)
    public = Session(True, (), session.sources, session.active, session.tabs, library=session.library)
    public = public.at("positions", ("position",))
    assert waiting(public.open(["owner/secret"])), "what a token opened is not there for strangers"
    refused, given = asyncio.run(fetched(public, "owner/secret", repo))
    assert isinstance(refused.error, HubError)
    assert given.error is None
    asyncio.run(Suggestions().find("secret", public=True))
    assert hub.requests[before:]
    assert not [one for one in hub.requests[before:] if "authorization" in one.headers]


# --- stopping --------------------------------------------------------------------------------------------------------


async def stopped_by(session: Session, stop: Callable[[Any], Any], repo: str) -> None:
    follow: Any = session.library.fetches.follow("page", [repo], session.wanted(session.open([repo])))
    async for read in follow:
        if read[0].done > 150_000:
            break
    await stop(follow)


async def settled(hub: FakeHub) -> int:
    """Wait until nothing more is sent, and return how much was."""
    seen, before = -1, 0
    while seen != before:
        seen, before = before, hub.cdn_bytes
        await asyncio.sleep(0.2)  # a rate lets ten pieces through in this time
    return seen


@pytest.mark.parametrize("how", ["cancel", "closed page"])
def test_a_read_that_nobody_wants_is_stopped(
    hub: FakeHub, repo: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "GRACE", 0.2)
    hub.shape(rate=400_000)
    session = session_of()

    async def cancel(follow: AsyncIterator[Any]) -> None:
        session.library.fetches.stop("page")
        with pytest.raises(CancelledError):
            async for _ in follow:
                pass

    async def close(follow: Any) -> None:
        await follow.aclose()

    async def run() -> int:
        await stopped_by(session, cancel if how == "cancel" else close, repo)
        return await settled(hub)

    assert asyncio.run(run()) < 100_000 + 4096 * 64 * 4
    assert waiting(session.open([repo]))
    hub.shape(rate=None)
    (one,) = asyncio.run(fetched(session, repo))
    assert one.error is None
    assert not waiting(session.open([repo]))


def test_one_page_goes_on_when_another_stops(hub: FakeHub, repo: str) -> None:
    hub.shape(rate=1_200_000)
    session = session_of()

    async def run() -> list[Fetch]:
        other = asyncio.create_task(fetched(session, repo, page="other"))
        await stopped_by(session, lambda follow: follow.aclose(), repo)
        session.library.fetches.stop("page")
        return await other

    (one,) = asyncio.run(run())
    assert one.error is None
    assert hub.cdn_bytes == 100_000 + 4096 * 64 * 4, "it was read once for both"


def test_reads_under_way_are_bounded() -> None:
    fetches, going, most = Fetches(most=2), [0], [0]

    def work(fetch: Fetch) -> None:
        going[0] += 1
        most[0] = max(most[0], going[0])
        time.sleep(0.05)
        going[0] -= 1

    async def run() -> None:
        async for _ in fetches.follow("page", None, dict.fromkeys(range(8), ("x", work))):
            pass

    asyncio.run(run())
    assert most[0] == 2


def test_progress_in_words() -> None:
    fetch = Fetch("gpt2", began=time.monotonic() - 2, done=1_200_000)
    assert "reading gpt2 · 1.2 MB · " in str(reading([fetch]))
    fetch.expect(2_000_000)
    said = str(reading([fetch]))
    assert said.startswith("reading gpt2 · 1.2 MB of 3.2 MB · ")
    assert said.endswith(" s left")
    assert reading([fetch]).share == pytest.approx(1.2 / 3.2)
    assert [megabytes(count) for count in (7, 1_000, 548_105_171, 3_200_000_000)] == [
        "7 bytes",
        "1.0 kB",
        "548 MB",
        "3.2 GB",
    ]


# --- presets ---------------------------------------------------------------------------------------------------------


ONE_OF_EACH = {kin: preset for preset, kin in HUB_PRESETS.items()}.values()
"""A preset for each sample that can take its place: each is asked for several times until it is given up."""


@pytest.mark.parametrize("preset", HUB_PRESETS if FULL else ONE_OF_EACH)
def test_a_preset_that_cannot_be_reached_is_shown_by_its_sample(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(
        huggingface_hub.constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}",
    )
    session = session_of()
    (one,) = asyncio.run(fetched(session, preset))
    assert one.error is not None
    told = opening.without_network(opening.told_of({}, ["sample:bert", preset, "sinusoidal:8x4"]), preset, one.error)
    kin = HUB_PRESETS[preset]
    expected = (
        ["sample:bert", "sample:gpt2", "sinusoidal:8x4"] if kin == "sample:gpt2" else ["sample:bert", "sinusoidal:8x4"]
    )
    assert told["texts"] == expected, "no source twice"
    (notice,) = told["notices"]
    assert "cannot be reached" in notice
    assert f"{short_name(kin)} is shown instead" in notice
    assert all(source.embeddings is not None for source in session.open(told["texts"], told))


def test_presets_have_readable_names() -> None:
    names = {text: name for name, text in choices([], session_of().presets)}
    assert names["openai-community/gpt2"] == "GPT-2"
    assert len(set(names.values())) == len(names)


def test_first_paint_asks_nobody(hub: FakeHub) -> None:
    app.build()
    app.build(sources=(REPO, "sinusoidal:8x4"))
    assert not hub.requests


# --- suggestions -----------------------------------------------------------------------------------------------------


def test_suggestions_are_few_popular_and_remembered(hub: FakeHub) -> None:
    for number in range(12):
        hub.add(f"somebody/bert-{number}", {"config.json": "{}"}, downloads=number)
    suggestions = Suggestions()
    found = asyncio.run(suggestions.find("bert", public=True))
    assert found == tuple(f"somebody/bert-{number}" for number in range(11, 11 - MOST, -1))
    before = len(hub.requests)
    assert asyncio.run(suggestions.find("BERT ", public=True)) == found
    assert len(hub.requests) == before


@pytest.mark.parametrize(
    "typed", ["", "b", "./folder", "~/x", "sample:bert", "a b", "a\nb", "<b>", "x" * 200, "\u202eab"]
)
def test_nothing_but_a_possible_name_is_sent(hub: FakeHub, typed: str) -> None:
    assert asyncio.run(Suggestions().find(typed, public=False)) == ()
    assert not hub.requests


def test_suggestions_fail_in_silence(hub: FakeHub) -> None:
    hub.fault("status", times=None, code=500)
    assert asyncio.run(Suggestions().find("bert", public=True)) == ()
    assert len(hub.requests) <= 4, "tried a few times, and given up"


def test_only_what_was_typed_last_is_asked_for(hub: FakeHub) -> None:
    suggestions = Suggestions()
    hub.add("somebody/bert", {"config.json": "{}"})

    async def type_it() -> list[Any]:
        return await asyncio.gather(
            *(suggestions.after_quiet("page", text, public=True) for text in ("be", "ber", "bert"))
        )

    assert asyncio.run(type_it()) == [None, None, ("somebody/bert",)]
    assert len(hub.requests) == 1


def test_a_ninth_source_is_said_to_be_left_out() -> None:
    shown, beyond = split(
        [" sample:bert ", "sample:bert", "", "gpt2", *(f"a/{name}" for name in "bcdefg"), "me/roberta", "random:8x4"]
    )
    assert shown == ["sample:bert", "gpt2", *(f"a/{name}" for name in "bcdefg")]
    assert left_out(beyond) == ["Up to 8 sources are shown; roberta and Untrained were left out."]
    assert left_out(beyond[:1]) == ["Up to 8 sources are shown; roberta was left out."]
    assert left_out(()) == []
    assert split(None) == ([], [])
