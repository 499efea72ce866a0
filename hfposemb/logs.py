"""Log messages of the library, all by the logger ``hfposemb``; they are discarded unless a handler is added.

Retries and fallbacks are logged at INFO; cache hits and bytes read at DEBUG. Messages name repositories and files, and
have no addresses, query strings or tokens.

    >>> import logging
    >>> logging.getLogger("hfposemb").handlers
    [<NullHandler (NOTSET)>]
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOG = logging.getLogger("hfposemb")
LOG.addHandler(logging.NullHandler())


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Print all messages to standard error inside the context."""
    handler, level = logging.StreamHandler(sys.stderr), LOG.level
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
