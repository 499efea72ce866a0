"""Every cell of ``docs/formats.md``: read equal to what was stored at the stated cost, or refused with that line."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import HubError, MissingTableError, SourceError
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.table import EmbeddingTable
from tests.formats.formats import AGREED, WHOLE, YES, Format, Made, read_files
from tests.formats.page import FORMATS, READ, page
from tests.formats.quantised import LINEAR, left_alone
from tests.formats.refusals import REFUSED
from tests.hub import FakeHub
from tests.reference import DOCS

REPO = "a/model"
OBJECTS = 100_000
"""Bytes for what is not rows: shapes, names, lines of code that are loaded."""

pytestmark = pytest.mark.usefixtures("forked")


def table_of(source: Embeddings) -> EmbeddingTable:
    """Return the token table, or the position table of a model without tokens."""
    return source.token if "token" in source.tables else source.position.table


def assert_read(made: Made, table: EmbeddingTable, rows: object) -> None:
    """Require rows that were read alone, and all others, to be those that were stored."""
    assert made.expected is not None
    ids = [7, len(made.expected) - 2]
    for found, wanted in ((rows, made.expected[ids]), (table.vectors, made.expected)):
        assert np.shape(found) == wanted.shape
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=made.atol)


def named(one: Format) -> str:
    return one.name


@pytest.fixture
def root(tmp_path: Path, hub: FakeHub) -> Path:
    """Return an empty folder for the files of a format; the caches are empty too."""
    (tmp_path / "made").mkdir()
    return tmp_path / "made"


@pytest.mark.parametrize("kind", READ, ids=named)
def test_what_is_read(kind: Format, root: Path, hub: FakeHub) -> None:
    made = kind.make(root)
    assert made.expected is not None
    ids = [7, len(made.expected) - 2]
    assert kind.here == YES
    here = table_of(hpe.extract(made.source(root)))
    assert_read(made, here, here.rows(ids))

    hub.add(REPO, read_files(root))
    source = made.source(REPO)
    if kind.hub == AGREED:
        with pytest.raises(HubError, match="--allow-full-download, to read it whole"):
            hpe.extract(source)
    else:
        assert kind.hub == YES
    before = len(hub.requests)
    there = table_of(hpe.extract(source, allow_full_download=kind.hub == AGREED))
    rows = there.rows(ids)
    fetched = sum(one.body_bytes for one in hub.requests[before:])
    assert (fetched < there.provenance.nbytes) == (kind.rows == YES), "fetched for two rows"
    assert_read(made, there, rows)


@pytest.mark.parametrize("kind", REFUSED, ids=named)
def test_what_is_refused(kind: Format, root: Path, hub: FakeHub) -> None:
    made = kind.make(root)
    hub.add(REPO, read_files(root))
    for place, line in ((root, kind.here), (REPO, kind.hub)):
        source = made.source(place)
        with pytest.raises(SourceError) as caught:
            hpe.extract(source, allow_full_download=True)
        message = str(caught.value)
        for name in (source, Path(source).name):
            message = message.replace(f"{name}: ", "SOURCE: ")
        assert message == line


@pytest.mark.parametrize("method", LINEAR)
def test_a_quantised_head_is_named_and_leaves_the_rest(method: str, root: Path) -> None:
    made = left_alone(method)(root)
    found = hpe.extract(root)
    np.testing.assert_array_equal(found.token, made.expected)
    np.testing.assert_array_equal(found.inputs([5, 3]).normed, made.expected[[5, 3]])
    assert found.position.kind == "rotary"
    if method == "fp8":
        assert np.asarray(found.head).tolist() == [[1.0] * 16] * 16
        return
    with pytest.raises(MissingTableError, match=r"lm_head") as caught:
        np.asarray(found.head)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", [one for one in READ if one.rows != WHOLE], ids=named)
def test_no_reader_takes_more_than_twice_what_it_returns(kind: Format, root: Path) -> None:
    made = kind.make(root)
    table = table_of(hpe.extract(made.source(root)))
    table.rows([3])
    tracemalloc.start()
    vectors = table.vectors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * vectors.nbytes + OBJECTS


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "formats.md").read_text(encoding="utf-8") == page(), "run: python -m tests.formats"


def test_each_format_stands_once_on_the_page() -> None:
    assert len({one.name for one in FORMATS}) == len(FORMATS)
