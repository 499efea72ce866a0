"""The cache: whole or absent, bounded, and never in the way of a result."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.analysis.projection import cached_results
from hfposemb.analysis.projection.cached_results import cached_projection
from hfposemb.analysis.projection.projecting import Projection, UMAPParameters, project
from hfposemb.analysis.projection.quality import PointTrust, point_trust
from hfposemb.cache import KINDS, STALE_SECONDS, Cache, Key
from hfposemb.cli.main import main
from hfposemb.errors import InputError
from hfposemb.files import complete_file, unfinished
from hfposemb.tables.table import EmbeddingTable, Provenance, Vectors
from tests.conftest import FULL
from tests.hub import FakeHub

KEY = ("table", "owner/name", "607a30d7", "model.safetensors", "wte.weight")
OTHER = ("file", "owner/name", "607a30d7", "config.json")
KILLS = 50 if FULL else 5


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def files(cache: Cache) -> list[Path]:
    """Return every file under the cache's folder, whatever its name."""
    return sorted(path for path in cache.folder.rglob("*") if not path.is_dir())


def only_file(cache: Cache) -> Path:
    (path,) = files(cache)
    return path


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs ``code`` in this repository."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


def output(code: str, *arguments: object) -> str:
    with child(code, *arguments) as process:
        printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    return printed


# One entry


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_000])
def test_what_was_put_is_found(cache: Cache, size: int) -> None:
    payload = random.Random(size).randbytes(size)
    assert cache.find(KEY) is None
    for entry in (cache.put(KEY, payload), cache.find(KEY)):
        assert entry is not None
        assert entry.size == size
        assert entry.bytes() == payload
        assert entry.view().tobytes() == payload
        assert entry.view().dtype == np.uint8
        assert not entry.view().flags.writeable
        assert entry.view().ctypes.data % 64 == 0 or size == 0


def test_the_payload_begins_at_a_multiple_of_64_bytes(cache: Cache) -> None:
    for length in range(130):
        cache.put(("table", "x" * length), b"payload")
        assert (only_file(cache).stat().st_size - len(b"payload")) % 64 == 0
        cache.clear()


