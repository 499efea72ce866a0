"""What names a model elsewhere: addresses of its pages, commands and lines of code, folders of the Hub's cache."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from ..errors import SourceError
from .sources import LOCAL_PREFIXES

_NAME = r"[\w.-]+/[\w.-]+"
_CALL = re.compile(rf"""(?:from_pretrained|pipeline|SentenceTransformer|extract|load)\(.*?["']({_NAME})["']""")
_COMMAND = re.compile(
    r"(?:\$\s*)?(?:(?:hf|huggingface-cli)\s+download|git\s+(?:clone|lfs\s+clone)|ollama\s+(?:run|pull)|vllm\s+serve|"
    r"(?:\S*llama-\w+)\s.*?-hfr?|mlx_lm\.\w+\s.*?--model|.*?\s--model[\w-]*)[\s=]+([^\s-]\S*).*"
)
_HOSTS = re.compile(r"(?:[\w-]+\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)")
_PAGES = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame", "edit", "discussions", "settings")
_WITHOUT_FILE = ("commit", "commits", "discussions", "settings")
_OTHER_KINDS = {"datasets": "a dataset", "spaces": "a Space", "collections": "a collection", "papers": "a paper"}
_KEPT = re.compile(r"models--([\w.-]+?)--([\w.-]+?)(?:[/\\]snapshots[/\\](\w+)((?:[/\\][\w.+=-]+)*))?[/\\]?")
_CHECKPOINTS = (".safetensors", ".bin", ".gguf", ".onnx", ".pt", ".pth", ".ckpt", ".index.json")
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
        >>> from hfposemb.tables.typed_names import source_name
        >>> source_name("https://huggingface.co/openai-community/gpt2/blob/main/config.json")
        'openai-community/gpt2'
        >>> source_name("hf download google-bert/bert-base-uncased")
        'google-bert/bert-base-uncased'
    """
    if text.startswith(LOCAL_PREFIXES) or not text.isprintable():
        return text
    found = _read(text.strip("\"'`<> "))
    if found is None:
        return text
    if not _RESULT.fullmatch(found):
        raise SourceError(f"{text[:80]!r} names no model; write owner/name")
    return found


def _read(name: str) -> str | None:
    """Return the name for what names a model elsewhere; ``None`` if it is nothing of the kind."""
    if (call := _CALL.search(name)) is not None:
        return call[1]
    if (command := _COMMAND.fullmatch(name)) is not None:
        name = command[1].strip("\"'`")
    name = re.sub(r"^git@([\w.-]+):", r"https://\1/", name)
    if name.startswith("file:"):
        raise SourceError(f"{name[:80]!r} is an address; write the path itself, such as /folder/model.safetensors")
    if name.startswith("hf://"):
        return _of_hub_path(name.removeprefix("hf://"))
    if re.match(r"(?:https?|git|ssh)://", name) or _HOSTS.fullmatch(name.partition("/")[0]):
        return _of_address(name)
    if (kept := _KEPT.fullmatch(name)) is not None:
        inside = (kept[4] or "").replace("\\", "/")
        return f"{kept[1]}/{kept[2]}{inside}" + (f"@{kept[3]}" if kept[3] else "")
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
    address = urlsplit(text if "://" in text else f"https://{text}")
    host = address.hostname or ""
    if not _HOSTS.fullmatch(host):
        raise SourceError(f"{text[:80]!r} is no address of the Hub; write owner/name, or ./folder for this machine")
    parts = [part for part in unquote(address.path).split("/") if part]
    while parts and parts[0] in ("api", "models"):
        parts = parts[1:]
    if parts and parts[0] in _OTHER_KINDS:
        raise _other_kind(parts[0], text)
    if len(parts) < 2 or parts[1] in _PAGES:
        if len(parts) == 1 or (parts and parts[1] in _PAGES):
            parts = ["", *parts]  # a model without an owner, such as gpt2
        else:
            raise SourceError(f"{text[:80]!r} names no model; write owner/name")
    name = "/".join(filter(None, parts[:2])).removesuffix(".git")
    rest = parts[2:]
    if (quantised := _QUANTISED.fullmatch(name)) is not None:
        raise _of_quantisation(quantised[1], quantised[2])
    if len(rest) >= 2 and rest[0] in _PAGES:
        revision = rest[1] if rest[0] not in ("discussions", "settings") else ""
        if revision == "refs" and len(rest) >= 4:
            revision, rest = "/".join(rest[1:4]), [rest[0], *rest[3:]]
        return _written(name, revision, [] if rest[0] in _WITHOUT_FILE else rest[2:])
    if rest and rest[0] == "revision" and len(rest) == 2:
        return _written(name, rest[1], [])
    return name


def _written(name: str, revision: str, inside: list[str]) -> str:
    """Return the name of a source; a file that is no checkpoint stands for the folder that it is in."""
    if inside and "." in inside[-1] and not inside[-1].endswith(_CHECKPOINTS):
        inside = inside[:-1]
    if len(inside) == 1 and re.fullmatch(r"(model\.safetensors|pytorch_model\.bin)(\.index\.json)?", inside[0]):
        inside = []
    at = f"@{revision}" if revision and revision != "main" else ""
    return "/".join((name, *inside)) + at


def _other_kind(kind: str, text: str) -> SourceError:
    return SourceError(f"{text[:80]!r} is {_OTHER_KINDS[kind]}; give a model, owner/name")
