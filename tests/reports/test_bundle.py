"""A comparison as one archive: what is in it, and that the manifest is true."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest

import hfposemb as hpe
from hfposemb.errors import InputError
from hfposemb.reports.bundle import MANIFEST, write_bundle
from hfposemb.reports.json_schema import document


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[hpe.Comparison, Path]:
    sources = [hpe.extract("sinusoidal:48x32"), hpe.extract("random:40x32")]
    found = hpe.compare(*sources, draws=19)
    path = tmp_path_factory.mktemp("bundle") / "c.zip"
    write_bundle(found, sources, path)
    return found, path


def test_the_manifest_is_true(bundle: tuple[hpe.Comparison, Path]) -> None:
    found, path = bundle
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        told = json.loads(archive.read(MANIFEST))
        assert set(told["files"]) == set(archive.namelist()) - {MANIFEST}
        for name, fact in told["files"].items():
            content = archive.read(name)
            assert (len(content), hashlib.sha256(content).hexdigest()) == (fact["bytes"], fact["sha256"])
        assert json.loads(archive.read("comparison.json")) == json.loads(json.dumps(document(found)))
        assert archive.read("report.html").startswith(b"<!doctype html>")
    assert [one["name"] for one in told["sources"]] == ["sinusoidal:48x32", "random:40x32"]
    digest = hpe.extract("random:40x32").position.table.digest
    assert told["sources"][1]["tables"]["position"]["sha256"] == digest
    assert told["draws"] == [19, 1999]
    assert told["versions"]["hfposemb"] == hpe.__version__


def test_numbers_are_those_of_the_comparison(bundle: tuple[hpe.Comparison, Path]) -> None:
    found, path = bundle
    with zipfile.ZipFile(path) as archive:
        metrics, pairs = (
            list(csv.DictReader(io.StringIO(archive.read(name).decode()))) for name in ("metrics.csv", "pairs.csv")
        )
    assert len(metrics) == sum(len(source.metrics) for source in found.sources)
    (line,) = [one for one in metrics if (one["source"], one["metric"]) == ("random:40x32", "mean norm")]
    assert float(line["value"]) == found.sources[1].metrics["mean norm"].value
    (line,) = [one for one in pairs if one["measure"] == "CKA"]
    assert float(line["value"]) == found.pairs[0].observed["CKA"]
    assert float(line["p"]) == found.pairs[0].measures["CKA"].p


def test_the_same_comparison_gives_the_same_bytes(bundle: tuple[hpe.Comparison, Path], tmp_path: Path) -> None:
    found, path = bundle
    write_bundle(found, [hpe.extract("sinusoidal:48x32"), hpe.extract("random:40x32")], tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_refusals(bundle: tuple[hpe.Comparison, Path], tmp_path: Path) -> None:
    found, _ = bundle
    with pytest.raises(InputError, match=r"c\.tar must end in \.zip"):
        write_bundle(found, [], tmp_path / "c.tar")
    with pytest.raises(InputError, match="must be those of the comparison"):
        write_bundle(found, [hpe.extract("random:40x32")], tmp_path / "c.zip")
    assert list(tmp_path.iterdir()) == []
