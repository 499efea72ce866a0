"""Errors that this package raises deliberately.

Each message is one line that says what was found, what was expected, and what to do.
"""


class HfposembError(Exception):
    """Base class of all errors that this package raises deliberately.

    ``reason`` is the message, or the part of it that does not name the source.
    """

    def __init__(self, *args: object, reason: str = "") -> None:
        super().__init__(*args)
        self.reason = reason or str(self)


class SourceError(HfposembError):
    """A source could not be parsed, found or read."""


class CheckpointError(SourceError):
    """A checkpoint file violates its format."""


class HubError(SourceError):
    """A repository on the Hub could not be read; the message has the Hub's answer and a remedy."""


class RefusedError(HubError):
    """The Hub does not let the reader see a repository ``repo``: it is private, or there is none of this name.

    Or it is ``gated``, or the token was ``rejected``.
    """

    def __init__(self, *args: object, repo: str = "", gated: bool = False, rejected: bool = False) -> None:
        super().__init__(*args)
        self.repo, self.gated, self.rejected = repo, gated, rejected


class MissingFileError(HubError):
    """A repository does not have the requested file."""


class ChangedFileError(HubError):
    """A file differs from the one read before under the same name and commit."""


class OfflineError(HubError):
    """The Hub could not be reached."""


class CancelledError(HfposembError):
    """A read or computation was cancelled on request."""


class MissingTableError(HfposembError):
    """A source has no table of the requested kind; the message says what it has instead."""


class InputError(HfposembError, ValueError):
    """An argument is invalid; the message says what would be valid."""


class MissingExtraError(HfposembError, ImportError):
    """A package required by an optional feature is missing; the message has the ``pip install`` command."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'hfposemb[{extra}]'")


def require(module: str, *, extra: str, purpose: str, package: str | None = None) -> None:
    """Raise ``MissingExtraError`` if a module is not installed, without importing it.

    Args:
        module: Name of the module.
        extra: Extra of this package that installs it.
        purpose: What needs it, as the beginning of a sentence.
        package: Name of the package if it is not that of the module.

    Examples:
        >>> from hfposemb.errors import require
        >>> require("numpy", extra="umap", purpose="UMAP")
    """
    from importlib.util import find_spec  # not at the top: every command imports this module

    if find_spec(module) is None:
        raise MissingExtraError(package or module, extra=extra, purpose=purpose)


def one_line(error: object) -> str:
    """Return an error's message, or a text, on one line."""
    return " ".join(str(error).split())
