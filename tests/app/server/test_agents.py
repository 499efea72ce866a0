"""Agents: the MCP tools through a real client and plain HTTP, where they are on, their page, and the skill."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from hfposemb.app.server.mcp_answers import KEY_METRICS, MOST_CHARACTERS, Answer
from hfposemb.app.server.mcp_server import MOST_CALLS

import hfposemb as hpe
from hfposemb import app
from hfposemb.cli import skill
from hfposemb.cli.main import main
from hfposemb.reports.json_schema import document
from tests.conftest import FULL
from tests.support.app.serving import ENDPOINTS
from tests.support.app.serving import call_tools as call
from tests.support.snippets import run_snippets
from tests.transcript import MODEL, PAGE, SINES, Talk, page, talk

SHORT = "sinusoidal:64x16"


@pytest.fixture(scope="module")
def url(blocks: Any) -> str:
    return str(blocks.local_url).rstrip("/")


@pytest.fixture(scope="module")
def talked(url: str) -> Talk:
    """The talk of a client that answers the six questions."""
    return asyncio.run(talk(url))


def answers(url: str, *calls: tuple[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Call tools and return what they answer, the same as text and as structured content."""
    found = []
    for result, (name, given) in zip(call(url, *calls), calls, strict=True):
        (content,) = result.content
        assert not result.isError, content.text
        assert json.loads(content.text) == result.structuredContent
        assert len(content.text) <= MOST_CHARACTERS or given.get("full"), name
        found.append(result.structuredContent)
    return found


# --- the tools --------------------------------------------------------------------------------------------------------


def test_tools_describe_themselves(talked: Talk) -> None:
    assert [tool.name for tool in talked.tools] == [f"hfposemb_{name}" for name in ENDPOINTS]
    for tool in talked.tools:
        assert len(tool.description) > 100
        assert all(one["description"] for one in tool.inputSchema["properties"].values()), tool.name
        assert tool.outputSchema["properties"], tool.name
        assert tool.annotations.readOnlyHint
    listed = json.dumps([tool.model_dump(exclude_none=True) for tool in talked.tools])
    assert len(listed) < 24_000, "a list of tools stands in every context of an agent"


def test_the_six_questions_are_answered_with_the_figures_of_the_library(talked: Talk) -> None:
    told = page(PAGE.read_text(encoding="utf-8"), talked)
    assert told == PAGE.read_text(encoding="utf-8"), "run python -m tests.transcript"
    assert talked.longest <= MOST_CHARACTERS
    found = {name.partition(" ")[0]: one for name, one in talked.answers.items()}
    compared = document(hpe.compare(hpe.extract(MODEL), hpe.extract(SINES), draws=0))
    for one in found["hfposemb_compare"]["metrics"]:
        expected = [source["metrics"][one["metric"]]["value"] for source in compared["sources"]]
        assert one["values"] == [None if value is None else pytest.approx(value, rel=1e-4) for value in expected]
    named = [one["metric"] for one in found["hfposemb_compare"]["metrics"]]
    assert named[:15] == [name for name in KEY_METRICS if name in named]
    token = hpe.extract(MODEL).token
    cosine = hpe.similarity(token.pick(["king", "queen"]))[0, 1]
    assert found["hfposemb_similarity"]["pairs"][0]["cosine"] == pytest.approx(float(cosine), rel=1e-4)
    near = hpe.neighbours(token, "king", k=3)
    assert [one["row"] for one in found["hfposemb_neighbours"]["neighbours"]] == near.rows.tolist()
    fed = hpe.extract(MODEL).inputs("the king saw the queen")
    lengths = [one["entering_norm"] for one in found["hfposemb_tokenise"]["pieces"]]
    np.testing.assert_allclose(lengths, np.linalg.norm(fed.normed, axis=1), rtol=1e-4)


