"""Folder of a survey: one parquet file per source, complete or absent, and the survey's settings.

The settings are in ``_survey.json``, which is written first. Its name and those of unfinished files have prefixes that
readers of partitioned parquet skip. The name of a part is derived from its content: the same source and settings give
the same name.
"""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import HfposembError, InputError, one_line, require
from ..files import complete_file
from ..tables.saved.writing import load_arrow

if TYPE_CHECKING:
    import pandas

Row: TypeAlias = dict[str, Any]
"""One row of a survey, with the columns in ``COLUMNS``; absent columns are null."""

_DESCRIBED: Mapping[str, tuple[str, str]] = {
    "source": ("string", "name of the model, as it was given to the survey"),
    "commit": ("string", "commit of its repository on the Hub"),
    "kind": ("string", "kind of its positions, such as learned, sinusoidal or rotary"),
    "architecture": ("string", "model_type of its config.json"),
    "table": ("string", "table that was measured: position, token, both, or the token table and the output head"),
    "tensor": ("string", "name of the tensor in the file"),
    "file": ("string", "file that has the tensor"),
    "rows": ("int64", "number of rows of the table"),
    "width": ("int64", "number of columns of the table"),
    "digest": ("string", "SHA-256 of the values of the table"),
    "metric": ("string", "name of the figure"),
    "value": ("float64", "the figure"),
    "unit": ("string", "its unit; empty for a plain number"),
    "deviation": ("float64", "standard deviation of the figure over seeds, if it depends on them"),
    "baseline": ("string", "kind of surrogates that it is compared with"),
    "baseline_mean": ("float64", "mean of the figure over the surrogates"),
    "baseline_low": ("float64", "lower end of the interval of the surrogates"),
    "baseline_high": ("float64", "upper end of that interval"),
    "p": ("float64", "(1 + surrogates at least as extreme) / (draws + 1), doubled for a two-sided test"),
    "untrained": ("float64", "the figure of an untrained table of the same shape"),
    "sinusoid": ("float64", "the figure of the sinusoid of the same shape"),
    "draws": ("int64", "number of surrogates"),
    "seed": ("int64", "random seed"),
    "versions": ("string", "versions of the libraries that determine the figures, as JSON"),
    "seconds": ("float64", "seconds that the table took; wall clock, and not reproducible"),
    "error": ("string", "why a figure, or the whole model, could not be measured"),
}

COLUMNS = {name: kind for name, (kind, _) in _DESCRIBED.items()}
"""Columns and their types. A row without a metric is that of a failed source, with the reason in ``error``."""

MEANINGS = {name: meaning for name, (_, meaning) in _DESCRIBED.items()}
"""What each column holds."""

FORMAT = 3
"""Format of the parts; increase it when the computation or serialisation of a column changes."""

SETTINGS = "_survey.json"
_PART, _ENDING = "part-", ".parquet"
_MAGIC = b"PAR1"  # first bytes of a parquet file


@dataclass(frozen=True)
class Campaign:
    """Reader and writer of the parts of one survey.

    Attributes:
        fs: The fsspec file system.
        root: Path of the folder on it.
        local: Whether it is the local file system.
    """

    fs: Any = field(repr=False)
    root: str
    local: bool

    def kept(self, ending: str = _ENDING) -> set[str]:
        """Return the keys of the existing parts, or of other files by source, such as fingerprints."""
        names = _names(self.fs, self.root) if self.fs.exists(self.root) else []
        return {
            name.removeprefix(_PART).removesuffix(ending)
            for name in names
            if name.startswith(_PART) and name.endswith(ending)
        }

    def failed(self, keys: Collection[str]) -> dict[str, str]:
        """Return the sources that failed among the given parts, with the reason."""
        import pyarrow.compute as compute

        if not keys:
            return {}
        found = self._dataset(keys).to_table(columns=["source", "error"], filter=compute.field("metric").is_null())
        return dict(zip(*(found.column(name).to_pylist() for name in ("source", "error")), strict=True))

    def write(self, key: str, rows: Sequence[Row]) -> None:
        """Write a part, replacing an earlier one with the same key."""
        arrow = _arrow()
        packed = io.BytesIO()
        arrow.parquet.write_table(arrow.Table.from_pylist(list(rows), schema=_schema()), packed)
        self.put(key, packed.getvalue())

    def put(self, key: str, content: bytes, ending: str = _ENDING) -> None:
        """Write the file of a source with some ending."""
        self._put(f"{_PART}{key}{ending}", content)

    def frame(self, keys: Collection[str]) -> pandas.DataFrame:
        """Return the rows of the given parts, in order within each part."""
        import pandas

        found = self._dataset(keys).to_table() if keys else _schema().empty_table()
        # Nullable integers, so that missing values do not turn the others into floats.
        return found.to_pandas(types_mapper={_arrow().int64(): pandas.Int64Dtype()}.get)

    def _dataset(self, keys: Collection[str]) -> Any:
        import pyarrow.dataset as dataset

        paths = [f"{self.root}/{_PART}{key}{_ENDING}" for key in sorted(keys)]
        return dataset.dataset(paths, schema=_schema(), format="parquet", filesystem=None if self.local else self.fs)

    def _put(self, name: str, content: bytes) -> None:
        """Write a file atomically: it gets its name only when it is complete."""
        if self.local:
            with complete_file(Path(self.root) / name) as file:
                file.write(content)
            return
        # Some stores show a partially uploaded file under its name, but none moves an incomplete file.
        under_way = f"{self.root}/.{name}"
        with _faults(self.root):
            self.fs.pipe_file(under_way, content)
            self.fs.mv(under_way, f"{self.root}/{name}")


