"""Tables as arrays: NumPy, torch, pandas, scikit-learn and matplotlib take them, and none of them can change one."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sklearn.decomposition import PCA
from sklearn.utils import check_array

import hfposemb as hpe
from hfposemb import memory_maps
from hfposemb.errors import CheckpointError, InputError, MissingExtraError
from hfposemb.tables.table import EmbeddingTable, Provenance
from tests.conftest import FULL, Build
from tests.hub import FakeHub

ROWS, WIDTH = 3000, 64
STORED = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for each stored type, with a table large enough to be mapped and one that is not."""
    home = tmp_path_factory.mktemp("stored")
    torch.manual_seed(0)
    values = torch.randn(ROWS, WIDTH), torch.randn(20, WIDTH)
    assert 2 * ROWS * WIDTH >= memory_maps.SMALL > 8 * 20 * WIDTH
    for name, dtype in STORED.items():
        tables = dict(zip(("wte.weight", "wpe.weight"), (one.to(dtype) for one in values), strict=True))
        save_file(tables, home / f"{name}.safetensors")
    return home


# --- nobody can change a table ----------------------------------------------------------------------------------------

CHANGES = """
    import sys, warnings
    import numpy as np, torch
    import hfposemb as hpe

    warnings.simplefilter("ignore")  # torch warns that the arrays are read-only, and writes
    rows = np.random.default_rng(0).normal(size=(3000, 64)).astype(np.float32)
    opened = [hpe.extract(path) for path in sys.argv[1:]]
    tables = [table for one in opened for table in (one.token, one.position.table)]
    for table in (*tables, hpe.from_arrays(token=rows).token):
        before = np.array(table)
        near = hpe.neighbours(table, 5, k=3).rows
        for _ in range(2):
            vectors = torch.from_numpy(table.vectors)
            vectors -= vectors.mean(0)
            layer = torch.nn.Embedding.from_pretrained(torch.as_tensor(table.vectors), freeze=False)
            layer(torch.arange(5)).square().sum().backward()
            with torch.no_grad():  # as an optimiser does, whose import takes seconds
                layer.weight -= layer.weight.grad
            for taken in (table.rows(0, len(table)), table.rows(3, 9), table[2:7], table[4], table[[1, 2]]):
                torch.from_numpy(taken).zero_()
            for taken in (torch.as_tensor(table), torch.from_dlpack(table), torch.from_numpy(np.asarray(table))):
                taken.zero_()
            torch.from_numpy(next(table.chunks())[1]).zero_()
            torch.from_numpy(next(iter(table))).zero_()
            assert np.array_equal(table.vectors, before), "vectors"
            assert np.array_equal(table.rows(0, 9), before[:9]), "rows"
            assert np.array_equal(hpe.neighbours(table, 5, k=3).rows, near), "neighbours"
        assert table.digest == hpe.from_arrays(token=before).token.digest
    assert np.array_equal(rows, before) and rows.flags.writeable
    rows[:] = 0
    assert np.array_equal(table, before)
    print(len(tables), "tables")
"""


def test_what_torch_writes_into_vectors_changes_no_table(folder: Path) -> None:
    """In a process of its own: writing into a read-only map of the file ends it with a segmentation fault."""
    paths = [str(folder / f"{stored}.safetensors") for stored in STORED]
    command = [sys.executable, "-c", textwrap.dedent(CHANGES), *paths]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "8 tables\n", "")


def test_a_table_of_the_hub_is_not_changed_either(hub: FakeHub, folder: Path) -> None:
    hub.add("somebody/model", {"model.safetensors": (folder / "F32.safetensors").read_bytes()})
    table = hpe.extract("somebody/model").token
    before = np.array(table)
    warnings.simplefilter("ignore")  # torch's, that the array is read-only
    for _ in range(2):
        torch.from_numpy(np.asarray(table)).zero_()
        torch.as_tensor(table).zero_()
        np.testing.assert_array_equal(hpe.extract("somebody/model").token, before)
    np.testing.assert_array_equal(table, before)


def test_vectors_that_are_kept_are_not_a_copy_each(folder: Path) -> None:
    """More rows, each of an access of its own, than a process may have open files."""
    for stored in ("F32", "F16"):
        table = hpe.extract(folder / f"{stored}.safetensors").token
        rows = [table.vectors[5] for _ in range(1500)]
        np.testing.assert_array_equal(rows[-1], table[5])
        assert memory_maps.lendable(table.vectors)
        assert not np.shares_memory(table.vectors, table.vectors)


