"""What differs between two vocabularies, one finding each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ..checkpoints.tokenizers.small_files import Merges
from ..models.opened_model import are_padding
from ..text import counted, display
from .matched_ids import MatchedIds
from .opened_tokenizer import OpenedTokenizer
from .tokenizer_rules import TokenizerRules

_SHOWN = 3


@dataclass(frozen=True)
class VocabularyFinding:
    """One difference between two vocabularies.

    Attributes:
        name: Name of the finding, such as ``ids-name-other-texts``.
        matters: Whether it changes what a model reads or writes.
        message: What was found, in one sentence.
        count: How many ids, tokens or steps it is about.
    """

    name: str
    matters: bool
    message: str
    count: int = 1


def findings_of(a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds) -> Iterator[VocabularyFinding]:
    """Yield what differs, the ids first."""
    yield from _of_ids(a, b, ids)
    yield from _of_special(a, b)
    yield from _of_rows(a, b)
    yield from _of_rules(a, b)
    yield from _of_chat(a, b)


def token(one: OpenedTokenizer, row: int) -> str:
    """Return the token at an id as it is quoted in a sentence."""
    return repr(display(one.pieces[row]))


def _of_ids(a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds) -> Iterator[VocabularyFinding]:
    if ids.conflicts:
        row = ids.conflicts[0]
        said = counted(len(ids.conflicts), "id", verb="name")
        said += f" {'another text' if len(ids.conflicts) == 1 else 'other texts'}: "
        said += f"{row:,} is {token(a, row)} in A and {token(b, row)} in B"
        yield VocabularyFinding("ids-name-other-texts", True, said, len(ids.conflicts))
    if ids.moved:
        row = next(iter(ids.moved))
        said = f"{counted(len(ids.moved), 'token')} moved: {token(a, row)} is {row:,} in A and {ids.moved[row]:,} in B"
        if ids.offset is not None and len(ids.moved) > 1:
            said += f", all of them by {ids.offset:+,}"
        yield VocabularyFinding("tokens-moved", True, said, len(ids.moved))
    for name, rows, one, letter, other in (
        ("tokens-missing", ids.missing, a, "A", "B"),
        ("tokens-added", ids.new, b, "B", "A"),
    ):
        if rows:
            first = ", ".join(f"{row:,} {token(one, row)}" for row in rows[:_SHOWN])
            said = f"{counted(len(rows), 'token', f'of {letter}', 'are')} missing in {other}, from {first}"
            yield VocabularyFinding(name, True, said, len(rows))
    for letter, repeated in zip("AB", ids.repeated, strict=True):
        if repeated:
            said = f"{counted(repeated, 'id', f'of {letter}', 'stand')} for a text that another id has too"
            yield VocabularyFinding("repeated-texts", False, said, repeated)


def _of_special(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    for role in (one for one in a.roles if one in b.roles):
        here, there = a.roles[role], b.roles[role]
        if here != there or a.texts[here] != b.texts[there]:
            said = f"{role} is {here:,} {token(a, here)} in A and {there:,} {token(b, there)} in B"
            yield VocabularyFinding("special-role", True, said)
    for role in sorted(a.roles.keys() ^ b.roles.keys()):
        one, letter = (a, "A") if role in a.roles else (b, "B")
        said = f"only {letter} declares {role}, {one.roles[role]:,} {token(one, one.roles[role])}"
        yield VocabularyFinding("special-role-undeclared", False, said)
    ours, theirs = ({one.texts[row] for row in one.special} for one in (a, b))
    differ = (ours ^ theirs) & {*a.texts.values()} & {*b.texts.values()}
    if differ:
        such = display(min(differ).decode(errors="replace"))
        said = f"{counted(len(differ), 'token', verb='are')} special in one and ordinary in the other, such as {such!r}"
        yield VocabularyFinding("special-in-one", False, said, len(differ))


def _of_rows(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    for one, letter in ((a, "A"), (b, "B")):
        if one.rows is not None and one.size > one.rows:
            beyond = sum(row >= one.rows for row in one.texts)
            said = f"{counted(beyond, 'token', f'of {letter}', 'are')} beyond its table, which has {one.rows:,} rows"
            yield VocabularyFinding("tokens-beyond-table", True, said, beyond)
        elif one.rows is not None and one.rows > one.size:
            surplus = one.rows - one.size
            said = f"{counted(surplus, '', f'of the {one.rows:,} rows of {letter}', 'belong')} to no token"
            said += ": padding" if are_padding(one.rows, one.size) else ""
            yield VocabularyFinding("padding-rows", False, said, surplus)
    if a.rows is not None and b.rows is not None and a.rows != b.rows:
        said = f"the table has {a.rows:,} rows in A and {b.rows:,} in B"
        yield VocabularyFinding("row-counts", False, said, abs(a.rows - b.rows))


def _of_rules(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    ours, theirs = a.rules, b.rules
    if a.continued != b.continued:
        one, other = ("A", "B") if a.continued else ("B", "A")
        said = f"{one} marks pieces inside a word, as WordPiece does, and {other} those that begin one"
        yield VocabularyFinding("notation", True, said)
    elif ours.model and theirs.model and ours.model != theirs.model:
        yield VocabularyFinding("model", True, f"A is a {ours.model} tokenizer, B {theirs.model}")
    yield from _of_steps(ours, theirs)
    yield from _of_added(a, b)
    stated = None not in (ours.normaliser, theirs.normaliser) or None not in (ours.engine, theirs.engine)
    if not stated and not _alike_stated(ours, theirs):
        said = f"{a.file} and {b.file} state in no common form how a text is changed and split, which was not compared"
        yield VocabularyFinding("rules-unstated", False, said)
    if ours.engine and theirs.engine and ours.engine != theirs.engine:
        first, second = (display(" ".join(filter(None, one.engine))) for one in (ours, theirs) if one.engine)
        yield VocabularyFinding("pre-tokenizer", True, f"llama.cpp cuts texts as {first} in A and as {second} in B")
    yield from _of_cuts(a, b)


def _of_steps(ours: TokenizerRules, theirs: TokenizerRules) -> Iterator[VocabularyFinding]:
    """Yield what is done to a text before it is cut, how its model cuts it, and what is added to it."""
    steps = [("normaliser", ours.normaliser, theirs.normaliser)]
    steps.append(("pre-tokenizer", ours.pre_tokeniser, theirs.pre_tokeniser))
    steps.append(("decoder", ours.decoder, theirs.decoder))
    if _alike_stated(ours, theirs):
        steps.append(("settings", ours.own, theirs.own))
    for name, here, there in steps:
        if here is not None and there is not None and here != there:
            first, second = next(pair for pair in zip_longest(here, there, fillvalue="nothing") if pair[0] != pair[1])
            first, second = (display(one, width=90) for one in _apart(first, second))
            yield VocabularyFinding(name, name != "decoder", f"{_STEPS[name]} differ: {first} in A, {second} in B")
    shared = ours.options.keys() & theirs.options.keys() if ours.model == theirs.model else set()
    if differ := sorted(name for name in shared if ours.options[name] != theirs.options[name]):
        each = (
            f"{name} {_option(ours.options[name])} in A and {_option(theirs.options[name])} in B" for name in differ
        )
        yield VocabularyFinding("options", True, f"the options of the model differ: {', '.join(each)}", len(differ))
    for what, here, there in (("a text", ours.around, theirs.around), ("a pair", ours.around_pair, theirs.around_pair)):
        if here is not None and there is not None and here != there:
            first, second = (display(" ".join(one) or "nothing") for one in (here, there))
            yield VocabularyFinding("tokens-around", True, f"{what} becomes {first} in A and {second} in B")
            break


def _alike_stated(ours: TokenizerRules, theirs: TokenizerRules) -> bool:
    return ours.own is not None and theirs.own is not None and ours.own[0] == theirs.own[0]


def _option(value: object) -> str:
    return display(json.dumps(value, ensure_ascii=False), width=40)


def _of_added(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    """Yield how tokens are found that are looked for before a text is cut."""
    ours, theirs = a.rules.added, b.rules.added
    if ours is None or theirs is None or not _alike_stated(a.rules, b.rules):
        return
    differ = [text for text, flags in ours.items() if theirs.get(text, flags) != flags]
    if differ:
        here, there = ours[differ[0]], theirs[differ[0]]
        names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
        first, second = (", ".join(f"{name} {_option(one.get(name))}" for name in names) for one in (here, there))
        said = f"{counted(len(differ), 'token', verb='are')} found otherwise in a text: {display(differ[0])!r} with "
        yield VocabularyFinding("added-flags", True, f"{said}{first} in A and {second} in B", len(differ))
    for letter, stated, other in (("A", ours.keys() - theirs.keys(), b), ("B", theirs.keys() - ours.keys(), a)):
        if alone := stated and sorted(stated & {*other.pieces.values()}):
            said = f"{counted(len(alone), 'token', verb='are')} not cut as ordinary pieces in {letter} alone"
            yield VocabularyFinding("added-before", True, f"{said}: {display(alone[0])!r}", len(alone))


_STEPS = {
    "normaliser": "the steps that change a text before it is cut",
    "pre-tokenizer": "the steps that split a text into words",
    "decoder": "the steps that make a text of tokens",
    "settings": "the settings of the model's file",
}


def _apart(first: str, second: str) -> tuple[str, str]:
    """Return two steps, which are written as JSON, by what differs: their kinds, else the fields that differ."""
    one, other = (json.loads(step) if step.startswith("{") else {"type": step} for step in (first, second))
    kind = str(one.get("type"))
    if kind != other.get("type"):
        return kind, str(other.get("type"))
    fields = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]

    def said(step: dict[str, Any]) -> str:
        return f"{kind} with " + ", ".join(
            f"{name} {json.dumps(step.get(name), ensure_ascii=False)}" for name in fields
        )

    return said(one), said(other)


def _of_cuts(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    ours, theirs = a.rules, b.rules
    if ours.merges is not None and theirs.merges is not None:
        yield from _of_merges(ours.merges, theirs.merges)
    elif (ours.merges is None) != (theirs.merges is None) and (
        ours.model == theirs.model or None in (ours.model, theirs.model)
    ):
        letter, other = "AB" if theirs.merges is None else "BA"
        said = f"only {letter} states merges; how {other} cuts a text into the same tokens was not compared"
        yield VocabularyFinding("merges-unstated", False, said)
    if not ours.scores or not theirs.scores or not _alike_stated(ours, theirs):
        return
    common = ((piece, one, theirs.scores[piece]) for piece, one in ours.scores.items() if piece in theirs.scores)
    changed = [(piece, one, other) for piece, one, other in common if one != other and (one == one or other == other)]
    if changed:
        piece, here, there = changed[0]
        said = f"{counted(len(changed), 'piece', verb='have')} other scores, so that texts may be cut otherwise: "
        said += f"{display(piece)!r} has "
        yield VocabularyFinding("scores", True, f"{said}{here:.6g} in A and {there:.6g} in B", len(changed))


def _of_merges(ours: Merges, theirs: Merges) -> Iterator[VocabularyFinding]:
    if ours.equal(theirs):
        return
    first, second = dict.fromkeys(ours.pairs), dict.fromkeys(theirs.pairs)
    sides = ((first, second), (second, first))
    alone, common = (
        [[one for one in these if (one in those) is shared] for these, those in sides] for shared in (False, True)
    )
    moved = [pair for pair in zip(*common, strict=True) if pair[0] != pair[1]]
    order = f"where A has {display(moved[0][0])!r}, B has {display(moved[0][1])!r}" if moved else ""
    if all(alone):
        (here, there), (one, other) = map(len, alone), (display(some[0]) for some in alone)
        said = counted(here, "merge", "of A", "are")
        said += f" missing in B, from {one!r}, and {there:,} of B in A, from {other!r}"
    elif any(alone):
        (more, less), some = ("AB", alone[0]) if alone[0] else ("BA", alone[1])
        said = f"{more} has all merges of {less} and {len(some):,} more, from {display(some[0])!r}"
        said += f", and the common ones in another order: {order}" if order else ""
    else:
        said = f"the same merges have another order: {order}" if order else "one side repeats some of the same merges"
    count = sum(map(len, alone)) or len(moved) or abs(len(ours.pairs) - len(theirs.pairs)) or 1
    yield VocabularyFinding("merges", True, f"{said}; texts may be cut otherwise", count)


def _of_chat(a: OpenedTokenizer, b: OpenedTokenizer) -> Iterator[VocabularyFinding]:
    if bool(a.template) != bool(b.template):
        yield VocabularyFinding(
            "chat-template-missing", False, f"only {'A' if a.template else 'B'} has a chat template"
        )
    elif a.marked != b.marked:
        here, there = (sorted(one)[:_SHOWN] for one in (a.marked - b.marked, b.marked - a.marked))
        said = "the chat templates write other tokens: " + " and ".join(
            f"only {letter} writes {', '.join(map(display, few))}" for letter, few in (("A", here), ("B", there)) if few
        )
        yield VocabularyFinding("chat-tokens", True, said, len(a.marked ^ b.marked))
    elif a.template != b.template:
        said = "the chat templates differ in their words, but write the same tokens"
        yield VocabularyFinding("chat-template", False, said)