def check_out(out: str, settings: Mapping[str, Any]) -> Campaign:
    """Return the survey folder ``out``, after checking that it can hold this survey. Writes nothing.

    Args:
        out: Path, or any URL of fsspec.
        settings: Settings of the survey.

    Raises:
        InputError: If it holds a survey with other settings, or anything else.
    """
    found = _at(out)
    fs = found.fs
    with _faults(out):
        if not fs.exists(found.root):
            return found
        if not fs.isdir(found.root):
            raise InputError(f"{out} is a file; a survey needs its own folder")
        listed = _names(fs, found.root)
        if SETTINGS not in listed:
            if others := sorted(name for name in listed if not name.startswith(".")):
                raise InputError(f"{out} has {others[0]!r:.80} but no survey; choose a new folder")
            return found
        text = fs.cat_file(f"{found.root}/{SETTINGS}")
    _compare(out, text, settings)
    return found


def _at(out: str) -> Campaign:
    import fsspec

    _arrow()
    if not out.strip():
        raise InputError("the name of the folder for the survey is empty")
    try:
        fs, root = fsspec.core.url_to_fs(out)
    except Exception as error:  # every fsspec file system raises different exceptions
        raise InputError(f"{out!r:.200} is not a writable folder: {one_line(error):.200}") from error
    names = protocols if isinstance(protocols := fs.protocol, tuple) else (protocols,)
    return Campaign(fs, root.rstrip("/"), "file" in names)


def rows_of(where: str) -> pandas.DataFrame:
    """Return the rows of a survey from its folder, or from a CSV or parquet file of its rows.

    A file has the columns of ``COLUMNS``, as ``DataFrame.to_csv`` or ``to_parquet`` writes them; ``seconds`` may be
    missing.

    Args:
        where: Path, or any URL of fsspec.

    Raises:
        InputError: If there is no survey, or it has no rows.
    """
    found = _at(where)
    fs = found.fs
    with _faults(where):
        if not fs.exists(found.root):
            raise InputError(
                f"{where} does not exist; give the folder of a survey, or a CSV or parquet file of its rows"
            )
        if not fs.isdir(found.root):
            content = fs.cat_file(found.root)
            return _of_parquet(where, content) if content.startswith(_MAGIC) else _of_csv(where, content)
        if SETTINGS not in _names(fs, found.root):
            raise InputError(
                f"{where} has no survey; give the folder of a survey, or a CSV or parquet file of its rows"
            )
        _compare(where, fs.cat_file(f"{found.root}/{SETTINGS}"), {})
        if not (keys := found.kept()):
            raise InputError(f"{where} has a survey without results; run it first")
        try:
            return found.frame(keys)
        except ValueError as error:  # pyarrow.ArrowInvalid is a ValueError
            raise InputError(f"{where} has a file that is not parquet of a survey: {one_line(error):.200}") from error


def _of_csv(where: str, text: bytes) -> pandas.DataFrame:
    import pandas

    kinds = {"string": "str", "int64": "Int64", "float64": "float64"}
    types: Any = {name: kinds[kind] for name, kind in COLUMNS.items()}
    try:
        # "NA" and the like are ordinary text here.
        found = pandas.read_csv(io.BytesIO(text), dtype=types, keep_default_na=False, na_values=[""])
    except (ValueError, TypeError) as error:  # pandas' ParserError is a ValueError
        raise InputError(f"{where} is not a CSV file of a survey's rows: {one_line(error):.200}") from error
    return _checked(where, found)