def test_a_file_that_is_gone_can_still_be_used(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((folder / "F32.safetensors").read_bytes())
    table = hpe.extract(path).token
    before = table.vectors
    path.unlink()
    np.testing.assert_array_equal(table.vectors, before)


def test_what_cannot_be_mapped_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have so many maps, and a system without files in memory has its folder for temporary ones."""
    array = np.arange(float(memory_maps.SMALL))
    kept = memory_maps.made_lendable(array)
    assert memory_maps.lendable(kept)
    assert not memory_maps.lendable(array)

    def refuse(*_: object) -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(memory_maps, "_map", refuse)
    for one in (memory_maps.lent(kept), memory_maps.lent(array), memory_maps.made_lendable(array)):
        np.testing.assert_array_equal(one, array)
    assert not np.shares_memory(memory_maps.lent(kept), kept)


# --- a table is taken as an array -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> EmbeddingTable:
    return hpe.extract("sample:bert").token


TAKEN: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "norm": lambda value: np.linalg.norm(value, axis=1),
    "mean": lambda value: np.mean(value, axis=0),
    "matmul": lambda value: np.matmul(value, np.asarray(value)[:3].T),
    "PCA": lambda value: PCA(2, svd_solver="covariance_eigh").fit(value).components_,
    "check_array": check_array,
    "DataFrame": lambda value: pd.DataFrame(value).to_numpy(),
    "torch.as_tensor": lambda value: torch.as_tensor(value).numpy(),
    "stack": lambda value: np.stack(list(value)),
    "matplotlib": lambda value: (
        pytest.importorskip("matplotlib.figure").Figure().add_subplot().imshow(value).get_array()
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_table_is_taken_as_its_vectors_are(name: str, table: EmbeddingTable) -> None:
    found, expected = TAKEN[name](table), TAKEN[name](table.vectors)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_torch_tensor_of_a_table() -> None:
    """By way of every row, as of a list: so few of them here."""
    few = hpe.extract("sample:bert").token.part(0, 5)
    found = torch.tensor(few)
    np.testing.assert_array_equal(found.numpy(), few.vectors)


def test_arrays_of_another_type_and_copies(table: EmbeddingTable) -> None:
    assert np.asarray(table, np.float64).dtype == np.float64
    own: NDArray[Any] = np.array(table)
    own -= own.mean(0)
    assert not np.array_equal(own, table.vectors)
    assert np.asarray(table, copy=False).shape == table.shape
    with pytest.raises(ValueError, match="float32; converting it to float64 needs a copy"):
        np.asarray(table, np.float64, copy=False)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(table)[0] = 0


def test_to_torch_is_a_copy(table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    found = table.to_torch()
    assert (found.dtype, tuple(found.shape)) == (torch.float32, table.shape)
    found.zero_()
    assert table.vectors.any()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"needs the package torch: pip install 'hfposemb\[torch\]'"):
        table.to_torch()


KEYS: dict[str, tuple[Any, Any]] = {
    "number": (3, 3),
    "numpy number": (np.int64(3), 3),
    "from the end": (-1, -1),
    "label": ("king", "king"),
    "slice": (slice(3, 7), slice(3, 7)),
    "steps": (slice(None, None, -500), slice(None, None, -500)),
    "empty slice": (slice(7, 3), slice(7, 3)),
    "list": ([5, -1, 5], [5, -1, 5]),
    "labels": (["king", "queen", 2], ["king", "queen", 2]),
    "array": (np.array([9, 2]), [9, 2]),
    "tensor": (torch.tensor([9, 2]), [9, 2]),
    "series": (pd.Series(["queen", "king"]), ["queen", "king"]),
    "none": ([], slice(0, 0)),
}


def test_rows_far_apart_are_read_in_parts_that_fit_and_without_large_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on this machine is opened for each part, which takes about as long as to read what lies between rows."""
    monkeypatch.setattr("hfposemb.tables.table.CHUNK_BYTES", 2**20)
    rows, asked = np.arange(4e6, dtype=np.float32).reshape(-1, 4), list[tuple[int, int]]()

    def read(start: int, stop: int) -> np.ndarray:
        asked.append((start, stop))
        return rows[start:stop]

    table = EmbeddingTable("a", rows.shape, rows.dtype, Provenance("a"), read)
    wanted = np.concatenate([np.arange(500_000, 0, -100), [999_999, 3, 999_998]])
    assert (table.take(wanted) == rows[wanted]).all()
    assert len(asked) <= 10
    assert max(stop - start for start, stop in asked) <= 2**16
    assert asked[-1] == (999_998, 1_000_000)


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("case", KEYS)
def test_rows_by_number_and_label(case: str, read_before: bool) -> None:
    table = hpe.extract("sample:bert").token
    vectors = hpe.extract("sample:bert").token.vectors
    if read_before:
        assert len(table.vectors) == len(table.vectors)
    given, meant = KEYS[case]
    rows = [table.row(one) if isinstance(one, str) else one for one in (meant if isinstance(meant, list) else [meant])]
    expected = vectors[rows] if isinstance(meant, list) else vectors[rows[0]]
    np.testing.assert_array_equal(table[given], expected)


def test_a_mask_chooses_rows(table: EmbeddingTable) -> None:
    np.testing.assert_array_equal(table[table.labels.classes == 1], table.vectors[table.labels.classes == 1])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("kingg", "has no row named 'kingg'; give one of its labels or a row number from 0 to"),
        (10**6, "has no row 1000000; its rows are 0 to 3,999"),
        (-4001, "has no row -4001"),
        ((1, 2), r"is indexed by rows: table\[3\].*for columns use np.asarray\(table\)\[:, 0\]"),
        (1.5, "is indexed by rows"),
        (True, "a number or a label; got True"),
        ([0.5], "a number or a label; got 0.5"),
        (np.ones(3, bool), "the mask has 3 entries, but sample:bert tokens has 4,000 rows"),
        (np.zeros((2, 2), int), "is indexed by rows"),
        (None, "is indexed by rows"),
    ],
)
def test_keys_that_name_no_row(key: Any, message: str, table: EmbeddingTable) -> None:
    with pytest.raises(InputError, match=message):
        table[key]