def test_an_answer_that_was_cut_is_read_on_where_it_ended(url: str) -> None:
    given = {"source": "sample:bert", "query": "king", "limit": 200}
    (first,) = answers(url, ("neighbours", given))
    at = first["left_out"]["next_offset"]
    assert first["left_out"]["neighbours"] == 200 - at
    rest, full = answers(
        url, ("neighbours", {**given, "offset": at, "limit": 20}), ("neighbours", {**given, "full": True})
    )
    expected = hpe.neighbours(hpe.extract("sample:bert").token, "king", k=200)
    rows = [one["row"] for one in (*first["neighbours"], *rest["neighbours"])]
    assert rows == expected.rows.tolist()[: at + 20]
    assert [one["row"] for one in full["neighbours"]] == expected.rows.tolist()
    assert [one["value"] for one in full["neighbours"]] == expected.values.tolist()
    assert "left_out" not in full


def test_a_result_that_is_kept_is_the_same_for_the_next_who_asks(url: str) -> None:
    found = answers(url, *(call for call in ENDPOINTS.items() for _ in range(2)))
    assert found[::2] == found[1::2]


def test_long_answers_are_summarised(url: str) -> None:
    words = ["king", "queen", "bread", "house", "sea", "ship", "man", "woman", "day", "night", "good", "old"]
    four = ["random:96x24", "normalised:96x24", SHORT, "random:64x16"]
    pairs, points, short, found, whole = answers(
        url,
        ("similarity", {"source": "sample:bert", "rows": words}),
        ("project", {"source": SHORT, "dims": 3, "limit": 64}),
        ("compare", {"sources": four}),
        ("check", {"source": "sample:bert"}),
        ("compare", {"sources": four, "full": True}),
    )
    assert len(pairs["pairs"]) + pairs["left_out"]["pairs"] == 66
    assert points["of"] == 64
    projection = hpe.project(hpe.sinusoidal(64, 16).position, dims=3)
    np.testing.assert_allclose(
        [one[2:] for one in points["points"][:5]], projection.coordinates[:5], rtol=1e-3, atol=1e-4
    )
    assert short["sources"] == [source["source"] for source in whole["sources"]]
    assert len(short["pairs"]) == len(whole["pairs"]) == 7
    assert len(json.dumps(whole)) > 20_000
    assert found["passed"] is hpe.check("sample:bert").passed


@pytest.mark.parametrize(
    ("name", "given", "kind", "message"),
    [
        ("info", {"source": "/etc/passwd"}, "SourceError", "can be opened only if the app runs on your own machine"),
        ("info", {}, "InputError", "hfposemb_info needs the parameter source; its parameters: source, full"),
        ("info", {"source": "sample:bert", "k": 3}, "InputError", "hfposemb_info has no parameter 'k'"),
        (
            "neighbours",
            {"source": "sample:bert", "query": "king", "metric": "x"},
            "InputError",
            "metric must be one of cosine, dot, euclidean; got 'x'",
        ),
        (
            "neighbours",
            {"source": "sample:bert", "query": True},
            "InputError",
            "query must be a string of at most 1,024 characters or a whole number; got True",
        ),
        ("tokenise", {"source": SHORT, "text": "a"}, "MissingTableError", "has no computable first-layer input"),
        ("delete", {}, "InputError", "there is no tool 'hfposemb_delete'; the tools: hfposemb_info, "),
    ],
)
def test_errors_are_one_line_with_their_type(
    url: str, name: str, given: dict[str, Any], kind: str, message: str
) -> None:
    (result,) = call(url, (name, given))
    assert result.isError
    (content,) = result.content
    error = json.loads(content.text)["error"]
    assert error["type"] == kind
    assert message in error["message"]
    assert "\n" not in error["message"]


def test_a_bug_is_a_reference_and_nothing_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("canary")

    monkeypatch.setattr("hfposemb.app.server.api.describe", broken)
    (result,) = call(url, ("info", {"source": "sample:bert"}))
    assert result.isError
    error = result.structuredContent["error"]
    assert error["type"] == "UnexpectedError"
    assert "reference" in error["message"]
    assert "canary" not in error["message"]


