"""Which files of the machine a process looks at, beside what it is made of, its caches and its temporary files."""

from __future__ import annotations

import os
import pwd
import ssl
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
CANARY = "canar"
"""In the name of whatever a stranger must not reach, wherever it lies."""
CACHES = ("HFPOSEMB_CACHE", "HF_HOME")
AUDITED = frozenset(("open", "os.listdir", "os.scandir", "glob.glob", "os.chdir", "os.walk", "shutil.copyfile"))
STATED = ("stat", "lstat", "access", "readlink")
SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/dev/shm", "/usr/share/", "/etc/hosts", "/etc/resolv.conf")
CERTIFICATES = ssl.get_default_verify_paths()
SYSTEM += (CERTIFICATES.openssl_cafile, CERTIFICATES.openssl_capath)
"""Beginnings of what libraries read of the system itself, never by a name that somebody gives."""
SECRET = ("/environ", "/root", "/cwd")
"""Ends of what there is of a process under ``/proc``, and says or holds what others must not see."""


def own_folders(*more: str | Path) -> tuple[str, ...]:
    """Return the folders of the interpreter, the packages, this project, the caches and the temporary files."""
    caches = (os.environ.get(name) for name in (*CACHES, "NUMBA_CACHE_DIR"))
    paths = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, tempfile.gettempdir(), *filter(None, caches)}
    whole = {str(Path(one).resolve()) for one in (*paths, ROOT, *sys.path, *more) if one}
    return tuple(sorted(whole | {os.path.abspath(one) for one in paths}))


def outside(name: str, own: Sequence[str]) -> bool:
    """Return whether a path is none of the process's own."""
    path = os.path.abspath(name)
    if any(path.startswith(f"{os.environ[cache]}/") for cache in CACHES if os.environ.get(cache)):
        return False  # such as the folder of a repository called canary
    if CANARY in path or name.startswith("~"):
        return True
    if path.startswith(SYSTEM) and not any(f"{one}/" in f"{path}/" for one in SECRET):
        return False
    # The folders on the way to our own are looked at when a path of theirs is resolved.
    return not any(path == folder or path.startswith(f"{folder}/") or folder.startswith(path) for folder in own)


def watch(touched: Callable[[str], None], own: Sequence[str]) -> None:
    """Report once, for the rest of this process, each path outside that is opened or looked at, and each ``~name``."""
    known: set[str] = set()

    def see(what: str, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)) and outside(os.fsdecode(path), own):
            line = f"{what} {os.fsdecode(path)!r}"
            if line not in known:
                known.add(line)
                touched(line)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in AUDITED and arguments:
            see(event, arguments[0])

    sys.addaudithook(hook)
    for name in STATED:
        setattr(os, name, _seen(getattr(os, name), partial(see, f"os.{name}")))
    pwd.getpwnam = _seen(pwd.getpwnam, lambda name: see("pwd.getpwnam", f"~{name}"))


def _seen(call: Callable[..., Any], see: Callable[[Any], None]) -> Callable[..., Any]:
    def seen(first: Any, *arguments: Any, **options: Any) -> Any:
        see(first)
        return call(first, *arguments, **options)

    return seen
