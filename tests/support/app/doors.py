"""Names by which strangers reach for files of the machine, and the functions of the app and the library that take them.

``python -m tests.support.app.doors COUNT`` passes as many to each function, as a visitor's, in its working directory,
and prints what was touched and what was answered.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hfposemb.checkpoints.access import NOT_HERE
from tests.support.app.touched import own_folders, watch

UNSEEN = "\u180e\u200b\u200d\u2060\ufeff\x00\x08\x1b\x7f"
BLANKS = "".join(chr(code) for code in range(0x3100) if chr(code).isspace()) + UNSEEN
ALIKE = {".": "\u2024\uff0e\u3002", "/": "\u2215\uff0f\u2044\\", "~": "\uff5e\u223c", "?": "\uff1f", "=": "\uff1d"}
ESCAPED: tuple[Callable[[str], str], ...] = (quote, partial(quote, safe=""), lambda text: quote(quote(text)), str.upper)
KEYS = ("base", "BASE", "token", "tensor", "path", "revision", "base_model", "base ", " base", "ba\u200bse")


def paths(home: Path) -> list[str]:
    """Return paths to what is in a folder and to what is not, absolute, relative, by home folders and by addresses."""
    own, absent = str(home / "canary"), str(home / "canarx")
    plain = (own, absent, f"{own}/config.json", "./canary", "./canarx", "../canary", "canary/..", ".", "..", "/")
    homes = ("~", "~/canary", "~root/canary", "~toor/canary", "~+", "/proc/self/environ", "/proc/self/cwd")
    spelt = (f"file:{own}", f"file://{own}", f"\\\\canary\\share{own}", f"C:{own}", f"//{own}", f"/.{own}")
    return [*plain, *homes, *spelt, f"memory:{own}#0123456789ab", "/etc/passwd", "/etc/absent"]


HOLDING = (
    *("PATH", "sample:PATH", "sample:bert?base=PATH", "sinusoidal:8x4?base=PATH", "./x?base=PATH", "owner/PATH"),
    *("owner/open/PATH", "owner/open@PATH", "owner/open?base=PATH@main", "owner/open/sub?base=PATH"),
    *("owner/open@main?position=x&base=PATH", "owner/open?base=PATH&token=x", "owner/open?base=a/b?base=PATH"),
)
"""How a name can hold a path."""


def _named(path: str) -> Iterator[str]:
    """Yield names that hold a path."""
    yield from (name.replace("PATH", path) for name in HOLDING)
    yield from (f"owner/open?{key}={path}" for key in KEYS)


def _spelt(name: str) -> Iterator[str]:
    """Yield a name with something else at each place: white space, look-alikes, escapes."""
    yield name
    for place, blank in itertools.product(range(len(name) + 1), BLANKS):
        yield name[:place] + blank + name[place:]
    for place, letter in enumerate(name):
        for other in (*ALIKE.get(letter, ""), f"%{ord(letter):02x}"):
            yield name[:place] + other + name[place + 1 :]
    for place, how in itertools.product(range(len(name)), ESCAPED):
        yield name[:place] + how(name[place:])


def names(home: Path, count: int, *, seed: int = 0) -> list[str]:
    """Return names drawn evenly from all of them, each once; the plain ones first."""
    plain = [name for path in paths(home) for name in _named(path)]
    draw = random.Random(seed)
    found = dict.fromkeys(plain)
    while len(found) < count:
        found |= dict.fromkeys(draw.choices(list(_spelt(draw.choice(plain))), k=20))
    return list(found)[:count]


def doors() -> dict[str, Callable[[str], object]]:
    """Return every function that takes the name of a source from a visitor, as the app calls it in public mode."""
    from hfposemb.app.findings.training_run import run_of
    from hfposemb.app.jobs import fetching
    from hfposemb.app.recipes.writing import quoted
    from hfposemb.app.server.page_delivery import titled
    from hfposemb.app.server.reach import check_sources
    from hfposemb.app.session import library, preferences, source_names

    import hfposemb as hpe
    from hfposemb.checkpoints.access import Visitor
    from hfposemb.surveys.source_lists import revisions

    shelf, stranger = library.Library(), Visitor()
    return {
        "allowed": lambda name: library.allowed(name, public=True),
        "open": lambda name: shelf.open(name, public=True),
        "opened": lambda name: shelf.opened(name, ("token",), public=True),
        "fetch": lambda name: shelf.fetch(name, ("token",), public=True),
        "shares": lambda name: shelf.shares(name),
        "child": lambda name: fetching.extract(name, public=True),
        "extract": lambda name: hpe.extract(name, token=stranger),
        "base": lambda name: hpe.extract("owner/adapter-0", base=name, token=stranger),
        "check": lambda name: hpe.check(name, token=stranger),
        "revisions": lambda name: revisions(name, "*", token=stranger),
        "check_sources": lambda name: check_sources([name], public=True),
        "title": lambda name: titled(f"models={quote(name, errors='surrogatepass')}&tab=positions"),
        "names": lambda name: source_names.short_names([name, "sample:bert"]),
        "remembered": lambda name: preferences.remembered([name]),
        "run": run_of,
        "quoted": quoted,
    }


def outcome(call: Callable[[str], Any], name: str) -> str:
    """Return the class and the text of the error that a call raises, or what kind of thing it returned."""
    from hfposemb.errors import HfposembError

    try:
        return type(call(name)).__name__
    except HfposembError as error:
        if "\n" in str(error):
            raise ValueError(f"the error for {name!r} has two lines: {error}") from error
        return f"{type(error).__name__}: {error}"


def _main(count: int) -> None:
    home = Path.cwd()
    every = doors()
    for call in every.values():
        outcome(call, "owner/open")  # what is imported on use is read now
    touched: list[str] = []
    watch(touched.append, own_folders())
    (home / "canary-of-the-hook").exists()
    asked = names(home, count)
    answers: dict[str, set[str]] = {}
    for number, name in enumerate(asked):
        # Every name through the doors that open, and through one of the others in turn.
        for door in dict.fromkeys(("open", "extract", "check", list(every)[number % len(every)])):
            told = outcome(every[door], name)
            answers.setdefault(_levelled(f"{door} {name}"), set()).add(_levelled(told))
    unlike = {name: sorted(told) for name, told in answers.items() if len(told) > 1}
    refused = sum(NOT_HERE in told for one in answers.values() for told in one)
    json.dump({"asked": len(asked), "touched": sorted(set(touched)), "unlike": unlike, "refused": refused}, sys.stdout)


def _levelled(text: str) -> str:
    """Return a text about a path that exists as it would be about one that does not."""
    return text.replace("canarx", "canary").replace("~toor", "~root")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    _main(int(sys.argv[1]))
