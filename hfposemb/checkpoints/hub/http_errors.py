"""Exceptions of the HTTP library used by huggingface_hub: httpx in version 1, httpx2 from version 2.

Both may be installed, so the base classes of huggingface_hub's own exceptions decide which one its sessions use.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache

from ...errors import HubError

OLDEST_HUB = "1.16"
"""Lowest version of huggingface_hub that ``pyproject.toml`` allows."""


@dataclass(frozen=True)
class HTTPErrors:
    """Exceptions of one HTTP library by meaning, each usable in an ``except`` clause."""

    unreachable: tuple[type[Exception], ...]
    timeout: type[Exception]
    bad_address: tuple[type[Exception], ...]
    request: type[Exception]
    """Any failure without a response. Those above are subclasses or are raised before sending."""
    stream: type[Exception]
    any: type[Exception]
    """Any failed request, including those that the server refused."""


@cache
def http_errors() -> HTTPErrors:
    """Return the exceptions that huggingface_hub's requests raise. Raises ``HubError`` if its version is too old."""
    from huggingface_hub import __version__, errors

    names = (base.__module__.partition(".")[0] for base in errors.HfHubHTTPError.__mro__)
    name = next((name for name in names if name in ("httpx", "httpx2")), None)
    if name is None:
        raise HubError(
            f"huggingface_hub {__version__} is installed, and {OLDEST_HUB} or later is needed: "
            f"pip install 'huggingface_hub>={OLDEST_HUB}'"
        )
    library = sys.modules[name]
    return HTTPErrors(
        unreachable=(library.ConnectError, library.ConnectTimeout, library.ProxyError),
        timeout=library.TimeoutException,
        bad_address=(library.UnsupportedProtocol, library.LocalProtocolError, library.InvalidURL),
        request=library.RequestError,
        stream=library.StreamError,
        any=library.HTTPError,
    )
