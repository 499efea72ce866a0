"""A fault of Gradio's page that is mended while its script is delivered, because no option avoids it."""

from __future__ import annotations

TRACKED, MENDED = b"&&s?`input`:", b"&&s&&s!==`closed`?`input`:"
"""What ``LoadingStatus.resolve_args`` of Gradio's page reads, and what it is to read.

Gradio tracks the progress of an event on its outputs, and on its inputs while they are streamed. At the end of every
event it calls the stream of its inputs closed, even if there was none, and from then on it tracks them too. At each
message of the server its page looks up all that it tracks in the tree of components and copies its properties. On a
page of 300 components that took .6 s from a word to its neighbours, and with this change it takes .05 s.
"""


def mended(path: str, script: bytes) -> bytes:
    """Return a script of Gradio's page as it is to be delivered; one without the fault stays as it is.

    Args:
        path: Where it is served.
        script: Its content.

    Examples:
        >>> mended("/assets/statustracker-1.js", b"let t=h.includes(e)&&s?`input`:`skip`")
        b'let t=h.includes(e)&&s&&s!==`closed`?`input`:`skip`'
    """
    if not path.rpartition("/")[2].startswith("statustracker-"):
        return script
    return script.replace(TRACKED, MENDED, 1)
