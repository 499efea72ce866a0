"""Runs all checks on a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..checkpoints.access import Access, Visitor, local_path
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..errors import HfposembError
from ..tables.source_parser import source_of
from ..tables.sources import LocalSource, Source
from ..text import display
from .check_report import CheckReport
from .checked_source import CheckedSource, open_source
from .findings import SEVERITIES, Finding
from .output_head import check_head
from .rope_engines import check_engines
from .rotary_settings import check_rope
from .stored_files import check_files, check_index
from .table_rows import check_further_rows, check_positions, check_rows
from .tokenizer_files import check_ids, read_tokens


def check(
    source: str | Path | Source,
    *,
    revision: str | None = None,
    token: str | bool | Visitor | None = None,
    full: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> CheckReport:
    """Look for faults in the files of a model: head, vocabulary, rows, special tokens, positions, shapes, dtypes.

    Nothing is executed and no layer is read. On the Hub, configuration, one header, the tokenizer's settings and a
    range of the token table are read: at most six requests besides redirects, and 2 MB. Local tables are read whole up
    to 256 MB.

    Args:
        source: ``owner/name``, a folder, a ``.safetensors`` file or a sample such as ``sample:bert``.
        revision: Branch, tag or commit of a repository on the Hub.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none, a ``Visitor`` for somebody else's.
        full: Whether to read whole tables, all headers and the whole tokenizer.
        limits: Limits of what is read.

    Returns:
        The findings, the most serious first, and what was not examined.

    Raises:
        SourceError: If the source cannot be found or read.
        InputError: If the source has no files, as a built-in has none.

    Examples:
        >>> import hfposemb as hpe
        >>> report = hpe.check("sample:bert")
        >>> report.passed, len(report.of("wrong"))
        (True, 0)
    """
    found = list(_of_index(source, Access(token)))
    try:
        opened = open_source(source, revision=revision, token=token, limits=limits, full=full)
    except HfposembError as error:
        if not found:
            raise
        name = str(source)
        return CheckReport(name, _sorted(found), ("files",), (display(str(error), width=300),))
    found += _all(opened)
    return CheckReport(
        opened.name,
        _sorted(found),
        _checked(opened),
        tuple(opened.not_checked),
        opened.commit,
        opened.traffic.requests,
        opened.traffic.received,
    )


def _of_index(source: str | Path | Source, access: Access) -> Iterator[Finding]:
    named = source_of(source) if isinstance(source, str | Path) else source
    if isinstance(named, LocalSource) and (path := local_path(named, access)).exists():
        yield from check_index(path)


def _all(source: CheckedSource) -> Iterator[Finding]:
    if not source.config:
        source.skipped("there is no config.json, so only the rows of the tables are checked")
    tokens = read_tokens(source)
    yield from check_files(source)
    yield from check_ids(source, tokens)
    yield from check_head(source)
    yield from check_rows(source, tokens)
    yield from check_further_rows(source, tokens)
    yield from check_positions(source, tokens)
    yield from check_rope(source)
    yield from check_engines(source)


def _checked(source: CheckedSource) -> tuple[str, ...]:
    """Return what was examined, in a few words each."""
    found = ((role, source.table(role)) for role in source.embeddings.tables)
    tables = [
        f"{role} table {one.shape[0]:,} × {one.shape[1]:,} {one.provenance.stored_dtype}" for role, one in found if one
    ]
    return (f"{len(source.infos):,} of {len(source.names):,} tensor headers", *tables)


def _sorted(found: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda one: SEVERITIES.index(one.severity)))
