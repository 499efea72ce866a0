"""Two faults of Gradio's page that are mended while its scripts are delivered, because no option avoids them."""

from __future__ import annotations

from typing import NamedTuple


class Mend(NamedTuple):
    """A change of one expression: the start of the script's name, what it reads, and what it is to read."""

    script: str
    before: bytes
    after: bytes


STREAMS = Mend("statustracker-", b"&&s?`input`:", b"&&s&&s!==`closed`?`input`:")
"""In ``LoadingStatus.resolve_args``.

Gradio tracks the progress of an event on its outputs, and on its inputs while they are streamed. At the end of every
event it calls the stream of its inputs closed, even if there was none, and from then on it tracks them too. At each
message of the server its page looks up all that it tracks in the tree of components and copies its properties. On a
page of 300 components that took .6 s from a word to its neighbours, and with this change it takes .05 s.
"""

EVENTS = Mend(
    "core-",
    b"e=>this.find_attached_events(e,this.#n)",
    b"(t=>e=>(e.props.shared_props.attached_events=t.get(e.id)??[],e))(this.#n.reduce((t,{targets:n})=>{let r=new Set;"
    b"for(let[e,i]of n)r.has(e)||(r.add(e),i&&t.set(e,[...t.get(e)??[],i]));return t},new Map))",
)
"""In ``AppTree.postprocess``.

For each component Gradio searches the targets of all listeners for its own, through the proxies of Svelte's state. On a
page of 300 components with 200 listeners that is a sixth of a second, twice. With this change the listeners are walked
over once.
"""

MENDS = (STREAMS, EVENTS)


def mended(path: str, script: bytes) -> bytes:
    """Return a script of Gradio's page as it is to be delivered; one without a fault stays as it is.

    Args:
        path: Where it is served.
        script: Its content.

    Examples:
        >>> mended("/assets/statustracker-1.js", b"let t=h.includes(e)&&s?`input`:`skip`")
        b'let t=h.includes(e)&&s&&s!==`closed`?`input`:`skip`'
    """
    name = path.rpartition("/")[2]
    for mend in MENDS:
        if name.startswith(mend.script):
            script = script.replace(mend.before, mend.after, 1)
    return script
