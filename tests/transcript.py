"""The six questions of the README, answered by a real MCP client: `python -m tests.transcript` writes docs/agents.md.

The client knows the app's address and nothing else. Each answer is a sentence whose figures come from the answers of
the tools; the page's table of tools comes from the server, too.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

PAGE = Path(__file__).parent.parent / "docs" / "agents.md"
MODEL, SINES = "sample:minilm", "sinusoidal:512x384"
SENTENCE = "the king saw the queen"

Found: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of a tool, and which part of its answer the page shows."""

    tool: str
    arguments: Mapping[str, Any]
    shown: Callable[[Found], Any]


@dataclass(frozen=True)
class Question:
    """A question, the calls that answer it, and the answer in words."""

    text: str
    calls: Sequence[Call]
    answer: Callable[..., str]


def metric(found: Found, name: str) -> Any:
    """Return a metric of a comparison."""
    return next(one for one in found["metrics"] if one["metric"] == name)


def metrics(*names: str) -> Callable[[Found], Any]:
    """Return a function that selects metrics of a comparison."""
    return lambda found: {"metrics": [metric(found, name) for name in names]}


def comparison(*names: str) -> Call:
    """Return the comparison of the model with the sinusoid, of which the page shows some metrics."""
    return Call("compare", {"sources": [MODEL, SINES]}, metrics(*names))


def sentence(*fields: str) -> Call:
    """Return the call that tokenises the sentence, of which the page shows some fields of each piece."""

    def shown(found: Found) -> Any:
        pieces = [{name: one[name] for name in ("piece", "position", *fields)} for one in found["pieces"]]
        return {"added": found["added"], "normalised": found["normalised"], "pieces": pieces}

    return Call("tokenise", {"source": MODEL, "text": SENTENCE, "neighbours": True}, shown)


def looks(info: Found, found: Found) -> str:
    """Answer the first question."""
    table = next(one for one in info["tables"] if one["table"] == "position")
    plane, period = metric(found, "variance of 2 components"), metric(found, "helix period")
    (own, sines), untrained = plane["values"], plane["untrained"][0]
    return (
        f"It is one of {table['shape'][0]} rows of {table['shape'][1]} numbers. Both tables are smooth curves in few "
        f"dimensions: a plane holds {own:.0f} % of the variance of the learned positions and {sines:.0f} % of the "
        f"sinusoid's, but only {untrained:.1f} % of an untrained table's. The learned curve is a helix with a turn "
        f"per {period['values'][0]:.1f} positions."
    )


def alike(found: Found) -> str:
    """Answer the second question."""
    near, far = (metric(found, f"mean cosine at distance {steps}")["values"] for steps in (1, 16))
    alone = metric(found, "translation invariance")["values"]
    return (
        f"Yes: the mean cosine of neighbours is {near[0]:.2f}, and {far[0]:.2f} at distance 16 (sinusoid: "
        f"{near[1]:.2f} and {far[1]:.2f}). For the sinusoid, the distance alone determines the similarity (invariance "
        f"{alone[1]:.2f}); for the learned table only in part ({alone[0]:.2f})."
    )


def shifts(found: Found) -> str:
    """Answer the third question."""
    one, four = (metric(found, f"shift R² by {steps}, random rows") for steps in (1, 4))
    return (
        "With both, a shift of the position rotates each pair (sin, cos), so one linear map shifts all positions: R² "
        f"on unseen rows is {one['values'][1]:.2f}. The learned table follows that rule nearly as well, with R² "
        f"{one['values'][0]:.2f} for a shift by 1 and {four['values'][0]:.2f} by 4; for an untrained table there is no "
        f"such map ({one['untrained'][0]:.2f})."
    )


def close(search: Found, found: Found, near: Found) -> str:
    """Answer the fourth question."""
    queen, bread = found["pairs"][:2]
    names = ", ".join(f"“{one['label']}”" for one in near["neighbours"])
    return (
        f"Yes. The {search['found']} tokens that contain “king” include the word itself as row "
        f"{search['matches'][0]['row']}. Its cosine with “queen” is {queen['cosine']:.2f}, above "
        f"{queen['percentile_of_random_pairs']:.3f} % of random pairs, and “queen” is neighbour number "
        f"{queen['rank'][0]} of “king”; “bread” has {bread['cosine']:.2f} and rank {bread['rank'][0]:,}. The nearest "
        f"are {names}. Random pairs have a mean cosine of {found['anisotropy']:.2f}, so these values mean something."
    )


def survives(found: Found, fed: Found) -> str:
    """Answer the fifth question."""
    ratio = metric(found, "token norm / position norm")["values"][0]
    first, words = fed["pieces"][0], fed["pieces"][1:-1]
    kept = sum(one["neighbours_kept"] for one in words) / len(words)
    return (
        f"In this model they are not as large: a word is {ratio:.1f} times as long. After its position is added, a "
        f"word of the sentence keeps {kept:.0%} of its ten nearest neighbours, and the sum has a cosine of at least "
        f"{min(one['cosine_with_token'] for one in words):.2f} with the word alone. At position {first['position']}, "
        f"however, where the position vector has norm {first['position_norm']:.2f} and the token "
        f"vector {first['token_norm']:.2f}, {first['piece']} keeps {first['neighbours_kept']:.0%}."
    )


def enters(fed: Found) -> str:
    """Answer the sixth question."""
    pieces = fed["pieces"]
    first, second = (one for one in pieces if one["piece"] == "the")
    then = "and a normalisation follows" if fed["normalised"] else "and nothing follows"
    return (
        f"The sum of {', '.join(fed['added'])} vectors, {then}. The sentence becomes {len(pieces)} vectors, with "
        f"{pieces[0]['piece']} and {pieces[-1]['piece']} around the words. Both “the” have the same token vector, norm "
        f"{first['token_norm']:.2f}, but enter with norms {first['entering_norm']:.2f} and "
        f"{second['entering_norm']:.2f}, since they stand at positions {first['position']} and {second['position']}."
    )


