"""Parser for source names."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from urllib.parse import parse_qsl

from ..errors import SourceError
from .sources import LOCAL_PREFIXES, BuiltinSource, HubSource, LocalSource, SampleSource, Source
from .typed_names import source_name

_HUB_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_INSIDE = r"(?P<path>(?:/[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,199}){1,8})"
_REVISION = r"(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{0,254})"
_HUB = rf"(?P<repo>{_HUB_NAME}|{_HUB_NAME}/{_HUB_NAME}{_INSIDE}?)(?:@{_REVISION})?"

ROLES = ("token", "token_type", "position", "head", "encoder.position", "decoder.position", "tensor")
"""Roles that a source's name can assign tensors to, ``owner/name?token=TENSOR``; ``tensor`` is a table of its own."""

BASE = "base"
"""Option that names the source that an adapter is applied to."""

_OPTIONS = re.compile(r"(?P<source>.*?)\?(?P<query>(?:[a-z_.]+=[^&=]*)(?:&[a-z_.]+=[^&=]*)*)", re.DOTALL)


_SHAPED = r"(?P<rows>[0-9]{1,7})x(?P<width>[0-9]{1,6})"
_LONGEST = 4096
"""Maximum path length in characters; no system accepts longer ones."""


def parse_source(text: str) -> Source:
    """Parse the name of a source, without opening or looking up anything, not even whose home folder ``~name`` is.

    Args:
        text: ``owner/name``, ``owner/name@revision`` or ``owner/name/folder/or/file@revision`` on the Hub; a local
            path, which must start with ``./``, ``../``, ``/`` or ``~``; a sample such as ``sample:bert``; or a built-in
            such as ``sinusoidal:1024x768``. A name is never looked up in the working directory. For the Hub and local
            paths, ``?token=TENSOR&position=TENSOR`` at the end names the tensors of tables, and ``?base=SOURCE`` the
            source that an adapter is applied to, which is written in the same way, without white space around it.

    Raises:
        SourceError: If the text is none of these.
    """
    return _parsed(source_name(text.strip()))


def source_of(named: str | Path) -> Source:
    """Return a name or a path as a source; a ``~`` in a path is no home folder."""
    return parse_source(named) if isinstance(named, str) else LocalSource(PurePath(named))


def _parsed(name: str) -> Source:
    """Parse a name as it stands: nothing in it is stripped or decoded, so that what is judged is what is opened."""
    if len(name) > _LONGEST or min(name, default=" ") < " ":
        raise SourceError("a source must be one line such as owner/name, ./folder, sample:bert or sinusoidal:1024x768")
    if name.startswith(LOCAL_PREFIXES):
        asked, tables, base = _options(name)
        return LocalSource(PurePath(asked), tables, base, in_home=asked.startswith("~"))
    if ":" in name.partition("?")[0]:
        scheme, _, rest = name.partition(":")
        return _sample(rest) if scheme == "sample" else _builtin(scheme, rest)
    asked, tables, base = _options(name)
    match = re.fullmatch(_HUB, asked)
    if match and ".." not in asked:
        inside = match["path"] or ""
        repo = match["repo"].removesuffix(inside)
        if "--" not in repo and not repo.endswith(".git"):
            return HubSource(repo, match["revision"], inside.removeprefix("/"), tables, base)
    raise SourceError(
        f"{name[:80]!r} is not a source; write owner/name for the Hub or owner/name/model.gguf for a file or folder "
        "in it, ./folder for this machine, or a built-in such as sinusoidal:1024x768"
    )


def _options(name: str) -> tuple[str, dict[str, str], Source | None]:
    """Split ``?role=TENSOR&base=SOURCE`` from the end of a source's name. Raises ``SourceError`` for other options."""
    match = _OPTIONS.fullmatch(name) if "?" in name else None
    if match is None:
        return name, {}, None
    pairs = [(key, value) for key, _, value in (option.partition("=") for option in match["query"].split("&"))]
    options = dict(pairs)
    for key, value in pairs:
        if key not in (*ROLES, BASE) or not value:
            known = f"?role=TENSOR with {', '.join(ROLES)}, and ?base=SOURCE for adapters"
            raise SourceError(f"unknown option {key[:40]!r}; the options are {known}")
    if len(options) != len(pairs):
        raise SourceError(f"{match['query'][:80]!r} has an option twice; give each once")
    base = options.pop(BASE, None)
    return match["source"], options, None if base is None else _parsed(base)


def _sample(rest: str) -> SampleSource:
    from ..samples import check_trained, folder

    name, at, moment = rest.partition("@")
    folder(name)  # raises if there is no such sample
    if not at:
        return SampleSource(name)
    check_trained(name)
    if not (step := re.fullmatch(r"step-([0-9]{1,9})", moment)):
        raise SourceError(f"{moment[:40]!r} is not a training step; write sample:{name}@step-500")
    return SampleSource(name, int(step[1]))


def _builtin(scheme: str, rest: str) -> BuiltinSource:
    from .closed_forms import BUILTINS

    if scheme not in BUILTINS:
        raise SourceError(f"unknown prefix {scheme[:40]!r}; the prefixes are {', '.join(BUILTINS)} and sample")
    shape, _, query = rest.partition("?")
    if not (match := re.fullmatch(_SHAPED, shape)):
        raise SourceError(f"{shape[:40]!r} is not a shape; write rows and width as in {scheme}:1024x768")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise SourceError(f"{query[:80]!r} is not a list of options; write ?name=value&name=value") from error
    return BuiltinSource(scheme, int(match["rows"]), int(match["width"]), options)