def test_numbers_may_be_written_as_text(url: str) -> None:
    by_name, by_row = answers(
        url,
        ("neighbours", {"source": "sample:minilm", "query": "king", "limit": "2", "centred": "false"}),
        ("neighbours", {"source": "sample:minilm", "query": 2332, "limit": 2}),
    )
    assert by_name["neighbours"] == by_row["neighbours"]


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_short_whatever_it_holds() -> None:
    facts = {"name": "x", "texts": ["é" * 900] * 50, "deep": {str(one): [0.123456789] * 40 for one in range(200)}}
    for listed in ([], [{"row": row, "value": row / 7} for row in range(5_000)], ["y" * 10_000], [["z" * 4_500] * 30]):
        answer = Answer(facts, "rows", listed).as_json(full=False)
        assert len(json.dumps(answer, ensure_ascii=False)) <= MOST_CHARACTERS
        assert answer["name"] == "x"
        assert "deep" in answer["left_out"]["facts"]
        assert answer["left_out"].get("rows", 0) == len(listed) - len(answer["rows"])
    assert Answer(facts, "rows", [1.23456789]).as_json(full=True) == {**facts, "rows": [1.23456789]}


def test_an_answer_has_no_number_that_json_lacks() -> None:
    answer = Answer({"norm": math.nan, "ratio": [math.inf, 1.0]}, "rows", [{"row": 3, "value": math.nan}])
    assert answer.as_json(full=False) == {"ratio": [None, 1.0], "rows": [{"row": 3}]}
    assert answer.as_json(full=True) == {"norm": None, "ratio": [None, 1.0], "rows": [{"row": 3, "value": None}]}


# --- plain HTTP -------------------------------------------------------------------------------------------------------

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPTED = {"accept": "application/json, text/event-stream"}


def test_routes_are_open_to_strangers(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        for path in ("/gradio_api/mcp", "/gradio_api/mcp/"):
            answer = client.post(path, json=LIST, headers=ACCEPTED)
            assert answer.status_code == 200
            assert "hfposemb_tokenise" in answer.text
            told = client.get(path)
            assert told.status_code == 200
            assert f"claude mcp add --transport http hfposemb {url}/gradio_api/mcp/" in told.text
            assert client.get(path, headers=ACCEPTED).status_code == 405
        listed = client.get("/gradio_api/mcp/schema").json()
        assert [one["name"] for one in listed] == [f"hfposemb_{name}" for name in ENDPOINTS]
        assert all(one["inputSchema"]["properties"] for one in listed)
        assert client.get("/config").json()["mcp_server"] is True
        assert client.post("/gradio_api/mcp/", content=b"x" * 70_000, headers=ACCEPTED).status_code == 413
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "owner-name.hf.space"}
        assert "https://owner-name.hf.space/gradio_api/mcp/" in client.get("/gradio_api/mcp/", headers=forwarded).text


def deep(levels: int) -> Any:
    """Return lists within lists."""
    found: Any = "king"
    for _ in range(levels):
        found = [found]
    return found


