"""One deadline over a whole read: no server holds it for longer, however it spreads its bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.checkpoints.deadline import SLOWEST, Deadline, current, one_read
from hfposemb.checkpoints.limits import Limits
from hfposemb.errors import HfposembError, SourceError
from tests.hub import FakeHub
from tests.support.checkpoints.repository import CONFIG, FILE, REPO, TABLES

SECONDS = 0.3
LONGEST = 60 * SECONDS
"""Seconds after which a read counts as held: far beyond its deadline, far below what the faults would take."""


def test_bytes_extend_a_deadline_as_far_as_they_were_announced() -> None:
    deadline = Deadline(100)
    deadline.paused(-90)
    deadline.received(10 * SLOWEST)
    assert deadline.left == pytest.approx(10, abs=1), "nothing was announced"
    deadline.allow(20 * SLOWEST)
    deadline.received(5 * SLOWEST)
    assert deadline.left == pytest.approx(15, abs=1)
    deadline.received(500 * SLOWEST)
    assert deadline.left == pytest.approx(30, abs=1), "no more than was announced"
    deadline.allow(1000 * SLOWEST)
    deadline.received(1000 * SLOWEST)
    assert deadline.left == pytest.approx(100, abs=1), "never further than its seconds from now"


def test_a_timeout_is_what_is_left_each_time() -> None:
    deadline = Deadline(5)
    timeout: Any = deadline.timeouts()["read"]
    assert timeout.__index__() == 5
    deadline.paused(100)
    assert timeout.__index__() == 10, "one operation takes no longer, whatever is left"
    deadline.paused(-200)
    with pytest.raises(TimeoutError):
        timeout.__index__()


def test_reads_inside_a_read_share_its_deadline() -> None:
    with one_read(30) as outer, one_read(60) as inner:
        assert inner is outer
        assert current(5) is outer
    assert current(5) is not outer


@dataclass(frozen=True)
class Drip:
    """A fault that spreads an answer over time, and the answers that it strikes."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    where: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = [str(value) for value in (*self.parameters.values(), *self.where.values())]
        return "-".join([self.name, *values]).replace("/", "_")


BODY_OF_CONFIG = {"path": "resolve-cache.*config"}
API = {"path": "/api/models/"}
TENSOR = {"host": "cdn", "after": 1}
DRIPS = [
    Drip("drip_headers", {"rate": 20}, {"host": "hub"}),
    Drip("drip_headers", {"rate": 20}, {"host": "cdn"}),
    Drip("drip_headers", {"rate": 20}, TENSOR),
    Drip("drip_headers", {"rate": 20}, API),
    Drip("drip", {"rate": 20}, BODY_OF_CONFIG),
    Drip("drip", {"rate": 20, "framing": "chunked"}, BODY_OF_CONFIG),
    Drip("drip", {"rate": 20, "framing": "close"}, API),
    Drip("drip", {"rate": 20, "framing": "chunked"}, API),
    Drip("drip", {"rate": 2000}, TENSOR),
    Drip("drip_trailer", {"pause": 0.05}, API),
    Drip("tiny_chunks", {}, {"host": "cdn"}),
    Drip("tiny_chunks", {}, API),
    Drip("informational", {"pause": 0.05}, {"host": "hub"}),
    Drip("informational", {"padding": 5000}, {"host": "cdn"}),
]


def in_time(read: Callable[[], object]) -> object:
    """Return what a read returns or the error it raises, and fail where it is held long after its deadline."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(read())
        except HfposembError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST)
    assert found, f"the read was still held after {LONGEST:g} s, its deadline is {SECONDS:g} s"
    return found[0]


@pytest.mark.parametrize("drip", DRIPS, ids=str)
def test_no_server_holds_a_read(hub: FakeHub, drip: Drip) -> None:
    # A file of another name is found through the API.
    name = "weights.safetensors" if drip.where is API else "model.safetensors"
    hub.add(REPO, {"config.json": CONFIG, name: FILE})
    hub.fault(drip.name, times=None, **drip.where, **drip.parameters)
    found = in_time(lambda: hpe.extract(REPO, limits=Limits(seconds=SECONDS)).position.table.vectors)
    assert isinstance(found, SourceError)
    assert f"given up after {SECONDS:g} s" in str(found)
    hub.reset()
    hub.add(REPO, {"config.json": CONFIG, name: FILE})
    vectors = hpe.extract(REPO).position.table.vectors
    assert np.array_equal(vectors, TABLES["wpe.weight"]), "nothing wrong was kept, and no connection is in the way"


def test_one_deadline_is_over_all_requests_of_a_read(hub: FakeHub) -> None:
    """Requests of which none takes the deadline, but all together do, are one read."""
    hub.add(REPO, {"config.json": CONFIG, "weights.safetensors": FILE, "tokenizer.json": b"{}"})
    hub.shape(delay=0.5)
    found = in_time(lambda: hpe.extract(REPO, limits=Limits(seconds=0.75)))
    assert isinstance(found, SourceError)
    assert "given up after 0.75 s" in str(found)
    hub.shape()
    assert hpe.extract(REPO).position.table.shape == TABLES["wpe.weight"].shape


def test_a_slow_but_steady_connection_reads_a_table_that_takes_longer_than_the_deadline(hub: FakeHub) -> None:
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": FILE})
    table = hpe.extract(REPO, limits=Limits(seconds=1.0)).token
    hub.shape(rate=4 * SLOWEST)
    assert np.array_equal(table.vectors, TABLES["wte.weight"]), "768 kB at 400 kB/s take two seconds"