QUESTIONS = (
    Question(
        "What does a position vector look like, learned and sinusoidal?",
        (
            Call(
                "info",
                {"source": MODEL},
                lambda found: {
                    "tables": [{name: one[name] for name in ("table", "shape", "tensor")} for one in found["tables"]]
                },
            ),
            comparison("variance of 2 components", "helix period"),
        ),
        looks,
    ),
    Question(
        "Are neighbouring positions similar, and does the similarity depend on distance alone?",
        (comparison("mean cosine at distance 1", "mean cosine at distance 16", "translation invariance"),),
        alike,
    ),
    Question(
        "Why use both sine and cosine, and do learned tables follow the same shift-by-rotation rule?",
        (comparison("shift R² by 1, random rows", "shift R² by 4, random rows"),),
        shifts,
    ),
    Question(
        "Are “king” and “queen” really close?",
        (
            Call("search", {"source": MODEL, "query": "king", "limit": 3}, lambda found: found),
            Call(
                "similarity",
                {"source": MODEL, "rows": ["king", "queen", "bread"]},
                lambda found: {"anisotropy": found["anisotropy"], "pairs": found["pairs"][:2]},
            ),
            Call(
                "neighbours",
                {"source": MODEL, "query": "king", "limit": 3},
                lambda found: {"neighbours": found["neighbours"]},
            ),
        ),
        close,
    ),
    Question(
        "If positions are as large as words, why does adding them not destroy the meaning?",
        (
            comparison("token norm / position norm"),
            sentence("token_norm", "position_norm", "cosine_with_token", "neighbours_kept"),
        ),
        survives,
    ),
    Question(
        "What exactly enters the first layer?", (sentence("token_norm", "position_norm", "entering_norm"),), enters
    ),
)


@dataclass(frozen=True)
class Talk:
    """What a client learned: the tools, the answers to all calls, and the longest of them in characters."""

    tools: Sequence[Any]
    answers: Mapping[str, Found]
    longest: int


def key(call: Call) -> str:
    """Return what identifies a call."""
    return f"hfposemb_{call.tool} {json.dumps(call.arguments, ensure_ascii=False)}"


async def talk(url: str) -> Talk:
    """Connect to the app at an address, list its tools, and make every call once."""
    async with (
        streamable_http_client(f"{url.rstrip('/')}/gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        answers: dict[str, Found] = {}
        longest = 0
        for call in (call for question in QUESTIONS for call in question.calls):
            if key(call) in answers:
                continue
            found = await session.call_tool(f"hfposemb_{call.tool}", dict(call.arguments))
            (content,) = found.content
            assert not found.isError, content.text
            answers[key(call)] = json.loads(content.text)
            assert answers[key(call)] == found.structuredContent
            longest = max(longest, len(content.text))
        return Talk(tools, answers, longest)


def rounded(value: Any) -> Any:
    """Return a value with numbers of three digits, which agree between machines; percentages may be close to 100."""
    if isinstance(value, float):
        return value if 99 < value < 100 else float(f"{value:.3g}")
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def lines(value: Mapping[str, Any]) -> str:
    """Return JSON with one line for each field, and for each entry of a list of objects."""
    out = []
    for name, one in value.items():
        if isinstance(one, list) and one and isinstance(one[0], Mapping):
            entries = ",\n".join(f"  {json.dumps(entry, ensure_ascii=False)}" for entry in one)
            out.append(f"{json.dumps(name)}: [\n{entries}\n]")
        else:
            out.append(f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}")
    return "{" + ",\n".join(out) + "}"


def transcript(found: Talk) -> str:
    """Return the talk as Markdown."""
    parts = []
    for number, question in enumerate(QUESTIONS, 1):
        parts.append(f"### {number}. {question.text}")
        for call in question.calls:
            shown = lines(rounded(call.shown(found.answers[key(call)])))
            parts.append(f"Call `{key(call)}`, which returns among others:\n\n```json\n{shown}\n```")
        parts.append(f"> {question.answer(*(found.answers[key(call)] for call in question.calls))}")
    return "\n\n".join(parts)


def table(found: Talk) -> str:
    """Return the tools as a Markdown table."""
    rows = ["| tool | what it does | parameters |", "| --- | --- | --- |"]
    for tool in found.tools:
        required = tool.inputSchema.get("required", [])
        names = [f"**`{name}`**" if name in required else f"`{name}`" for name in tool.inputSchema["properties"]]
        rows.append(f"| `{tool.name}` | {tool.description.splitlines()[0]} | {', '.join(names)} |")
    return "\n".join(rows)


def page(text: str, found: Talk) -> str:
    """Return a page with what stands between its markers replaced."""
    for name, part in (("tools", table(found)), ("transcript", transcript(found))):
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        text, count = re.subn(
            f"{marks[0]}\n.*?{marks[1]}",
            lambda _, part=part, marks=marks: f"{marks[0]}\n{part}\n{marks[1]}",
            text,
            flags=re.S,
        )
        assert count == 1, name
    return text


def main() -> None:
    """Write the page."""
    from hfposemb import app

    blocks = app.launch((SINES,), port=None, mcp=True, warm=False, prevent_thread_lock=True, quiet=True)
    found = asyncio.run(talk(blocks.local_url))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    blocks.close()


if __name__ == "__main__":
    main()