def flood(seed: int, count: int) -> Iterator[bytes]:
    """Yield what a client of the protocol would not send, with honest calls in between."""
    draw = random.Random(seed)
    info = {"name": "hfposemb_info", "arguments": {"source": SHORT}}
    honest = {**LIST, "method": "tools/call", "params": info}
    long, nested = {"source": "x" * 60_000}, {"source": SHORT, "x": deep(500)}
    arguments = (
        None,
        [],
        {"source": None},
        {"source": {}},
        {"source": SHORT, "full": "maybe"},
        {"\ud800": 1},
        long,
        nested,
    )
    odd: list[Any] = [
        [], [honest] * 50, None, 7, "x", {}, {**LIST, "jsonrpc": "1.0"}, {**LIST, "id": None}, {**LIST, "id": {"a": 1}},
        {**LIST, "id": 2**70}, {**LIST, "method": "x" * 9_000}, {**LIST, "method": "__class__"}, {**LIST, "params": 3},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
        *({**honest, "params": {**info, "name": name}} for name in ("hfposemb_", "__init__", "\u202e", "x" * 60_000)),
        *({**honest, "params": {**info, "arguments": given}} for given in arguments),
        {**LIST, "method": "initialize", "params": {"protocolVersion": "1066-10-14", "capabilities": {}}},
    ]  # fmt: skip
    for number in range(count):
        body = json.dumps(honest if number % 5 == 0 else draw.choice(odd)).encode()
        if number % 5 == 1:
            at = draw.randrange(len(body))
            body = body[:at] + draw.randbytes(3) + body[at + draw.randrange(4) :]
        yield draw.choice((b"[" * 30_000, b"", b"\xff\xfe{}", body[:-1])) if number % 11 == 3 else body


def test_flood_of_messages_loses_no_call(url: str, capfd: pytest.CaptureFixture[str], caplog: Any) -> None:
    async def drowned() -> tuple[list[httpx.Response], list[int]]:
        room, left = asyncio.Semaphore(16), httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(base_url=url, headers=ACCEPTED, timeout=180, limits=left) as client:

            async def post(body: bytes, number: int) -> httpx.Response | None:
                sent = client.post("/gradio_api/mcp/", content=body, headers={"content-type": "application/json"})
                async with room:
                    if number % 13 != 7:
                        return await sent
                    with suppress(TimeoutError):  # a client that gives up
                        await asyncio.wait_for(sent, 0.02)
                    return None

            bodies = list(flood(33, 2_000 if FULL else 200))
            found = await asyncio.gather(*(post(body, number) for number, body in enumerate(bodies)))
            kept = [number for number, one in enumerate(found) if one is not None]
            return [one for one in found if one is not None], kept

    heard, kept = asyncio.run(drowned())
    for number, answer in zip(kept, heard, strict=True):
        assert answer.status_code in (200, 202, 400), (answer.status_code, answer.text[:200])
        assert "Traceback" not in answer.text
        assert len(answer.text) < 24_000
        if number % 55 == 0:  # honest, and not one of those that were cut
            assert "64" in answer.text, answer.text[:200]
    assert "".join(capfd.readouterr()) + caplog.text == "", "strangers write nothing into the log"
    again = answers(url, *[("info", {"source": SHORT})] * (MOST_CALLS + 1))
    assert all(one == again[0] and one["tables"] for one in again), "every place is free again"


def test_pages_of_other_origins_cannot_use_an_app_that_opens_files() -> None:
    blocks = app.launch((SHORT,), port=None, mcp=True, warm=False, prevent_thread_lock=True, quiet=True)
    try:
        address = f"{blocks.local_url}gradio_api/mcp/"
        own, others = (None, "http://localhost:6274"), ("http://evil.example:7860", "http://[")
        for origin, status in (*((one, 200) for one in own), *((one, 403) for one in others)):
            headers = {**ACCEPTED, **({"origin": origin} if origin else {})}
            assert httpx.post(address, json=LIST, headers=headers).status_code == status, origin
    finally:
        blocks.close()


