"""The errors this package raises on purpose: one line each, saying what was found, expected and to do."""


class HfposembError(Exception):
    """Base of every error this package raises on purpose."""


class SourceError(HfposembError):
    """A source that cannot be understood, found or read."""


class CheckpointError(SourceError):
    """A checkpoint file whose bytes break a rule of its format."""


class HubError(SourceError):
    """A repository of the Hub that cannot be read: what it answered, and what to do."""


class MissingFileError(HubError):
    """A file that a repository does not have."""


class ChangedFileError(HubError):
    """A file that is not the one that was read before, though it has the same name and commit."""


class OfflineError(HubError):
    """The Hub could not be reached at all."""


class CancelledError(HfposembError):
    """A read or a computation that was stopped on request."""


class MissingTableError(HfposembError):
    """A source that has no table of the kind asked for; the message says what it has instead."""


class InputError(HfposembError, ValueError):
    """An argument that cannot be used, with what would be."""


class MissingExtraError(HfposembError, ImportError):
    """A package that an optional feature needs; the message holds the exact ``pip install`` line."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'hfposemb[{extra}]'")


def one_line(error: object) -> str:
    """Return what an error says, or a text, on one line."""
    return " ".join(str(error).split())