@given(
    key=st.tuples(st.sampled_from(KINDS), st.text(st.characters(exclude_categories=())), st.text()),
    payload=st.binary(max_size=300),
    parts=st.integers(1, 50),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_key_and_payload(cache: Cache, key: Key, payload: bytes, parts: int) -> None:
    with cache.write(key, size=len(payload)) as writer:
        for start in range(0, len(payload), parts):
            writer.write(memoryview(payload)[start : start + parts])
    assert writer.entry.bytes() == payload
    found = cache.find(key)
    assert found is not None
    assert found.bytes() == payload
    assert key in {entry.key for entry in cache.entries()}


def test_a_key_put_again_holds_the_last(cache: Cache) -> None:
    first = cache.put(KEY, b"old")
    cache.put(KEY, b"newer")
    found = cache.find(KEY)
    assert found is not None
    assert found.bytes() == b"newer"
    assert first.bytes() == b"old"
    assert len(files(cache)) == 1


def test_an_entry_outlives_its_file(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    entry = cache.find(KEY)
    cache.clear()
    assert entry is not None
    assert entry.bytes() == b"payload"


@pytest.mark.parametrize("key", [(), ("pickle", "x"), ("../table", "x")])
def test_a_key_begins_with_its_kind(cache: Cache, key: Key) -> None:
    with pytest.raises(InputError, match="a key must begin with its kind, one of table, "):
        cache.put(key, b"")


# What is not an entry


def test_every_cut_is_seen(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    whole = only_file(cache).read_bytes()
    for length in range(len(whole)):
        only_file(cache).write_bytes(whole[:length])
        assert cache.find(KEY) is None
        assert files(cache) == []
        cache.put(KEY, b"payload")


def test_every_altered_byte_is_seen(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    whole = only_file(cache).read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1 << place % 8
        only_file(cache).write_bytes(altered)
        assert cache.find(KEY) is None
        assert files(cache) == []
        cache.put(KEY, b"payload")


def test_an_alteration_after_the_first_check_is_seen(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    past = time.time_ns() - 10**10
    os.utime(only_file(cache), ns=(past, past))
    assert cache.find(KEY) is not None
    assert cache.find(KEY) is not None
    with only_file(cache).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"X")
    assert cache.find(KEY) is None


def test_the_digest_is_checked_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, b"payload")
    past = time.time_ns() - 10**10
    os.utime(only_file(cache), ns=(past, past))
    assert cache.find(KEY) is not None
    # An alteration that hides itself is the price; another mtime, or another process, sees it.
    path = only_file(cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"X")
    os.utime(path, ns=(past, past))
    assert cache.find(KEY) is not None
    os.utime(path, ns=(past, past + 1))
    assert cache.find(KEY) is None


def test_an_entry_of_another_key_is_not_taken(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    path = only_file(cache)
    whole = path.read_bytes()
    cache.clear()
    cache.put(OTHER, b"payload")
    other = only_file(cache)
    other.write_bytes(whole)
    assert cache.find(OTHER) is None
    assert not other.exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"null\n", b"[" * 70_000, b'{"format":1}\n', b"\xff" * 100])
def test_a_foreign_file_is_not_taken(cache: Cache, content: bytes) -> None:
    cache.put(KEY, b"payload")
    path = only_file(cache)
    path.write_bytes(content)
    assert cache.entries() == ()
    assert cache.find(KEY) is None
    assert not path.exists()


def test_a_link_is_not_followed(cache: Cache, tmp_path: Path) -> None:
    cache.put(KEY, b"payload")
    path, outside = only_file(cache), tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    assert cache.entries() == ()
    assert cache.clear() == 0
    assert path.is_symlink()
    assert cache.find(KEY) is None
    assert not path.is_symlink()
    assert outside.exists()


@pytest.mark.parametrize("level", ["kind", "shard"])
def test_a_linked_folder_is_not_entered(cache: Cache, tmp_path: Path, level: str) -> None:
    cache.put(KEY, b"payload")
    folder = only_file(cache).parent
    folder = folder.parent if level == "kind" else folder
    outside = tmp_path / "outside"
    folder.rename(outside)
    folder.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    assert cache.find(KEY) is None
    assert cache.entries() == ()
    assert cache.clear() == 0
    assert cache.put(KEY, b"other").bytes() == b"other"
    assert sorted(outside.rglob("*")) == before


def test_a_pipe_is_not_waited_for(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    path = only_file(cache)
    path.unlink()
    os.mkfifo(path)
    assert cache.find(KEY) is None


def test_a_folder_in_the_place_of_an_entry(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    path = only_file(cache)
    path.unlink()
    path.mkdir()
    assert cache.find(KEY) is None
    assert cache.put(KEY, b"payload").bytes() == b"payload"
    assert path.is_dir()
    assert files(cache) == []


# The writer


def test_an_error_in_the_block_keeps_nothing(cache: Cache) -> None:
    cache.put(KEY, b"before")
    writer = cache.write(KEY, size=4)
    with pytest.raises(KeyError, match="'stop'"), writer:
        raise KeyError(writer.write(b"1234") or "stop")
    with pytest.raises(InputError, match="with block has ended"):
        _ = writer.entry
    found = cache.find(KEY)
    assert found is not None
    assert found.bytes() == b"before"
    assert len(files(cache)) == 1


@pytest.mark.parametrize("limit", [10**6, 0])
@pytest.mark.parametrize("count", [0, 3, 5])
def test_another_number_of_bytes_keeps_nothing(cache: Cache, count: int, limit: int) -> None:
    with (
        pytest.raises(InputError, match="4 bytes were expected"),
        replace(cache, limit=limit).write(KEY, size=4) as writer,
    ):
        writer.write(b"x" * count)
    assert cache.find(KEY) is None
    assert files(cache) == []


def test_the_folder_is_private(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    for path in (cache.folder, *cache.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0


# The bound


def names(cache: Cache) -> list[str]:
    return [entry.key[1] for entry in cache.entries()]


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=3 * 1500)
    for name in "abc":
        cache.put(("table", name), bytes(1000))
    assert names(cache) == ["c", "b", "a"]
    assert cache.find(("table", "a")) is not None
    cache.put(("header", "d"), bytes(1000))
    assert names(cache) == ["d", "a", "c"]
    cache.put(("header", "e"), bytes(2500))
    assert names(cache) == ["e", "d"]


def test_listing_is_not_using(cache: Cache) -> None:
    for name in "abc":
        cache.put(("table", name), bytes(10))
    before = [(entry.key, entry.used) for entry in cache.entries()]
    assert [(entry.key, entry.used) for entry in cache.entries()] == before
    assert time.time() - before[0][1] < 60


def test_what_was_just_written_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1500)
    cache.put(("table", "a"), b"")
    future = time.time_ns() + 10**12
    os.utime(only_file(cache), ns=(future, future))
    cache.put(("table", "b"), bytes(1300))
    assert names(cache) == ["b"]


def test_an_entry_beyond_the_limit_stays_in_memory(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1000)
    cache.put(KEY, b"small")
    cache.put(OTHER, b"old")
    assert cache.put(OTHER, bytes(1001)).bytes() == bytes(1001)
    assert cache.find(OTHER) is None, "the earlier value of a key must not come back"
    assert cache.find(KEY) is not None


def test_clear_leaves_what_is_not_ours(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    foreign = ("notes.txt", "table/mine.txt", "table/ab/photo.jpg", "table/ab/x.entry", "other/ab/" + "0" * 62)
    for name in foreign:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    (tmp_path / "header" / "ab").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    for number in range(20):
        cache.put(("table", str(number)), bytes(100))
    assert 20 * 100 <= cache.clear() <= 20 * 300
    assert sorted(tmp_path.rglob("*")) == before
    assert cache.clear() == 0


def test_stale_temporary_files_go(cache: Cache) -> None:
    cache.put(KEY, b"payload")
    stale, live = (only_file(cache).parent / f".hfposemb-{name}.partial" for name in ("stale", "live"))
    for path, age in ((stale, STALE_SECONDS + 60), (live, STALE_SECONDS - 60)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    cache.put(OTHER, b"payload")
    assert not stale.exists()
    assert live.exists()
    cache.clear()
    assert files(cache) == []


def test_a_temporary_file_that_vanishes(cache: Cache) -> None:
    with cache.write(KEY, size=4) as writer:
        writer.write(b"12")
        cache.clear()
        writer.write(b"34")
    assert writer.entry.bytes() == b"1234"
    assert files(cache) == []


# Settings


def test_default_folder_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HFPOSEMB_CACHE", "HFPOSEMB_CACHE_BYTES", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache.default() == Cache(tmp_path / ".cache" / "hfposemb", 10_000_000_000)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Cache.default().folder == tmp_path / ".cache" / "hfposemb"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.default().folder == tmp_path / "xdg" / "hfposemb"
    monkeypatch.setenv("HFPOSEMB_CACHE", "~/mine")
    assert Cache.default(limit=7) == Cache(tmp_path / "mine", 7)
    monkeypatch.setenv("HFPOSEMB_CACHE_BYTES", "123")
    assert Cache.default(limit=7).limit == 123


@pytest.mark.parametrize("given", ["ten", "-1", "1.5", "1e9", "10 GB", "٣", "9" * 5000])
def test_a_limit_is_a_whole_number(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE_BYTES", given)
    with pytest.raises(InputError, match="HFPOSEMB_CACHE_BYTES must be a whole number of bytes; found ") as raised:
        Cache.default()
    assert "\n" not in str(raised.value)


# Faults of the disk


def mounted(folder: Path, *how: str) -> None:
    """Mount something on a folder; skip the test where that is not allowed."""
    folder.mkdir()
    if subprocess.run(["mount", *how, str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")


@pytest.fixture(params=["file", "below-file", "nowhere", "loop", "/proc/x", "/sys/x", "mode", "read-only", "full"])
def impossible(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which nothing can be kept."""
    kind, place = request.param, tmp_path / request.param
    (tmp_path / "mine").write_text("mine")
    mounts = {"read-only": ("-t", "tmpfs", "-o", "ro", "tmpfs"), "full": ("-t", "tmpfs", "-o", "size=64k", "tmpfs")}
    if kind in mounts:
        if shutil.which("mount") is None:
            pytest.skip("needs mount")
        mounted(place, *mounts[kind])
        with suppress(OSError):
            (place / "filling").write_bytes(bytes(10**6))
    elif kind == "mode":
        if os.geteuid() == 0:
            pytest.skip("modes do not bind root")
        place.mkdir(mode=0o500)
    elif kind in ("nowhere", "loop"):
        place.symlink_to(place if kind == "loop" else tmp_path / "not there")
    elif kind == "file":
        place = tmp_path / "mine"
    elif kind == "below-file":
        place = tmp_path / "mine" / "cache"
    yield place
    if kind in mounts:
        subprocess.run(["umount", str(place)], check=True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "not there").exists()


def test_an_impossible_folder(impossible: Path) -> None:
    cache = Cache(impossible)
    assert cache.put(KEY, b"payload" * 99).bytes() == b"payload" * 99
    with cache.write(KEY, size=3) as writer:
        writer.write(b"1")
        writer.write(b"23")
    assert writer.entry.view().tolist() == [49, 50, 51]
    assert not writer.entry.view().flags.writeable
    assert cache.find(KEY) is None
    assert cache.entries() == ()
    assert cache.clear() == 0


def test_results_do_not_need_a_cache(
    impossible: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    config = b'{"model_type": "gpt2"}'
    hub.add("a/model", {"model.safetensors": save({"wte.weight": rows, "wpe.weight": rows[:9]}), "config.json": config})
    monkeypatch.setenv("HFPOSEMB_CACHE", str(impossible))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for _ in range(2):
        found = hpe.extract("a/model")
        np.testing.assert_array_equal(found.token.vectors, rows)
        np.testing.assert_array_equal(found.position.table.vectors, rows[:9])
        assert_equal(
            cached_projection(Cache.default(), found.token, method="pca", dims=2, seed=0), project(found.token)
        )
    assert main(["info", "a/model"]) == 0
    assert capfd.readouterr().err == ""


def test_a_read_only_folder_is_read(tmp_path: Path) -> None:
    place = tmp_path / "place"
    mounted(place, "-t", "tmpfs", "tmpfs")
    try:
        cache = Cache(place / "cache")
        cache.put(KEY, b"payload")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert cache.put(OTHER, b"payload").bytes() == b"payload"
        assert cache.find(OTHER) is None
        assert cache.find(KEY) is not None
    finally:
        subprocess.run(["umount", str(place)], check=True)


FULL_DISK = """
import random, resource, signal, sys
from pathlib import Path
from hfposemb.cache import Cache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
cache = Cache(Path(sys.argv[1]))
payload = random.Random(0).randbytes(3_000_000)
cache.put(("file", "small"), b"")
with cache.write(("table", "x"), size=len(payload)) as writer:
    for start in range(0, len(payload), 70_000):
        writer.write(payload[start : start + 70_000])
assert writer.entry.bytes() == payload
assert cache.put(("table", "x"), payload).bytes() == payload
found = cache.find(("table", "x"))
print(None if found is None else found.bytes() == payload)
"""


@pytest.mark.parametrize(
    ("room", "kept"), [(10, "None"), (64, "None"), (1_000_000, "None"), (2_999_999, "None"), (4_000_000, "True")]
)
def test_a_full_disk(cache: Cache, room: int, kept: str) -> None:
    assert output(FULL_DISK, cache.folder, room).strip() == kept
    assert [path for path in files(cache) if path.suffix == ".partial"] == []
    assert (len(list((cache.folder / "table").rglob("*.entry"))) == 1) == (kept == "True")


MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
from hfposemb.cache import Cache
def now(name):
    return int(re.search(name + r":\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1000
cache, part = Cache(Path(sys.argv[1]), limit=int(sys.argv[2])), np.random.default_rng(0).bytes(1_000_000)
cache.put(("file", "warm"), part)
start, anonymous = now("VmHWM"), now("RssAnon")
with cache.write(("table", "x"), size=300_000_000) as writer:
    for _ in range(300):
        writer.write(part)
found = cache.find(("table", "x")) or writer.entry
assert found.view()[-1] == part[-1]
print(now("VmHWM") - start)
assert int(found.view().reshape(300, -1).sum(dtype=np.int64)) == 300 * int(np.frombuffer(part, np.uint8).sum())
print(now("RssAnon") - anonymous)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's own figures")
@pytest.mark.parametrize("limit", [10**9, 0])
def test_memory_stays_flat(cache: Cache, limit: int) -> None:
    """Through memory, where the limit is 0, the same test measures all 300 MB.

    VmHWM is what ``ru_maxrss`` means to be, which for a child begins at its parent's peak.
    """
    peak, anonymous = map(int, output(MEMORY, cache.folder, limit).split())
    if limit:
        assert peak < 30_000_000
        assert anonymous < 30_000_000
    else:
        assert peak > 280_000_000
        assert anonymous > 280_000_000


# Several processes


CROWD = """
import random, sys, time
from pathlib import Path
from hfposemb.cache import Cache
chance, cache = random.Random(int(sys.argv[2])), Cache(Path(sys.argv[1]), limit=200_000)
end, hits, puts = time.monotonic() + 1.5, 0, 0
while time.monotonic() < end:
    number = chance.randrange(20)
    key = ("table", str(number))
    what = chance.random()
    if what < 0.4:
        payload = bytes([chance.randrange(256)]) * (1000 * (number + 1))
        assert cache.put(key, payload).bytes() == payload
        puts += 1
    elif what < 0.98:
        if (entry := cache.find(key)) is not None:
            data = entry.bytes()
            assert len(data) == 1000 * (number + 1) and len(set(data)) == 1
            hits += 1
    elif what < 0.99:
        cache.clear()
    else:
        cache.entries()
assert puts and hits
"""


def test_several_processes_share_a_folder(cache: Cache) -> None:
    crowd = [child(CROWD, cache.folder, seed) for seed in range(3)]
    assert [process.wait(timeout=60) for process in crowd] == [0, 0, 0]
    for process in crowd:
        process.stdout.close()  # type: ignore[union-attr]
    assert [path for path in files(cache) if path.suffix == ".partial"] == []
    assert sum(path.stat().st_size for path in files(cache)) <= 200_000


def kill_later(code: str, *arguments: object, seed: int) -> None:
    """Run a child that prints a line once it works, and kill it at a random moment soon after."""
    with child(code, *arguments) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.01, 0.15))
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL


KEPT = """
import random, sys
from pathlib import Path
from hfposemb.cache import Cache
cache, chance = Cache(Path(sys.argv[1]), limit=50_000_000), random.Random(int(sys.argv[2]))
print("works", flush=True)
while True:
    number = chance.randrange(40)
    with cache.write(("table", str(number)), size=2_000_000 + number) as writer:
        for start in range(0, 2_000_000, 100_000):
            writer.write(bytes([number]) * 100_000)
        writer.write(bytes([number]) * number)
"""


def test_a_kill_leaves_entries_whole_or_absent(cache: Cache) -> None:
    whole, halves = 0, set()
    for seed in range(KILLS):
        kill_later(KEPT, cache.folder, seed, seed=seed)
        named = list(cache.folder.rglob("*.entry"))
        found = [cache.find(("table", str(number))) for number in range(40)]
        for number, entry in enumerate(found):
            assert entry is None or entry.bytes() == bytes([number]) * (2_000_000 + number)
        assert len(named) == sum(entry is not None for entry in found), "an entry was there, but not whole"
        whole += len(named)
        halves |= set(cache.folder.rglob("*.partial"))
    assert whole
    assert halves, "no kill came during a write"
    assert set(files(cache)) == halves | set(cache.folder.rglob("*.entry"))
    past = time.time() - STALE_SECONDS - 60
    for path in halves:
        os.utime(path, (past, past))
    cache.put(OTHER, b"payload")
    assert list(cache.folder.rglob("*.partial")) == []


def test_a_kill_leaves_written_files_whole_or_absent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.processes.killed", str(tmp_path), str(KILLS)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    found = json.loads(run.stdout)
    assert {kind: one["torn"] for kind, one in found.items() if one["torn"]} == {}
    assert sum(one["halves"] for one in found.values()) > len(found) // 2, "no kill came during a write"


def test_ctrl_c_while_a_file_is_created_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.open

    def interrupted(path: str, flags: int, mode: int = 0o777) -> int:
        os.close(create(path, flags, mode))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", interrupted)
        with pytest.raises(KeyboardInterrupt), complete_file(tmp_path / "out.html"):
            pytest.fail("it was not interrupted")
    assert list(tmp_path.iterdir()) == []
    assert unfinished == set()


DIRECT = re.compile(r"\.write_(text|bytes)\(|open\([^()]*\"[wax]b?\"|\.(savez?|tofile|to_csv|to_parquet|save_file)\(")
ELSEWHERE = {
    "hfposemb/files.py": "complete_file itself",
    "hfposemb/tables/table.py": "a temporary folder, in an example",
    "hfposemb/tables/saved/writing.py": "members of an archive that complete_file writes",
    "hfposemb/analysis/projection/cached_results.py": "memory, which the cache then writes",
    "hfposemb/checkpoints/file_choice.py": "what somebody is told to run",
    "hfposemb/checkpoints/hub/repository.py": "a temporary folder of this process",
    "hfposemb/checkpoints/pickles/checkpoint.py": "a temporary folder of this process",
    "hfposemb/cli/space_upload.py": "a temporary folder of this process",
    "app/components/files.py": "a temporary folder of this process",
    "hfposemb/checkpoints/pickles/child.py": "a pipe",
    "hfposemb/models/given_labels.py": "a temporary folder of this process",
    "hfposemb/comparison/row_fingerprints.py": "an example of its own save, which complete_file writes",
    "hfposemb/cli/inspecting.py": "the same",
    "hfposemb/reports/export.py": "a temporary folder of this process",
}
"""Modules that open files for writing, with what they write."""


def test_every_other_writer_writes_through_one_function() -> None:
    root = Path(__file__).parents[1]
    modules = [
        path for top in ("hfposemb", "app") for path in (root / top).rglob("*.py") if "samples" not in path.parts
    ]
    found = {str(path.relative_to(root)) for path in modules if DIRECT.search(path.read_text())}
    assert found == set(ELSEWHERE)


# Projections


class Counted:
    """A table of random vectors that counts how often it is read."""

    def __init__(self, *, name: str = "counted", rows: int = 60) -> None:
        self.vectors = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
        self.vectors[3, 3] = np.nan
        self.reads = 0
        shape = (rows, 8)
        self.table = EmbeddingTable(name, shape, self.vectors.dtype, Provenance("here"), self._rows)

    def _rows(self, start: int, stop: int) -> Vectors:
        self.reads += 1
        return self.vectors[start:stop]


def assert_equal(found: Projection | PointTrust | None, expected: Projection | PointTrust) -> None:
    assert found is not None
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, PointTrust):
            assert_equal(one, other)
        elif isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other
            assert type(one) is type(other)


@pytest.mark.parametrize(("method", "dims"), [("pca", 2), ("pca", 5), ("umap", 3)])
def test_a_cached_projection_is_the_computed_one(cache: Cache, method: str, dims: int) -> None:
    expected = project(Counted().table, method=method, dims=dims, seed=1)  # type: ignore[arg-type]
    counted = Counted()
    said: list[str] = []
    reads = 0
    for _ in range(2):
        found = cached_projection(
            cache,
            counted.table,
            method=method,  # type: ignore[arg-type]
            dims=dims,
            seed=1,
            progress=lambda share, doing: said.append(doing),
        )
        assert_equal(found, expected)
        assert said[-1] == "done"
        said.clear()
        reads = counted.reads
    cached_projection(cache, counted.table, method=method, dims=dims, seed=1)  # type: ignore[arg-type]
    assert counted.reads == reads
    found_again, computed_again = Counted(), Counted()  # of one table all rows may be in memory by now
    cached_projection(cache, found_again.table, method=method, dims=dims, seed=1)  # type: ignore[arg-type]
    cache.clear()
    cached_projection(cache, computed_again.table, method=method, dims=dims, seed=1)  # type: ignore[arg-type]
    assert computed_again.reads > found_again.reads, "the count would not show a computation"


def test_a_cached_projection_has_the_name_of_the_table_asked_for(cache: Cache) -> None:
    cached_projection(cache, Counted(name="one").table, method="pca", dims=2, seed=0)
    other = Counted(name="other")
    assert cached_projection(cache, other.table, method="pca", dims=2, seed=0).name == "other"
    assert len(files(cache)) == 1


def test_other_parameters_are_computed(cache: Cache) -> None:
    counted = Counted()
    cached_projection(cache, counted.table, method="pca", dims=2, seed=0)
    cached_projection(cache, counted.table, method="pca", dims=3, seed=0)
    cached_projection(cache, counted.table, method="pca", dims=2, seed=1)
    cached_projection(cache, Counted(rows=50).table, method="pca", dims=2, seed=0)
    umap = UMAPParameters(n_neighbors=5, n_epochs=5)
    for changed in (umap, replace(umap, min_dist=0.2), replace(umap, metric="euclidean")):
        found = cached_projection(cache, counted.table, method="umap", dims=2, seed=0, umap=changed)
        assert found.parameters["metric"] == changed.metric
    assert len(files(cache)) == 7


@pytest.mark.parametrize(
    ("method", "library"), [("pca", "numpy"), ("pca", "scipy"), ("umap", "umap-learn"), ("umap", "pynndescent")]
)
def test_other_versions_are_computed(method: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for release in ("1.0", "2.0"):
        monkeypatch.setattr(cached_results, "version", lambda name, now=release: now if name == library else "0")
        keys.add(cached_results.projection_key(Counted().table, method=method, dims=2, seed=0))
    assert len(keys) == 2


def test_trust_is_measured_when_it_is_read_and_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, measured = Counted(), []
    monkeypatch.setattr(
        "hfposemb.analysis.projection.projecting.point_trust",
        lambda *given, **named: measured.append(given) or point_trust(*given, **named),
    )
    found = cached_projection(cache, counted.table, method="pca", dims=2, seed=0)
    assert not found.measured
    assert len(files(cache)) == 1
    expected = found.quality
    assert (len(measured), len(files(cache))) == (1, 2)
    again = cached_projection(cache, counted.table, method="pca", dims=2, seed=0)
    assert (again.quality, again.trust.quality, len(measured)) == (expected, expected, 1)
    cache.put(next(one.key for one in cache.entries() if one.key[-1] == "trust"), b"PK\x03\x04 nonsense")
    assert cached_projection(cache, counted.table, method="pca", dims=2, seed=0).quality == expected
    assert len(measured) == 2


@pytest.mark.parametrize("fault", ["altered", "not a projection"])
def test_a_broken_projection_is_computed_again(cache: Cache, fault: str) -> None:
    counted = Counted()
    expected = cached_projection(cache, counted.table, method="pca", dims=2, seed=0)
    path, reads = only_file(cache), counted.reads
    if fault == "altered":
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        cache.put(cache.entries()[0].key, b"PK\x03\x04 nonsense")
    assert_equal(cached_projection(cache, counted.table, method="pca", dims=2, seed=0), expected)
    assert counted.reads > reads
    reads = counted.reads
    cached_projection(cache, counted.table, method="pca", dims=2, seed=0)
    assert counted.reads == reads
