"""Parser for source names, and for what names a model elsewhere.

That is addresses of its pages, commands and lines of code, and folders of the Hub's cache.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import SourceError
from .sources import LOCAL_PREFIXES, BuiltinSource, HubSource, LocalSource, SampleSource, Source

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
        if "/" not in repo and repo.endswith(_FILES):
            raise SourceError(
                f"{repo[:80]!r} is a file; write ./{repo[:80]} here, or owner/name/{repo[:80]} on the Hub"
            )
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


_LONGEST_TYPED = 1_000
"""Longest text that is searched, since what is searched may come from anybody."""

_NAME = r"[\w.-]+/[\w.-]+"
_CALLS = (
    re.compile(r"""(?:from_pretrained|snapshot_download|hf_hub_download)\(\s*["'](\w[\w./-]*)["']"""),
    re.compile(r"""\b(?:model|model_id|model_name|repo_id|\w*name_or_path)\s*=\s*["'](\w[\w./-]*)["']"""),
    re.compile(rf"""[(=].*?["']({_NAME})["']"""),
)
"""Lines of code, those that say most first."""

_COMMAND = re.compile(
    r"(?:\$\s*)?(?:(?:hf|huggingface-cli)\s+download|git\s+(?:clone|lfs\s+clone)|(?:ollama|docker\s+model)\s+(?:run|pull)|"
    r"vllm\s+serve|\S*llama-\w+\s.*?-hfr?|.*?\s--model[\w-]*)[\s=]+([^\s-]\S*).*"
)
_STATED = {
    name: re.compile(rf"""\b{name}\b["']?\s*[=\s:]\s*["']?([\w][\w./-]*)""") for name in ("revision", "subfolder")
}
"""What a command or a line of code states beside the name."""

_ADDRESS = re.compile(r"""(?<![^\s"'`<(\[])(?:https?|git|ssh|hf|file)://[^\s"'`<>()\[\]]+""")
_HOSTS = re.compile(r"(?:[\w-]+\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)")
_PAGES = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame", "edit", "revision")
"""What stands before the revision in an address of the Hub."""

_OTHER_KINDS = {"datasets": "a dataset", "spaces": "a Space", "collections": "a collection", "papers": "a paper"}
_KEPT = re.compile(r"models--([\w.-]+?)--([\w.-]+?)(?:[/\\]snapshots[/\\](\w+)((?:[/\\][\w.+=-]+)*))?[/\\]?")
_CHECKPOINTS = (".safetensors", ".bin", ".gguf", ".onnx", ".pt", ".pth", ".ckpt", ".index.json")
_FILES = (*_CHECKPOINTS, ".npy", ".npz", ".json", ".parquet", ".csv", ".txt", ".html")
"""How the name of a file ends that is no name of a model: those of models have an owner, but for the oldest."""

_RESULT = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9_][\w.+=-]*)*(?:@[A-Za-z0-9][\w./-]*)?")
"""A name on the Hub, the only thing that is made of what somebody typed."""

_QUANTISED = re.compile(rf"({_NAME}):([\w.-]+)")


def source_name(text: str) -> str:
    """Return the name of a source for what names the model elsewhere; any other text is returned as it is.

    Understood are addresses of the Hub (pages of a model, of its files and revisions, its API, ``hf://``, git),
    commands such as ``hf download owner/name``, a line with ``from_pretrained("owner/name")``, a folder of the Hub's
    cache, and quotation marks around any of these. Nothing is looked up, and no path on this machine is made of it.

    Args:
        text: What somebody typed or pasted.

    Raises:
        SourceError: For an address of something other than a model, with what to write instead.

    Examples:
        >>> from hfposemb.tables.source_parser import source_name
        >>> source_name("https://huggingface.co/openai-community/gpt2/blob/main/config.json")
        'openai-community/gpt2'
        >>> source_name("hf download google-bert/bert-base-uncased")
        'google-bert/bert-base-uncased'
    """
    if len(text) > _LONGEST_TYPED or text.startswith(LOCAL_PREFIXES) or not text.isprintable() or _has_options(text):
        return text
    found = _read(text)
    if found is None:
        return text
    if not _RESULT.fullmatch(found):
        raise SourceError(f"{text[:80]!r} names no model; write owner/name")
    return found


def _has_options(text: str) -> bool:
    """Return whether a text is the name of a source with options, which stand as they are written."""
    name, mark, _ = text.partition("?")
    return bool(mark) and _RESULT.fullmatch(name) is not None and not _HOSTS.fullmatch(name.partition("/")[0])


