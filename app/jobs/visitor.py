"""Who asks: the page, and the address that it comes from."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfposemb.errors import HfposembError

if TYPE_CHECKING:
    import gradio as gr


class BusyError(HfposembError):
    """The queue cannot accept the work at present."""


@dataclass(frozen=True)
class Visitor:
    """A visitor: the ``session`` of the page, and the client ``address``, empty if unknown."""

    session: str
    address: str = ""

    @classmethod
    def of(cls, request: gr.Request, *, public: bool) -> Visitor:
        """Identify the visitor. The address is used in public mode only: all local pages share one."""
        session = request.session_hash or ""
        if not public:
            return cls(session)
        sent = request.headers.get("x-forwarded-for") or ""
        peer = request.client.host if request.client else ""
        return cls(session, known_address(sent.split(","), peer))


def known_address(forwarded: Sequence[str], peer: str) -> str:
    """Return the right-most globally routable address, or an empty string.

    Use the right-most address: clients cannot spoof what the proxy appends, provided that it appends a public address.
    Behind proxies that report none, every page counts as its own visitor. IPv6 addresses are reduced to their /64
    prefix, which belongs to one subscriber.
    """
    for text in (*reversed(forwarded), peer):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if address.is_global:
            return str(ipaddress.ip_network((address, 64), strict=False) if address.version == 6 else address)
    return ""
