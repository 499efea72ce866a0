"""Which versions of torch may read a pickle: those whose ``weights_only`` loader has no known hole.

The loader ran code up to 2.5.1 (CVE-2025-32434) and wrote beyond its memory before 2.10 (CVE-2026-24747). The extra
"torch" requires a later version, but an extra cannot replace what is already installed, so whoever unpickles asks here.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from ...errors import require
from ..strict_json import CONVERT_ADVICE

OLDEST_TORCH = "2.10"
"""Lowest version of torch that ``pyproject.toml`` allows."""


def is_safe(installed: str) -> bool:
    """Return whether a version, such as ``2.10.0+cu128``, is the oldest that is safe or a later one.

    Development versions and release candidates come before the release, since nobody knows what they contain.
    """
    numbers = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", installed)
    if numbers is None:
        return False
    release, oldest = ([int(part) for part in text.split(".")] for text in (numbers[0], OLDEST_TORCH))
    while len(release) > len(oldest) and release[-1] == 0:
        release.pop()
    before = re.match(r"[._-]?(a|b|c|rc|pre|dev)", installed[numbers.end() :], re.IGNORECASE)
    return release > oldest or (release == oldest and before is None)


def refusal(installed: str, *, purpose: str = "reading a checkpoint saved by torch.save") -> str | None:
    """Return why an installed version of torch may not do what a user wants, on one line; ``None`` if it may."""
    if is_safe(installed):
        return None
    return (
        f"torch {installed:.24} is installed, whose loader of pickles is not safe; {purpose} needs {OLDEST_TORCH} or "
        f"later: pip install 'torch>={OLDEST_TORCH}', or convert it to safetensors where that is installed: "
        f"{CONVERT_ADVICE}"
    )


def installed_refusal() -> str | None:
    """Return why the torch of this environment may not read a pickle, without importing it; ``None`` if it may.

    The process that imports torch asks again, with the version that it has imported.

    Raises:
        MissingExtraError: If torch is not installed.
    """
    require("torch", extra="torch", purpose="reading a checkpoint saved by torch.save")
    try:
        return refusal(version("torch"))
    except PackageNotFoundError:  # built from source, and put on the path
        return None