def _read(text: str) -> str | None:
    """Return the name for what names a model elsewhere; ``None`` if it is nothing of the kind."""
    if (address := _ADDRESS.search(text)) is not None:
        return _beside(_name(address[0]), text)
    if (named := next((found for call in _CALLS if (found := call.search(text))), None)) is not None:
        return _beside(named[1], text)
    if (command := _COMMAND.fullmatch(text)) is not None:
        return _beside(_name(command[1].strip("\"'`")) or command[1], text)
    return _name(text.strip("\"'`<> "))


def _beside(name: str | None, text: str) -> str | None:
    """Return a name with the revision and the folder that a command or a line of code states beside it."""
    stated = {field: found[1] for field, pattern in _STATED.items() if (found := pattern.search(text))}
    if name is None or not stated:
        return name
    repo, _, revision = name.partition("@")
    return _written(repo, revision or stated.get("revision", ""), stated.get("subfolder", "").split("/"))


def _name(text: str) -> str | None:
    """Return the name for a single word, ``None`` if it names no model."""
    name = re.sub(r"^git@([\w.-]+):", r"https://\1/", text)
    if name.startswith("file:"):
        raise SourceError(f"{name[:80]!r} is an address; write the path itself, such as /folder/model.safetensors")
    if name.startswith("hf://"):
        return _of_hub_path(name.removeprefix("hf://"))
    if _ADDRESS.fullmatch(name) or _HOSTS.fullmatch(name.partition("/")[0]):
        return _of_address(name)
    if (kept := _KEPT.fullmatch(name)) is not None:
        return _written(f"{kept[1]}/{kept[2]}", kept[3] or "", re.split(r"[/\\]", kept[4] or ""))
    if (quantised := _QUANTISED.fullmatch(name)) is not None:
        raise _of_quantisation(quantised[1], quantised[2])
    plain = name.removeprefix("models/").rstrip("/") if name.count("/") > 1 else name
    return plain if _RESULT.fullmatch(plain) and "/" in plain else None


def _of_quantisation(name: str, kind: str) -> SourceError:
    return SourceError(
        f"{name}:{kind} names a quantisation, and here a file is named: write {name}/FILE.gguf; hfposemb info {name} "
        "lists the files"
    )


def _of_hub_path(path: str) -> str:
    """Return the name for what follows ``hf://``, where a revision stands after the repository."""
    kind, _, rest = path.partition("/")
    if kind in _OTHER_KINDS:
        raise _other_kind(kind, path)
    parts = (rest if kind == "models" else path).strip("/").split("/")
    if len(parts) < 2:
        return path
    name, _, revision = "/".join(parts[:2]).partition("@")
    return _written(name, revision, parts[2:])


def _of_address(text: str) -> str:
    """Return the name for the address of a page, a file or a git repository on the Hub."""
    try:
        address = urlsplit(text if "://" in text else f"https://{text}")
    except ValueError:  # a bracket that is not closed, or a character that stands for one of an address
        address = urlsplit("")
    if not _HOSTS.fullmatch(address.hostname or ""):
        raise SourceError(f"{text[:80]!r} is no address of the Hub; write owner/name, or ./folder for this machine")
    parts = [part for part in unquote(address.path).split("/") if part]
    while parts and parts[0] in ("api", "models"):
        parts = parts[1:]
    if not parts:
        raise SourceError(f"{text[:80]!r} names no model; write owner/name")
    if parts[0] in _OTHER_KINDS:
        raise _other_kind(parts[0], text)
    # The oldest models have no owner, such as gpt2.
    owned = len(parts) > 1 and parts[1] not in _PAGES
    name, rest = "/".join(parts[: 1 + owned]).removesuffix(".git"), parts[1 + owned :]
    if (quantised := _QUANTISED.fullmatch(name)) is not None:
        raise _of_quantisation(quantised[1], quantised[2])
    if len(rest) < 2 or rest[0] not in _PAGES:
        return name  # a page of discussions or settings, or none
    several = 3 if rest[1] == "refs" else 1  # refs/pr/1
    return _written(name, "/".join(rest[1 : 1 + several]), rest[1 + several :])


def _written(name: str, revision: str, inside: list[str]) -> str:
    """Return the name of a source; a file that is no checkpoint stands for the folder that it is in."""
    inside = [part for part in inside if part]
    if inside and "." in inside[-1] and not inside[-1].endswith(_CHECKPOINTS):
        inside = inside[:-1]
    if len(inside) == 1 and re.fullmatch(r"(model\.safetensors|pytorch_model\.bin)(\.index\.json)?", inside[0]):
        inside = []
    at = f"@{revision}" if revision and revision != "main" else ""
    return "/".join((name, *inside)) + at


def _other_kind(kind: str, text: str) -> SourceError:
    return SourceError(f"{text[:80]!r} is {_OTHER_KINDS[kind]}; give a model, owner/name")
