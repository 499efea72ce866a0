"""Hold the rules against every model type, and write what was found: ``python -m tests.architectures [--write]``.

``--write`` writes ``docs/architectures.md`` and the list of known types; without it nothing is written, and the exit
code says whether every goal of the survey is met and both are up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hfposemb.models.architectures.families import NO_INPUTS, known_types
from tests.architectures.survey import Row, model_types, share, survey

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architectures.md"
LIST = ROOT / "hfposemb" / "models" / "architectures" / "verified_types.json"

GOALS = {
    "token table": 1.0,
    "output head": 1.0,
    "no output head": 1.0,
    "position table": 0.99,
    "relative positions": 0.99,
    "rotary frequencies": 1.0,
    "rotary layout": 1.0,
    "ALiBi slopes": 1.0,
    "first layer's input": 0.95,
}
"""The share of types that must agree, by kind of check."""

CAUSES = {
    "decision_transformer": "it reads states and returns; its vocabulary has one token",
}
"""Why a type is missed."""


def tables_agree(row: Row) -> bool:
    """Return whether everything but the first layer's input is as the model has it."""
    own = [check for check in row.checks if not check.what.startswith("first layer")]
    return bool(row.built) and all(check.verdict in ("equal", "not compared") for check in own)


def status(row: Row) -> str:
    """Say in a word or two what was verified of a type."""
    if not row.built:
        return f"not built: {row.reason[:70]}"
    if not tables_agree(row):
        wrong = next(check for check in row.checks if check.verdict in ("different", "missing"))
        return f"{wrong.what} {wrong.verdict}"
    inputs = row.verdicts("first layer")
    if inputs == ["equal"]:
        return "tables and inputs"
    if "token table" not in {check.what for check in row.checks}:
        return "tables" if row.checks else "no tables"
    return f"tables; inputs: {NO_INPUTS.get(row.model_type, 'not compared')}"


def page(rows: Sequence[Row]) -> str:
    """Return the page about all model types."""
    import transformers

    met = [
        f"| {what} | {right} of {of} | {100 * right / max(of, 1):.1f} % | {100 * GOALS[what]:.0f} % |"
        for what in GOALS
        for right, of in [share(rows, what)]
    ]
    table = [
        f"| `{row.model_type}` | {'<br>'.join(row.mechanisms) or '—'} | {f'`{row.token}`' if row.token else '—'} | "
        f"{'<br>'.join(row.heads[:3]) or '—'} | "
        f"{'<br>'.join(f'`{one}`' for one in row.positions[:4]) or '—'} | {', '.join(row.layouts) or '—'} | "
        f"{status(row).replace('|', '/')} |"
        for row in rows
    ]
    missed = [
        f"- `{row.model_type}`: {check.what}, {check.verdict}: "
        f"{CAUSES.get(row.model_type) or check.theirs[:90] or check.ours[:120]}"
        for row in rows
        for check in row.checks
        if check.verdict in ("different", "missing") and row.model_type not in NO_INPUTS
    ]
    built = sum(bool(row.built) for row in rows)
    return f"""# Architectures

Every model type that transformers {transformers.__version__} has a configuration for ({len(rows)}), built small where
that is possible ({built}), saved, extracted, and compared with the live model: which rows it looks up while it runs,
which frequencies its modules hold, and the input of its first layer. Written by `python -m tests.architectures --write`
(`make test-families` runs the same comparison); do not edit it by hand.

| compared | types that agree | share | goal |
|---|---|---|---|
{chr(10).join(met)}

Types without a token table, a position table and so on are not counted where they have none; a table that a model does
not have counts against the rules. Encodings of graphs are out of scope.

Output heads are compared for every class of a type whose `get_output_embeddings()` is a table: vectors and bias to the
bit, and whether head and token table are one parameter. "No output head" counts the classes without one in which none
was found; where the whole model names none but a part does, as the thinker of Qwen2.5-Omni, the part's is compared.
Heads of several codebooks are not compared. For FSMT, whose `get_output_embeddings()` is the decoder's input
table, the head is the module that the logits are computed with.

Missed, with the cause ({len(missed)}):

{chr(10).join(missed) or "nothing"}

First-layer inputs that are not computed, with the reason:

{chr(10).join(f"- `{name}`: {reason}" for name, reason in sorted(NO_INPUTS.items()))}

| model type | positions | token table | output head | position tables | layout | verified |
|---|---|---|---|---|---|---|
{chr(10).join(table)}
"""


def known(rows: Sequence[Row]) -> str:
    """Return the list of the known types."""
    return json.dumps(sorted(row.model_type for row in rows if tables_agree(row)), indent=0) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the survey; write or compare."""
    rows = list(survey(model_types()))
    failed = []
    for what, goal in GOALS.items():
        right, of = share(rows, what)
        print(f"{what}: {right} of {of}, {100 * right / max(of, 1):.1f} % (goal {100 * goal:.0f} %)")
        if right < goal * of:
            failed.append(what)
    slowest = max(row.info_ms for row in rows)
    print(f"extract from a header at hand, the slowest: {slowest:.0f} ms")
    if "--write" in arguments:
        PAGE.write_text(page(rows), encoding="utf-8")
        LIST.write_text(known(rows), encoding="utf-8")
        return bool(failed)
    agreeing = {row.model_type for row in rows if tables_agree(row)}
    if lost := sorted(known_types() - agreeing):
        print("no longer as the model has them:", ", ".join(lost))
    for row in rows:
        for check in row.checks:
            if check.verdict in ("different", "missing") and row.model_type not in NO_INPUTS:
                print(f"  {row.model_type}: {check.what} {check.verdict}: {check.ours[:60]} / {check.theirs[:80]}")
    return bool(failed or lost)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
