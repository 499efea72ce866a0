"""Visitors who have signed in with Hugging Face: their tokens, and what was opened with these, until they sign out.

Guarantees: a token is in the memory of this process, and of child processes that work for its visitor, and nowhere
else; the browser's cookie holds a random key. What was opened with a token is found only by events that come with this
key. When the visitor signs out, or the token expires, the token, what was opened with it, the folder with what was read
and the files made for its pages are dropped.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_urlsafe
from threading import RLock, Timer
from typing import Any

from gradio.context import LocalContext

from hfposemb.checkpoints.access import Visitor
from hfposemb.errors import RefusedError, SourceError

from ..components.files import OwnStore, removed_at_exit
from ..limits import MOST_SIGNED_IN, SIGNED_IN_RESULT_BYTES, SIGNED_IN_SECONDS, SIGNED_IN_SOURCE_BYTES
from .kept import Kept, Layered

KEY = "hfposemb"
"""Name, in the session that the cookie holds, of the key of an account."""

INFO = "oauth_info"
"""Name, in the session that Gradio sees, of what the provider sent: the token and the profile."""


NAME = "preferred_username"
PROFILE = (NAME, "name", "profile", "picture")
"""What is kept of the profile: what Gradio reads of it."""


ACCOUNT = "hfposemb.account"
"""Name, in the ASGI scope of a request to a page that offers to sign in, of the account that it comes with.

An event keeps its account even if that is closed meanwhile: what it computes is never put where others find it.
"""


@cache
def _folders() -> Path:
    """Return the folder for those of the accounts, which only its owner can enter."""
    return removed_at_exit(Account, "hfposemb-visitors-")


@dataclass(eq=False)
class Account:
    """A visitor who has signed in, and what was opened and computed for that visitor alone.

    Attributes:
        info: What the provider sent, as Gradio keeps it in a session.
        id: Identifies the account among the reads of this process.
        sources: What was opened with the token.
        files: What was made for the visitor's pages.
    """

    info: Mapping[str, Any] = field(repr=False)
    id: str = field(default_factory=token_urlsafe)
    sources: Kept = field(default_factory=lambda: Kept(SIGNED_IN_SOURCE_BYTES), repr=False)
    files: OwnStore = field(default_factory=OwnStore, repr=False)
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(dir=_folders())), repr=False)
    _results: dict[Kept, Layered] = field(default_factory=dict, repr=False)
    _timer: Timer | None = field(default=None, repr=False)
    closed: bool = False

    @property
    def visitor(self) -> Visitor:
        """The token and the folder that models are read with. Raises ``SourceError`` if the account is closed."""
        token = self.info.get("access_token")
        if token is None:
            raise SourceError("you are no longer signed in; sign in again")
        return Visitor(token, self._folder)

    @property
    def left(self) -> float:
        """Seconds until the account is closed."""
        return float(self.info.get("expires_at", 0.0)) - time.time()

    def results_over(self, shared: Kept) -> Kept:
        """Return the results computed for this visitor, over those that all visitors share."""
        return self._results.setdefault(shared, Layered(shared, SIGNED_IN_RESULT_BYTES))

    def close(self) -> None:
        """Drop the token and all that was opened with it."""
        self.closed, self.info = True, {}
        self.sources, self._results = Kept(0, entries=0), {}
        if self._timer is not None:
            self._timer.cancel()
        self.files.close()
        self.clear_if_closed()

    def clear_if_closed(self) -> None:
        """Remove the visitor's folder if the account is closed: a read that was under way may have written to it."""
        if self.closed:
            shutil.rmtree(self._folder, ignore_errors=True)


class Accounts:
    """The accounts of this process by the key in each visitor's cookie, at most ``most``. Thread-safe."""

    def __init__(self, *, most: int = MOST_SIGNED_IN) -> None:
        self.most = most
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._accounts)

    def add(self, info: Mapping[str, Any]) -> str:
        """Open an account with what the provider sent, and return its key; the one unused for longest is closed.

        Raises:
            KeyError: The token or the profile is missing.
        """
        latest, person = time.time() + SIGNED_IN_SECONDS, info["userinfo"]
        kept = {
            "access_token": str(info["access_token"]),
            "scope": info.get("scope", ""),
            "expires_at": min(float(info.get("expires_at") or latest), latest),
            "userinfo": {name: person.get(name) or "" for name in PROFILE} | {NAME: person[NAME]},
        }
        account, key = Account(kept), token_urlsafe(32)
        with self._lock:
            self._accounts[key] = account
            while len(self._accounts) > self.most:
                self.remove(next(iter(self._accounts)))
        account._timer = Timer(max(account.left, 0.0), self.remove, (key,))
        account._timer.daemon = True
        account._timer.start()
        return key

    def find(self, key: object) -> Account | None:
        """Return the account of a key, ``None`` if there is none any more."""
        with self._lock:
            account = self._accounts.get(key) if isinstance(key, str) else None
            if account is None or not isinstance(key, str):
                return None
            if account.left <= 0:
                self.remove(key)
                return None
            self._accounts.move_to_end(key)
            return account

    def remove(self, key: str) -> None:
        """Close the account of a key, if there is one."""
        with self._lock:
            account = self._accounts.pop(key, None)
        if account is not None:
            account.close()


ACCOUNTS = Accounts()
"""The accounts of this process."""


@dataclass(frozen=True)
class Visit:
    """Who sent an event: an account, ``None`` without one, and whether the page offers to sign in."""

    account: Account | None = None
    offered: bool = False

    @property
    def id(self) -> Hashable:
        """Identifies the account among the reads of this process."""
        return None if self.account is None else self.account.id

    def explained(self, error: RefusedError) -> RefusedError:
        """Return what a page that offers to sign in says of a model that the Hub refuses."""
        if not self.offered or not error.repo:
            return error
        from huggingface_hub import constants

        repo, page = error.repo, f"{constants.ENDPOINT}/{error.repo}"
        if self.account is None and error.gated:
            said = f"{repo} is gated; sign in and accept its terms on its page, {page}"
        elif self.account is None:
            said = f"{repo} is not a public model on the Hub; check its name, or sign in to open a private model"
        elif error.gated:
            said = f"{repo} is gated; accept its terms on its page, {page}"
        elif error.rejected:
            said = f"{repo}: the Hub no longer accepts your sign-in; sign out and sign in again"
        else:
            said = f"{repo} is not on the Hub, or is private and not yours to read; check its name and your access"
        return RefusedError(said, repo=repo, gated=error.gated, rejected=error.rejected)


def visit(request: Any = None) -> Visit:
    """Return who sent the event that is being handled, or a ``gr.Request``."""
    request = getattr(request or LocalContext.request.get(None), "request", None)
    scope = getattr(request, "scope", None) or {}
    return Visit(scope.get(ACCOUNT), offered=ACCOUNT in scope)
