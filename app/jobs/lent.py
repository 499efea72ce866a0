"""Sources that a host has in memory and lends to the app, by a name that only this process gives out.

A job in a child process reads them from a private folder, where they are written once and for all.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from hfposemb.errors import SourceError
from hfposemb.files import complete_file
from hfposemb.text import display

if TYPE_CHECKING:
    from hfposemb.tables.embeddings import Embeddings

PREFIX = "memory:"
FOLDER = "HFPOSEMB_LENT"
_LENT: dict[str, Embeddings] = {}
_NAMED = re.compile(r"memory:[^/\\]{1,80}#([0-9a-f]{12})")


@dataclass(frozen=True)
class LentSource:
    """An ``Embeddings`` object of the host."""

    text: str


def lend(embeddings: Embeddings) -> str:
    """Return the name by which the app and its jobs open an object of the host; the same one for the same object."""
    for text, known in _LENT.items():
        if known is embeddings:
            return text
    name = re.sub(r"[/\\#,]", " ", display(embeddings.name, width=60))
    text = f"{PREFIX}{name}#{token_hex(6)}"
    with complete_file(_file(text), private=True) as file:
        file.write(pickle.dumps(embeddings))
    _LENT[text] = embeddings
    return text


def lent(text: str) -> Embeddings | None:
    """Return the object of that name, ``None`` if the name is not one of an object.

    Raises:
        SourceError: Nobody has lent an object of this name.
    """
    if not text.startswith(PREFIX):
        return None
    if text not in _LENT:
        if FOLDER not in os.environ or not _NAMED.fullmatch(text) or not _file(text).exists():
            raise SourceError(f"{display(text, width=60)} is no longer in memory")
        _LENT[text] = pickle.loads(_file(text).read_bytes())
    return _LENT[text]


def name_of(text: str) -> str | None:
    """Return the display name of an object, ``None`` if the name is not one of an object."""
    return text.removeprefix(PREFIX).partition("#")[0] if text.startswith(PREFIX) else None


def _file(text: str) -> Path:
    folder = os.environ.get(FOLDER)
    if folder is None:
        folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="hfposemb-lent-")  # only its owner can enter it
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / text.rpartition("#")[2]