def test_length_membership_and_identity(table: EmbeddingTable) -> None:
    assert len(table) == table.shape[0]
    assert ("king" in table, "kingg" in table, 3 in table) == (True, False, False)
    assert table == table
    assert table != hpe.extract("sample:bert").token
    assert len({table, table}) == 1


def test_the_first_lines_of_a_user_have_types() -> None:
    """``make check`` reads the same file; the long test reads it with an error in it as well."""
    lines = (Path(__file__).parents[1] / "typed.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(lines, "typed.py", "exec"), names)
    assert names["vectors"].shape == names["shape"]
    if FULL:
        wrong = f"{lines}\nwrong: str = bert.position.table.vectors\n"
        found = [
            subprocess.run([sys.executable, "-m", "mypy", "--strict", "-c", text], check=False).returncode
            for text in (lines, wrong)
        ]
        assert found == [0, 1]


# --- pickles ----------------------------------------------------------------------------------------------------------


ELSEWHERE = """
    import pickle, sys
    import numpy as np

    for one in pickle.load(sys.stdin.buffer):
        words, places = one.token, one.position.table
        print(list(words.labels[:3]), np.array(words[:2]).tolist(), places.digest)
"""


def test_embeddings_travel_to_another_process() -> None:
    opened = [hpe.extract("sample:bert"), hpe.extract("random:30x8")]
    command = [sys.executable, "-c", textwrap.dedent(ELSEWHERE)]
    ended = subprocess.run(command, input=pickle.dumps(opened), capture_output=True, check=False)
    assert ended.stderr == b""
    expected = [
        f"{list(one.token.labels[:3])} {np.array(one.token[:2]).tolist()} {one.position.table.digest}\n"
        for one in opened
    ]
    assert ended.stdout.decode() == "".join(expected)


def test_a_pickle_holds_where_rows_are_and_not_what_was_read(folder: Path) -> None:
    table = hpe.extract(folder / "F32.safetensors").token
    _ = table.vectors, table.labels, table.digest
    sent = pickle.dumps(table)
    assert len(sent) < 10_000
    np.testing.assert_array_equal(pickle.loads(sent), table.vectors)


def test_a_pickled_table_is_found_from_another_working_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    sent = pickle.dumps(hpe.extract("./F16.safetensors"))
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(sent).token.vectors.any()


def test_a_file_that_changed_since_it_was_pickled_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((folder / "F32.safetensors").read_bytes())
    sent = pickle.dumps(hpe.extract(path))
    path.write_bytes((folder / "F16.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="the file changed since it was opened; open it again"):
        _ = pickle.loads(sent).token.vectors
    path.unlink()
    with pytest.raises(CheckpointError, match="the file is missing"):
        _ = pickle.loads(sent).token.vectors


def test_tables_in_memory_take_their_rows_along(build: Build) -> None:
    model = build("bert")
    rows = model.embeddings.word_embeddings.weight.detach().numpy().copy()
    live, given = hpe.extract(model), hpe.from_arrays(token=rows, position=rows, labels=[f"w{n}" for n in range(61)])
    sent = [pickle.dumps(one) for one in (live, given)]
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.zero_()
    for one in sent:
        np.testing.assert_array_equal(pickle.loads(one).token, rows)
    again = pickle.loads(sent[1])
    assert again.token.labels[3] == "w3"
    np.testing.assert_array_equal(again.inputs([1, 2]).sum, given.inputs([1, 2]).sum)
    with pytest.raises(InputError, match="was pickled without its other tensors"):
        pickle.loads(sent[0]).inputs([1])


def test_a_source_of_the_hub_is_pickled_without_its_token(hub: FakeHub, folder: Path) -> None:
    hub.add("somebody/model", {"model.safetensors": (folder / "F32.safetensors").read_bytes()})
    hub.grant("hf_secret")
    opened = hpe.extract("somebody/model", token="hf_secret")
    sent = pickle.dumps(opened)
    assert b"hf_secret" not in sent
    asked = len(hub.requests)
    again = pickle.loads(sent)
    assert len(hub.requests) == asked
    np.testing.assert_array_equal(again.token, opened.token)
    assert again.token.provenance == opened.token.provenance
