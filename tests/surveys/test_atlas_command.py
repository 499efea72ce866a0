"""hfposemb atlas: the page of a survey, and the survey as a dataset."""

from __future__ import annotations

import hashlib
import json
import re
import webbrowser
from html.parser import HTMLParser
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
import yaml

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.metric_meanings import UNITS, meaning
from hfposemb.comparison.metrics import MEASURES
from hfposemb.comparison.model_table import FACTS, model_table
from hfposemb.errors import InputError
from hfposemb.reports.atlas_page import atlas_page, figure_text
from hfposemb.surveys.remeasure import again
from hfposemb.surveys.survey_dataset import figure_columns, model_columns, write_dataset
from hfposemb.surveys.survey_folder import rows_of
from hfposemb.surveys.worker_pool import Engine
from tests.atlas import ROWS
from tests.conftest import Build

ONE = Engine(workers=1)
EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def rows() -> pandas.DataFrame:
    """The rows of the offline atlas."""
    return rows_of(str(ROWS))


class Cells(HTMLParser):
    """The rows of the table of models, and all elements of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr" and "data-row" in dict(attrs):
            self.rows.append([])
        self._open = tag in ("td", "th") and bool(self.rows)

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1].append(data)
            self._open = False


def test_every_figure_has_a_meaning_and_a_unit() -> None:
    for measure in MEASURES:
        assert re.fullmatch(r"[A-Z].+\.", meaning(measure)), measure.name
        assert UNITS[measure.unit]
    values = ((0.0, ""), (94.27, "%"), (3.0, "components"), (float("nan"), ""), (-0.5, ""))
    assert [figure_text(*one) for one in values] == [".000", "94.3", "3", "–", "−.500"]


def test_the_table_of_models_has_the_values_of_the_rows(rows: pandas.DataFrame) -> None:
    found = model_table(rows)
    assert found["source"].tolist() == rows["source"].drop_duplicates().tolist()
    names = [name for name in found if name not in FACTS]
    assert len(names) == 11
    long = found.melt(id_vars="source", value_vars=names, var_name="metric").dropna(subset="value")
    wanted = rows.dropna(subset="value").set_index(["source", "metric"])["value"].sort_index()
    got = long.set_index(["source", "metric"])["value"].astype(float).sort_index()
    pandas.testing.assert_series_equal(got, wanted, check_index_type=False)


def test_parts_of_a_model_have_rows_that_share_its_tokens(build: Build, tmp_path: Path) -> None:
    build("bart").save_pretrained(tmp_path / "bart")  # type: ignore[operator]
    measured = hpe.survey([tmp_path / "bart"], metrics=["mean norm", "token mean norm"], draws=0, engine=ONE)
    tables = [one.table for one in hpe.extract(tmp_path / "bart").positions.values()]
    assert list(measured.table) == ["encoder.position", "decoder.position", "token"]
    assert list(measured.digest[:2]) == [one.digest for one in tables if one is not None]
    found = model_table(measured)
    assert found["part"].tolist() == ["encoder", "decoder"]
    assert found["token mean norm"].nunique() == 1
    assert found["mean norm"].nunique() == 2
    assert found["architecture"].tolist() == ["bart", "bart"]


def test_the_page_has_every_number_and_no_markup_of_a_source(rows: pandas.DataFrame) -> None:
    hostile = rows.replace({"source": {"sample:gpt2": EVIL}})
    page = Cells(atlas_page(hostile, title=EVIL))
    assert page.tags.count("script") == 3
    assert "img" not in page.tags
    assert len(page.rows) == rows["source"].nunique()
    gpt2 = page.rows[3]
    assert gpt2[:5] == [EVIL, "learned", "gpt2", "256", "128"]
    assert gpt2[5:8] == ["65.2", ".004", ".760"]
    assert atlas_page(rows) == atlas_page(rows)


def test_a_model_that_failed_is_listed_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "survey"
    hpe.survey(["random:32x8", "./nowhere"], metrics=["mean norm"], draws=0, engine=ONE, out=out)
    assert main(["atlas", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["page"] == str(out / "_atlas.html")
    assert (facts["models"], list(facts["failed"])) == (1, ["./nowhere"])
    assert "Not measured: 1" in (out / "_atlas.html").read_text(encoding="utf-8")
    assert len(pandas.read_parquet(out)) == 2, "the page is no part of the survey"
    hpe.survey(["random:32x8"], metrics=["mean norm"], draws=0, engine=ONE, out=out)


def test_the_page_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    (tmp_path / "rows.csv").write_bytes(ROWS.read_bytes())
    assert main(["atlas", str(tmp_path / "rows.csv"), "--open"]) == 0
    assert opened == [(tmp_path / "rows.html").as_uri()]


def test_what_cannot_be_shown_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = tmp_path / "failed"
    hpe.survey(["./nowhere"], draws=0, engine=ONE, out=failed)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    cases = {
        ("nowhere",): "nowhere does not exist; give the folder of a survey",
        (str(failed),): "no source of this survey could be measured",
        (str(ROWS), "--out", "page.pdf"): "page.pdf must end in .html",
        (str(ROWS), "--out", str(tmp_path / "a.html"), "--dataset", str(tmp_path / "full")): "has 'thesis.tex' but",
        ("memory://survey",): "is not a folder of this machine; give --out FILE.html",
    }
    for given, said in cases.items():
        assert main(["atlas", *given]) == 1
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


# --- the dataset ------------------------------------------------------------------------------------------------------


def test_the_dataset_is_what_its_card_says(rows: pandas.DataFrame, tmp_path: Path) -> None:
    write_dataset(rows, tmp_path / "out", name=f"Atlas {EVIL}")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["configs"] == [
        {"config_name": "figures", "data_files": "figures.parquet", "default": True},
        {"config_name": "models", "data_files": "models.parquet"},
    ]
    assert front["license"] == "apache-2.0"
    assert front["size_categories"] == ["n<1K"]
    assert front["pretty_name"] == f"Atlas {EVIL}"
    for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
        assert name == "README.md" or line in card
    for name, columns in {"figures": figure_columns(), "models": model_columns(rows)}.items():
        schema = pyarrow.parquet.read_schema(tmp_path / "out" / f"{name}.parquet")
        assert schema.names == list(columns)
        for field in schema:
            assert field.metadata[b"description"].decode() == columns[field.name]
            assert f"| `{field.name}` | {str(field.type).replace('double', 'float64')} |" in card
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    write_dataset(rows, tmp_path / "out", name=f"Atlas {EVIL}")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_the_dataset_is_read_back_and_something_else_is_not(rows: pandas.DataFrame, tmp_path: Path) -> None:
    write_dataset(rows, tmp_path)
    figures = rows_of(str(tmp_path / "figures.parquet"))
    pandas.testing.assert_frame_equal(figures.drop(columns="seconds"), rows.drop(columns="seconds"), check_dtype=False)
    assert again(figures, sources=["sinusoidal:256x128"], engine=ONE).same
    models = pandas.read_parquet(tmp_path / "models.parquet")
    assert models["effective rank"].tolist() == pytest.approx(model_table(rows)["effective rank"].tolist())
    polars = pytest.importorskip("polars")
    assert polars.read_parquet(tmp_path / "models.parquet")["source"].to_list() == models["source"].tolist()
    pandas.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match="has no rows of a survey: the column source is missing"):
        rows_of(str(tmp_path / "other.parquet"))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="is not a parquet file of a survey's rows"):
        rows_of(str(tmp_path / "broken.parquet"))
