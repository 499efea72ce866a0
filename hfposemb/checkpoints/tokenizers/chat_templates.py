"""Chat templates: in the tokenizer's settings, or in a file of their own next to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ..limits import DEFAULT_LIMITS
from ..strict_json import open_regular, parse_json

TEMPLATE, TEMPLATE_JSON = "chat_template.jinja", "chat_template.json"

TextReader = Callable[[str], str | None]
"""Returns a small text file next to a checkpoint by its name, ``None`` if there is none."""


def chat_template(settings: Mapping[str, Any], text: TextReader) -> str:
    """Return the chat template of a checkpoint, or several joined by line breaks; "" if there is none.

    The files are read only if the settings have no template.

    Args:
        settings: Contents of tokenizer_config.json.
        text: Reads the files.
    """
    stated = _joined(settings.get("chat_template"))
    if stated or (stated := text(TEMPLATE) or ""):
        return stated
    raw = (text(TEMPLATE_JSON) or "").encode()
    with suppress(SourceError):  # a file that is not JSON holds no template
        limit = DEFAULT_LIMITS.config_bytes
        return _joined(parse_json(raw, size=len(raw), name=TEMPLATE_JSON, limit=limit, kind=dict).get("chat_template"))
    return ""


def _joined(stated: object) -> str:
    """Return a template, or the templates of a list of them with names, as one text."""
    if isinstance(stated, list):
        texts = (one.get("template") for one in stated if isinstance(one, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return stated if isinstance(stated, str) else ""


def local_text(folder: Path | None, limit: int, file: str) -> str | None:
    """Return a small text file of a folder, ``None`` if there is none.

    Raises ``SourceError`` if it is not a regular file, or larger than ``limit`` bytes.
    """
    path = None if folder is None else folder / file
    if path is None or not path.is_file():
        return None
    with open_regular(path) as opened:
        raw = opened.read(limit + 1)
    if len(raw) > limit:
        raise SourceError(f"{file} exceeds the limit of {limit:,} bytes; shorten or remove it")
    return raw.decode(errors="replace")
