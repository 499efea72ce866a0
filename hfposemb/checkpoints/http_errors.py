"""The errors of the HTTP library that huggingface_hub sends requests with: httpx in version 1, httpx2 from version 2.

Both may be installed at once, so huggingface_hub's own exceptions decide which of them its sessions raise.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache

from ..errors import HubError

OLDEST_HUB = "1.16"
"""The lowest version of huggingface_hub that ``pyproject.toml`` declares."""


@dataclass(frozen=True)
class HTTPErrors:
    """Exceptions of one HTTP library, by what they mean for a request; each entry fits an ``except`` clause."""

    unreachable: type[Exception]
    timeout: type[Exception]
    bad_address: tuple[type[Exception], ...]
    request: type[Exception]
    """Any failure of a request that got no answer; the three above are of this class or raised before sending."""
    stream: type[Exception]
    any: type[Exception]
    """Any failure of a request, refusals by the server included."""


@cache
def http_errors() -> HTTPErrors:
    """Return the exceptions that requests through huggingface_hub raise. Raises ``HubError`` where it is too old."""
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
        unreachable=library.ConnectError,
        timeout=library.TimeoutException,
        bad_address=(library.UnsupportedProtocol, library.LocalProtocolError, library.InvalidURL),
        request=library.RequestError,
        stream=library.StreamError,
        any=library.HTTPError,
    )