# --- where they are on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mcp", "variables", "login", "on"),
    [
        (None, {}, False, False),
        (True, {}, False, True),
        (None, {"GRADIO_MCP_SERVER": "True"}, False, True),
        (False, {"GRADIO_MCP_SERVER": "True"}, False, False),
        (None, {"SPACE_ID": "owner/name"}, False, True),
        (None, {"SPACE_ID": "owner/name", "GRADIO_MCP_SERVER": "false"}, False, False),
        (None, {"SPACE_ID": "owner/name"}, True, False),
    ],
)
def test_tools_are_on_where_they_are_wanted_and_on_a_space(
    mcp: bool | None, variables: dict[str, str], login: bool, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRADIO_MCP_SERVER", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert app._serves_tools(mcp, login=login) is on
    monkeypatch.setattr("hfposemb.app.find_spec", lambda name: None)
    if mcp:
        with pytest.raises(hpe.HfposembError, match=r"an MCP server needs the package gradio\[mcp\]"):
            app._serves_tools(mcp, login=login)
    else:
        assert not app._serves_tools(mcp, login=login)


# --- the page and the skill -------------------------------------------------------------------------------------------

SKILL = (skill.FOLDER / "SKILL.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", SKILL, flags=re.S)
    for line in block.splitlines()
    if line.startswith("hfposemb ")
]


def test_skill_has_the_form_that_agents_read() -> None:
    front = yaml.safe_load(SKILL.split("---\n")[1])
    assert front["name"] == skill.FOLDER.name == "hfposemb"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert 100 < len(front["description"]) <= 1024
    assert len(front["compatibility"]) <= 500
    assert len(SKILL.splitlines()) < 500


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_skill_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path / "cache"))
    assert main(shlex.split(line)[1:]) == 0
    printed = capsys.readouterr().out
    if "--json" in line:
        assert json.loads(printed)
    elif "--out" in line:
        assert (tmp_path / line.split()[-1]).stat().st_size > 0


def test_code_of_the_skill_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_snippets(SKILL, {})
    assert "(30522, 384) learned" in capsys.readouterr().out


def test_every_command_that_the_skill_names_exists() -> None:
    assert len(COMMANDS) >= 9
    fields = json.loads(json.dumps(document(hpe.compare(hpe.extract(MODEL), draws=0))))["sources"][0]["metrics"]
    named = re.findall(r"^- `([^`]+)`: ", SKILL.partition("Worth reading first")[2].partition("`pairs`")[0], flags=re.M)
    assert len(named) == 5
    assert set(named) <= set(fields)


def test_skill_is_printed_and_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == SKILL
    assert main(["skill", "--add"]) == 0
    for place in (".agents", ".claude"):
        assert (tmp_path / place / "skills" / "hfposemb" / "SKILL.md").read_text(encoding="utf-8") == SKILL
    assert (tmp_path / ".claude" / "skills" / "hfposemb").is_symlink()
    capsys.readouterr()
    assert main(["skill", "--add"]) == 1
    assert capsys.readouterr().err == "hfposemb: .claude/skills/hfposemb exists; add --force to replace it\n"
    (tmp_path / ".agents" / "skills" / "hfposemb" / "SKILL.md").write_text("old")
    assert main(["skill", "--add", "--force"]) == 0
    assert (tmp_path / ".claude" / "skills" / "hfposemb" / "SKILL.md").read_text(encoding="utf-8") == SKILL


def test_skill_is_installed_for_all_projects_or_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "settings"))
    assert main(["skill", "--add", "--global"]) == 0
    assert (tmp_path / "home" / ".agents" / "skills" / "hfposemb" / "SKILL.md").is_file()
    assert (tmp_path / "settings" / "skills" / "hfposemb").is_symlink()
    assert main(["skill", "--add", "--dest", str(tmp_path / "mine")]) == 0
    assert [path.name for path in (tmp_path / "mine" / "hfposemb").iterdir()] == ["SKILL.md"]
    (tmp_path / "file").touch()
    for arguments, said in (
        (["--global"], "apply to --add"),
        (["--add", "--global", "--dest", "x"], "give --dest or --global, not both"),
    ):
        assert main(["skill", *arguments]) == 1
        assert said in capsys.readouterr().err
    with pytest.raises(hpe.HfposembError, match=r"cannot write .*file.*; choose another folder with --dest"):
        skill.install(tmp_path / "file")
