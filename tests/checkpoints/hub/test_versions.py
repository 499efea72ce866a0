"""What changes on the Hub while it is read: all that is shown is of one version, or nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.errors import ChangedFileError, HubError, SourceError
from tests.conftest import FULL
from tests.hub import FakeHub

WIDTH, PLACES = 64, 500
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@dataclass(frozen=True)
class Content:
    """What a repository holds at one commit: all its numbers are ``mark``, which its small files have too."""

    mark: int
    sharded: bool = False
    rows: int = 600

    @property
    def tables(self) -> dict[str, NDArray[np.float32]]:
        """Return tables too large to come with the header."""
        shapes = {"wte.weight": (self.rows, WIDTH), "wpe.weight": (PLACES, WIDTH)}
        return {name: np.full(shape, self.mark, np.float32) for name, shape in shapes.items()}

    @property
    def weights(self) -> dict[str, bytes]:
        """Return the files of the tables, and the index where they are several."""
        if not self.sharded:
            return {"model.safetensors": save(self.tables)}
        placed = dict(zip(self.tables, SHARDS, strict=True))
        index = json.dumps({"metadata": {}, "weight_map": placed}).encode()
        shards = {file: save({name: self.tables[name]}) for name, file in placed.items()}
        return {"model.safetensors.index.json": index, **shards}

    @property
    def files(self) -> dict[str, bytes]:
        """Return all files."""
        sizes = {"n_positions": PLACES, "n_embd": WIDTH, "vocab_size": self.rows}
        words = {f"{self.mark}.{row}": row for row in range(self.rows)}
        tokenizer = {"model": {"type": "WordLevel", "vocab": words, "unk_token": "x"}, "added_tokens": []}
        config = {"model_type": "gpt2", "mark": self.mark, **sizes}
        small = {"config.json": json.dumps(config).encode(), "tokenizer.json": json.dumps(tokenizer).encode()}
        return small | self.weights


def read(repo: str) -> dict[str, set[float]]:
    """Read all that a repository gives, a few rows first; return which versions each part is of."""
    found = hpe.extract(repo)
    parts: dict[str, NDArray[np.float32]] = {"rows": found.token.rows(3, 5)}
    parts |= {"position": found.position.table.vectors, "token": found.token.vectors}
    versions = {part: set(map(float, np.unique(values))) for part, values in parts.items()}
    labels = {float(text.split(".")[0]) for text in found.token.labels.texts[:5]}
    return {**versions, "config": {float(found.config["mark"])}, "labels": labels}


Change = Callable[[FakeHub, str, Content], object]


def move_the_branch(hub: FakeHub, repo: str, after: Content) -> None:
    hub.move(repo, "main", hub.add(repo, after.files, branch="next"))


def replace_the_files(hub: FakeHub, repo: str, after: Content) -> None:
    for name, data in after.weights.items():
        hub.replace(repo, name, data)


def replace_at_the_cdn(hub: FakeHub, repo: str, after: Content) -> None:
    for name, data in after.weights.items():
        hub.replace(repo, name, data, at_cdn=True)


def read_while_it_changes(hub: FakeHub, change: Change, before: Content, after: Content, *, direct: bool) -> list[str]:
    """Let a repository change before its k-th answer, for every k; return what each reading gave."""
    outcomes: list[str] = []
    fault = None
    while fault is None or fault.hits:
        hub.reset()
        hub.direct = direct
        repo = f"somebody/moving{len(outcomes)}"  # under a name of its own, so that nothing is in the cache
        hub.add(repo, before.files)
        what = lambda repo=repo: change(hub, repo, after)  # noqa: E731
        fault = hub.fault("happens", after=len(outcomes), what=what)
        outcomes.append(_outcome(repo, whole=change is move_the_branch))
    return outcomes


def _outcome(repo: str, *, whole: bool) -> str:
    try:
        seen = read(repo)
    except SourceError as error:
        return type(error).__name__
    if not whole:  # the small files were not replaced
        seen = {part: of for part, of in seen.items() if part not in ("config", "labels")}
    versions = set[float]().union(*seen.values())
    assert len(versions) == 1, f"versions are mixed: {seen}"
    return str(versions.pop())


CHANGES = [
    (change, sharded, rows, direct)
    for change in (move_the_branch, replace_the_files, replace_at_the_cdn)
    for sharded in (False, True)
    for rows in (600, 700)
    for direct in (False, True)
    # That shards of one commit belong together nothing says, and what is answered directly is at no CDN.
    if not (sharded and change is not move_the_branch) and not (direct and change is replace_at_the_cdn)
    if FULL or (not (sharded and rows == 700) and not (direct and rows == 600))
]


@pytest.mark.parametrize(("change", "sharded", "rows", "direct"), CHANGES)
def test_what_changes_between_any_two_answers_is_never_mixed(
    hub: FakeHub, change: Change, sharded: bool, rows: int, direct: bool
) -> None:
    found = read_while_it_changes(hub, change, Content(1, sharded), Content(2, sharded, rows), direct=direct)
    assert len(found) >= 6, "there are as many moments as answers"
    assert found[0] == "2.0", "before the first answer"
    assert found[-1] == "1.0", "after the last one"
    if change is move_the_branch:
        assert set(found) <= {"1.0", "2.0"}, "a commit stays readable"


def test_rows_given_out_settle_the_version(hub: FakeHub) -> None:
    hub.add("a/b", Content(1).files)
    found = hpe.extract("a/b")
    assert found.token.rows(0, 2)[0, 0] == 1
    replace_at_the_cdn(hub, "a/b", Content(2))
    with pytest.raises(ChangedFileError, match="changed between two reads; open it again"):
        found.position.table.vectors.sum()
    again = hpe.extract("a/b")
    with pytest.raises(ChangedFileError):
        found.token.vectors.sum()
    assert again.position.table.vectors[0, 0] == 2
    assert again.token.vectors[0, 0] == 2


def test_tables_in_the_cache_are_of_the_headers_version(hub: FakeHub) -> None:
    hub.add("a/b", Content(1).files)
    assert hpe.extract("a/b").position.table.vectors[0, 0] == 1
    replace_at_the_cdn(hub, "a/b", Content(2))
    found = hpe.extract("a/b")
    assert found.token.vectors[0, 0] == 2, "its header is asked for again, and says the same"
    assert found.position.table.vectors[0, 0] == 2, "not the one that was kept"


def test_parts_without_a_strong_tag_are_refused(hub: FakeHub) -> None:
    hub.add("a/b", Content(1).files)
    hub.fault("etag", times=None, host="cdn", value='W/"1"')
    found = hpe.extract("a/b")  # the Hub's own redirect has a strong tag
    assert found.token.vectors[0, 0] == 1
    hub.direct = True
    hub.add("a/c", Content(1).files)
    hub.fault("etag", times=None, path="a/c", value='W/"1"')
    with pytest.raises(HubError, match="only the weak ETag"):
        hpe.extract("a/c")


def test_a_missing_file_without_a_commit_is_not_believed(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("a/b", {**Content(1).weights})
    hub.fault("commit", times=None, value=None)
    with pytest.raises(HubError, match="names no commit"):
        hpe.extract("a/b")


def test_threads_that_read_while_a_file_changes_agree(hub: FakeHub) -> None:
    for number in range(10):
        repo = f"a/threads{number}"
        hub.add(repo, Content(1).files)
        found = hpe.extract(repo)
        hub.fault("happens", host="cdn", after=number % 4, what=lambda: replace_at_the_cdn(hub, repo, Content(2)))  # noqa: B023
        seen: set[float] = set()

        def rows(start: int) -> None:
            with suppress(SourceError):
                seen.update(map(float, np.unique(found.token.rows(start, start + 2))))  # noqa: B023

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(rows, range(0, 80, 10)))
        assert len(seen) <= 1, f"versions are mixed: {seen}"
        hub.reset()