def _of_parquet(where: str, content: bytes) -> pandas.DataFrame:
    import pandas

    try:
        table = _arrow().parquet.read_table(io.BytesIO(content))
        found = table.to_pandas(types_mapper={_arrow().int64(): pandas.Int64Dtype()}.get)
    except ValueError as error:  # pyarrow.ArrowInvalid is a ValueError
        raise InputError(f"{where} is not a parquet file of a survey's rows: {one_line(error):.200}") from error
    return _checked(where, found)


def _checked(where: str, found: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of a file with all columns. Raises ``InputError`` if they are not those of a survey."""
    if missing := [name for name in COLUMNS if name not in found and name != "seconds"]:
        raise InputError(f"{where} has no rows of a survey: the column {missing[0]} is missing")
    if found.empty:
        raise InputError(f"{where} has no rows; give a file of a survey's rows")
    return found.reindex(columns=list(COLUMNS))


@contextmanager
def opened(campaign: Campaign, settings: Mapping[str, Any]) -> Iterator[None]:
    """Create the folder if necessary, and lock it against other surveys on this machine inside the context."""
    with _faults(campaign.root):
        campaign.fs.makedirs(campaign.root, exist_ok=True)
    with _locked(campaign.root) if campaign.local else nullcontext():
        if SETTINGS not in _names(campaign.fs, campaign.root):
            campaign._put(SETTINGS, json.dumps(_stated(settings), indent=2, ensure_ascii=False).encode())
        yield


@contextmanager
def _locked(root: str) -> Iterator[None]:
    """Hold an exclusive lock on a folder; the system releases it when the process ends, even if it is killed."""
    if not os.access(root, os.W_OK):
        raise HfposembError(f"{root} is not writable; choose another folder")
    try:
        import fcntl
    except ImportError:  # Windows, where a folder cannot be opened: a file in it is locked, which readers skip
        msvcrt: Any = importlib.import_module("msvcrt")
        handle = os.open(Path(root, ".lock"), os.O_RDWR | os.O_CREAT)
        take = partial(msvcrt.locking, handle, msvcrt.LK_NBLCK, 1)
    else:
        handle = os.open(root, os.O_RDONLY)
        take = partial(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        try:
            take()
        except (BlockingIOError, PermissionError) as error:  # as POSIX and as Windows call it
            raise HfposembError(
                f"another survey is writing to {root}; wait for it, or choose another folder"
            ) from error
        # Remove unfinished files of a killed survey; the lock ensures that nobody else is writing.
        for path in Path(root).glob(".*"):
            if path.name.startswith((f".{_PART}", f".{SETTINGS}.")):
                path.unlink()
        yield
    finally:
        os.close(handle)


def _stated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the settings file."""
    return {"format": FORMAT, **settings}


def _names(fs: Any, root: str) -> list[str]:
    fs.invalidate_cache(root)
    return [path.rstrip("/").rsplit("/", 1)[-1] for path in fs.ls(root, detail=False)]


def _compare(out: str, text: bytes, settings: Mapping[str, Any]) -> None:
    here = _stated(settings)
    try:
        there = json.loads(text)
        differing = [name for name, value in here.items() if there[name] != value]
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{out}/{SETTINGS} was not written by a survey; choose a new folder") from error
    if differing:
        name = differing[0]
        was, now = (_shortly(value[name]) for value in (there, here))
        raise InputError(
            f"{out} has a survey with other settings ({name} is {was} there, {now} here); choose a new folder, or the "
            "same settings to continue"
        )


def _shortly(value: Any) -> str:
    """Abbreviate a setting for an error message."""
    if not isinstance(value, list) or not value:
        return f"{value!r:.60}"
    return f"{value[0]!r:.60}" + (f" and {len(value) - 1} more" if value[1:] else "")


@contextmanager
def _faults(where: str) -> Iterator[None]:
    """Convert any file system error to a one-line ``HfposembError``."""
    try:
        yield
    except HfposembError:
        raise
    except Exception as error:  # every fsspec file system raises different exceptions
        said = getattr(error, "strerror", None) or one_line(error) or type(error).__name__
        raise HfposembError(f"{where} cannot be read or written: {said:.200}; choose another folder") from error


def _arrow() -> Any:
    require("pandas", extra="export", purpose="a survey")  # needed for the result; fail before any work is done
    return load_arrow("a survey")


def _schema() -> Any:
    arrow = _arrow()
    return arrow.schema([(name, getattr(arrow, kind)()) for name, kind in COLUMNS.items()])
