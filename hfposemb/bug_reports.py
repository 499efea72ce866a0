"""Bug reports: traceback, versions and command, saved to a file.

Guarantees: no token or password is written, whether from the environment, the command line or a URL; reports stay few
and small; writing one never raises.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

from .errors import HfposembError
from .files import complete_file

SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY|ACCESS_KEY|AUTH", re.IGNORECASE)
"""Names of environment variables whose values are redacted."""

MOST_FILES = 20
"""Number of reports to keep; the oldest are removed first."""

MOST_TEXT = 200_000
"""Most characters of a report. Longer tracebacks keep their end, which names the error."""

_FOLDER = "faults"
_PACKAGES = (
    *("numpy", "scikit-learn", "scipy", "umap-learn", "pynndescent", "numba", "huggingface_hub", "tokenizers"),
    *("plotly", "gradio", "torch", "transformers", "pandas", "pyarrow"),
)
_TOKEN = re.compile(r"\bhf_(?:oauth_[\w.-]{6,}|[A-Za-z0-9]{6,})")
_USER = re.compile(r"(?<=://)[^/\s@'\"]+@")
_LEAST = 6
"""Length of the shortest secret to redact; shorter ones would blank out ordinary words."""

_written_here: dict[str, Path] = {}
"""Reports that this process wrote to the temporary folder, by code; at most ``MOST_FILES``."""


@dataclass(frozen=True)
class Fault:
    """A reported bug: a short ``code``, equal for the same error at the same place, and the report's path."""

    code: str
    path: Path | None
    """``None`` if no file could be written."""


def keep(
    error: BaseException | str, *, command: Sequence[str] = (), folder: Path | None = None, times: int = 1
) -> Fault:
    """Write a bug report and return its code and path.

    Args:
        error: An exception, or the text of a traceback.
        command: The command line, without the program name.
        times: How often it happened so far; the report is written again.
        folder: Where to write; by default a folder in the cache, and if that fails the system's temporary folder.
    """
    details = error if isinstance(error, str) else "".join(traceback.format_exception(error))
    details = redacted(details)[-MOST_TEXT:]
    code = code_of(details)
    counted = [f"happened  {times:,} times"] if times > 1 else []
    text = "\n".join([*_facts(code, command), *counted, "", details.rstrip(), ""])
    return Fault(code, _written(text, f"{code}.txt", folder or _cache_folder()))


def code_of(details: str) -> str:
    """Return the code of a bug by its traceback: where it happened and its kind, whatever values it names."""
    lines = details.strip().splitlines()
    places = [line for line in lines if line.lstrip().startswith('File "')]
    after = [line for before, line in pairwise(lines) if before[:1] == " " and line[:1] not in (" ", "")]
    kinds = [line.partition(":")[0] for line in after]
    known = "\n".join([*places, *kinds]) if places else details
    return hashlib.sha256(known.encode("utf-8", "replace")).hexdigest()[:8]


def redacted(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Redact Hub tokens, credentials in URLs and the values of secret environment variables."""
    known = os.environ if environment is None else environment
    secrets = {value for name, value in known.items() if SECRET.search(name) and len(value) >= _LEAST}
    secrets |= {part for secret in secrets for part in secret.split(":") if len(part) >= _LEAST}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _USER.sub("***@", _TOKEN.sub("hf_***", text))


def without_passwords(command: Sequence[str]) -> list[str]:
    """Return the command line with the values of ``--auth`` and ``--token`` redacted."""
    shown: list[str] = []
    for word in command:
        name, assigned, _ = word.partition("=")
        if shown and shown[-1] in ("--auth", "--token"):
            word = "***"
        elif assigned and name in ("--auth", "--token"):
            word = f"{name}=***"
        shown.append(word)
    return shown


def _facts(code: str, command: Sequence[str]) -> list[str]:
    from . import __version__

    return [
        f"Bug in hfposemb, reference {code}. Tokens and passwords were removed; check the text before you share it.",
        "",
        f"command   {redacted(' '.join(without_passwords(command))) or 'unknown'}",
        f"versions  {', '.join((f'hfposemb {__version__}', *_versions()))}",
        f"Python    {sys.version.split()[0]} on {platform.platform()}",
    ]


@cache
def _versions() -> tuple[str, ...]:
    found = []
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return tuple(found)


def _cache_folder() -> Path | None:
    from .cache import Cache
    from .errors import InputError

    try:
        return Cache.default().folder / _FOLDER
    except InputError:  # HFPOSEMB_CACHE_BYTES is not a number
        return None


def _written(text: str, name: str, folder: Path | None) -> Path | None:
    """Write a file readable by this user only, in ``folder`` or in the temporary folder; ``None`` if both fail."""
    if folder is not None:
        with suppress(OSError, HfposembError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_room(folder, name)
            return _filled(folder / name, text)
    if name not in _written_here and len(_written_here) < MOST_FILES:
        with suppress(OSError, HfposembError):
            _written_here[name] = _filled(Path(tempfile.gettempdir()) / f"hfposemb-{token_hex(4)}-{name}", text)
    return _written_here.get(name)


def _filled(path: Path, text: str) -> Path:
    with complete_file(path, private=True) as file:
        file.write(text.encode("utf-8", "replace"))
    return path


def _make_room(folder: Path, name: str) -> None:
    """Remove the oldest reports, to stay within ``MOST_FILES``."""
    found = [path for path in folder.glob("*.txt") if path.name != name]
    found.sort(key=lambda path: path.stat().st_mtime)
    for path in found[: max(0, len(found) - MOST_FILES + 1)]:
        path.unlink(missing_ok=True)
