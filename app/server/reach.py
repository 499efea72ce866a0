"""Who can reach the app (this machine only, or others), and hence what it may open.

This module imports nothing heavy. Guarantee: an address that is not certainly loopback, or a share link, means public
mode, whether set by ``launch`` or by Gradio's environment variables, unless ``public=False`` is given.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from hfposemb.errors import HfposembError, InputError

FIRST_PORT, PORTS = 7860, 100
"""Without a given port, the first free one of this range is used, as in Gradio."""

AUTH = "HFPOSEMB_AUTH"
"""Environment variable with USER:PASSWORD, used if none is given."""

OAUTH = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
"""Environment variables that the Hub sets on a Space with ``hf_oauth: true``."""

OAUTH_PACKAGES = ("authlib", "itsdangerous")
"""What Gradio needs to sign visitors in, beyond its own requirements."""

LOGIN_CHARACTERS = 64 * 1024
"""Maximum number of characters read from a file of logins."""


@dataclass(frozen=True)
class Reach:
    """Where the app listens, whether it has a share link, and whether it is ``public``, with the reason."""

    host: str
    share: bool
    public: bool
    why: str = ""

    @property
    def sentence(self) -> str:
        """One line that states the mode, the reason, and how to change it."""
        if self.public:
            files = "" if self.why == _SPACE else " (use --trusted, or public=False in Python, to allow files)"
            why = f", because {self.why}" if self.why else ""
            return f"Public mode: visitors can open Hub models and built-ins, not files on this machine{why}{files}."
        if is_loopback(self.host) and not self.share:
            return "Local mode: only this machine can reach the app, which can open its files."
        via = "has the share link" if self.share else f"can reach {self.host}"
        return f"Trusted mode: anyone who {via} can open every file on this machine that you can read."


_SPACE = "this is a Hugging Face Space"


def reach(host: str | None, share: bool | None, public: bool | None) -> Reach:
    """Determine how the app is reached and what it may open; missing values are looked up as Gradio does."""
    host = (host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1").strip()
    if share is None:
        share = os.environ.get("GRADIO_SHARE", "").lower() == "true" or _notebook_elsewhere()
    if public is not None:
        return Reach(host, share, public)
    if on_a_space():
        return Reach(host, share, True, _SPACE)
    if share:
        return Reach(host, share, True, "anyone with a share link can use it")
    if not is_loopback(host):
        return Reach(host, share, True, f"{host} can be reached from other machines")
    return Reach(host, share, False)


def on_a_space() -> bool:
    """Return whether this is a Hugging Face Space, which anybody can visit."""
    return bool(os.environ.get("SPACE_ID"))


def offers_sign_in() -> bool:
    """Return whether Gradio can sign visitors in with Hugging Face.

    Outside of a Space it never does: there it would sign everybody in as the owner of this machine's token.
    """
    on_space = os.environ.get("SYSTEM") == "spaces" and on_a_space()
    return on_space and all(map(os.environ.get, OAUTH)) and all(map(find_spec, OAUTH_PACKAGES))


def is_loopback(host: str) -> bool:
    """Return whether a listening address is reachable from this machine only.

    The only name accepted is ``localhost``.
    """
    name = host.strip().removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def split_origin(origin: str) -> SplitResult:
    """Return the parts of an Origin header; of one that is no address, empty ones."""
    try:
        return urlsplit(origin)
    except ValueError:
        return urlsplit("")


def _notebook_elsewhere() -> bool:
    """Return whether Gradio would create a share link by itself, as in a hosted notebook."""
    from gradio import utils

    return bool(utils.colab_check() or utils.is_hosted_notebook())


# --- port -------------------------------------------------------------------------------------------------------------


def free_port(host: str, port: int | None) -> int:
    """Return ``port`` if it is free, or the first free one if ``None``. Raises ``HfposembError`` if there is none."""
    if port is not None:
        if not 1 <= port <= 65535:
            raise InputError(f"a port must be a number from 1 to 65535; got {port}")
        if taken := _taken(host, port):
            raise HfposembError(
                f"port {port} of {taken} is in use; choose another port, or omit it to use the next free one"
            )
        return port
    first = first_port()
    last = min(first + PORTS, 65536)
    found = next((candidate for candidate in range(first, last) if not _taken(host, candidate)), None)
    if found is None:
        raise HfposembError(f"ports {first} to {last - 1} of {host} are all in use; choose another port")
    return found


def listening(start: Callable[..., object], host: str, port: int | None) -> None:
    """Call ``start`` with ``server_port``; without a ``port``, with the next free one if another server was faster.

    Raises ``HfposembError`` if it cannot listen.
    """
    free = free_port(host, port)
    while True:
        try:
            start(server_port=free)
        except OSError as error:
            taken, free = free, free_port(host, port)
            if taken == free:
                raise HfposembError(f"the app cannot listen on {host}:{free} ({error}); choose another port") from error
        else:
            return


def first_port() -> int:
    """Return the first port to try: ``GRADIO_SERVER_PORT``, or 7860.

    Raises ``InputError`` if the variable is invalid.
    """
    given = os.environ.get("GRADIO_SERVER_PORT", "")
    if not given:
        return FIRST_PORT
    if not (given.isascii() and given.isdecimal() and len(given) < 6 and 1 <= int(given) <= 65535):
        raise InputError(f"GRADIO_SERVER_PORT must be a number from 1 to 65535; got {given[:40]!r}")
    return int(given)


def _taken(host: str, port: int) -> str:
    """Return the address on which somebody else listens: the host, or Gradio's own, which has to be free as well."""
    addresses = (host, os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1")
    return next((one for one in addresses if not _is_free(one, port)), "")


def _is_free(host: str, port: int) -> bool:
    """Return whether the app could listen there. Raises ``HfposembError`` if no port of the address can be used."""
    name = host.removeprefix("[").removesuffix("]")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise HfposembError(f"unknown host {host[:80]!r}; use 127.0.0.1, or 0.0.0.0 for all addresses") from error
    family, kind, protocol, _, address = found[0]
    try:
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        if error.errno == errno.EADDRNOTAVAIL:
            raise HfposembError(f"{host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0") from error
        if error.errno == errno.EACCES:
            raise HfposembError(f"port {port} is reserved for the system; choose 1024 or higher") from error
        raise HfposembError(f"the app cannot listen on {host}:{port}: {error.strerror or error}") from error
    return True


# --- authentication ---------------------------------------------------------------------------------------------------


def credentials(text: str) -> list[tuple[str, str]]:
    """Parse USER:PASSWORD, or ``@FILE`` with one per line, which keeps passwords out of the process list."""
    if not text.startswith("@"):
        return [_credential(text, "expected a login as USER:PASSWORD, or @FILE for a file with one per line")]
    path = Path(text[1:]).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(LOGIN_CHARACTERS + 1)
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot read the logins in {path}: {getattr(error, 'strerror', '') or error}") from error
    if len(content) > LOGIN_CHARACTERS:
        raise InputError(f"{path} has more than {LOGIN_CHARACTERS:,} characters; list fewer logins")
    lines = filter(None, map(str.strip, content.splitlines()))
    found = [_credential(line, f"every line of {path} must be USER:PASSWORD") for line in lines]
    if not found:
        raise InputError(f"{path} has no login; add a line USER:PASSWORD")
    return found


def _credential(text: str, expected: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not (user.strip() and colon and password):
        raise InputError(expected)  # never show the text: it may be a password
    return user.strip(), password


# --- browser ----------------------------------------------------------------------------------------------------------


def has_a_browser(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Return whether to open a browser: there is a display, and this is neither a remote shell, CI nor a Space."""
    known = os.environ if environment is None else environment
    if any(known.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")) or on_a_space():
        return False
    if platform in ("darwin", "win32", "cygwin"):
        return True
    return any(known.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"))


def open_browser(url: str) -> None:
    """Open a page in the browser, without waiting and without an error if it fails."""
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()


# --- initial sources --------------------------------------------------------------------------------------------------


def check_sources(sources: Sequence[str], *, public: bool) -> None:
    """Raise ``HfposembError`` for a source with an invalid name, a missing path, or a path in public mode."""
    from hfposemb.checkpoints.access import Access, local_path
    from hfposemb.tables.source_parser import parse_source
    from hfposemb.tables.sources import LocalSource, with_bases
    from hfposemb.text import display

    for text in sources:
        said = display(text, width=60)
        for source in with_bases(parse_source(text)):
            if not isinstance(source, LocalSource):
                continue
            if public:
                raise InputError(
                    f"{said} is on this machine, and public mode opens no files; use --trusted (public=False in "
                    "Python), or give a model of the Hub"
                )
            if not local_path(source, Access()).exists():
                raise InputError(f"{said} does not exist; give a folder with a checkpoint or a .safetensors file")
