"""The report: one file that asks nobody for anything, says where its numbers come from, and runs nothing of others."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.alignment import Alignment
from hfposemb.comparison.metric_meanings import meaning
from hfposemb.comparison.metrics import MEASURES
from hfposemb.comparison.results import Comparison
from hfposemb.errors import HfposembError, InputError
from hfposemb.reports.html_tables import finding, metrics_table, pairs_tables, standing
from hfposemb.reports.json_schema import SCHEMAS, document
from hfposemb.reports.report import report, write_report
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.null_comparison import Null
from hfposemb.text import one_line, sentence_case

EVIL = '<script>alert("x")</script>'
NAMES = (f"one {EVIL}", "two & <b>more</b>", "sinusoidal:24x8")
WORDS = (EVIL, "<img src=x onerror=alert(1)>", "</script>", "&amp;", "\u202eright", *(f"word{i}" for i in range(27)))


def sources() -> list[Embeddings]:
    """Two small models whose names and words are hostile, and a sinusoid without words."""
    rng = np.random.default_rng(0)
    made = [
        hpe.from_arrays(
            token=rng.normal(size=(len(WORDS), 8)), position=rng.normal(size=(24, 8)), labels=WORDS, name=name
        )
        for name in NAMES[:2]
    ]
    return [*made, hpe.sinusoidal(24, 8)]


@pytest.fixture(scope="module")
def compared() -> tuple[list[Embeddings], Comparison]:
    made = sources()
    return made, hpe.compare(*made, words=("word1",), draws=20)


@pytest.fixture(scope="module")
def page(compared: tuple[list[Embeddings], Comparison]) -> str:
    return report(*compared[0], comparison=compared[1])


class Elements(HTMLParser):
    """The elements of a page and what is in those that hold raw text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self.words = ""
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = (dict(attrs).get("id") or "script") if tag == "script" else tag

    def handle_data(self, data: str) -> None:
        if self._open in ("views", "plotly", "script"):
            self.raw[self._open] = self.raw.get(self._open, "") + data
        elif self._open != "style":
            self.words += data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def views(page: str) -> dict[str, Any]:
    """Return what the page's script draws."""
    return json.loads(Elements(page).raw["views"])


def test_nothing_of_a_source_is_markup(page: str) -> None:
    found = Elements(page)
    assert [tag for tag, _ in found.tags].count("script") == 3
    assert {"img", "iframe", "object", "link", "base", "form"}.isdisjoint(tag for tag, _ in found.tags)
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert f"{EVIL}, two & <b>more</b> and Sinusoid" in found.words
    assert "\u202e" not in found.words


def test_the_policy_allows_the_one_script_and_no_network(page: str) -> None:
    found = Elements(page)
    policy = next(one["content"] for tag, one in found.tags if one.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(found.raw["script"].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' 'unsafe-eval' blob:;" in policy
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert not [one for _, one in found.tags if re.match(r"(https?:)?//", one.get("src") or one.get("href") or "")]


def test_the_same_gives_the_same_bytes(compared: tuple[list[Embeddings], Comparison], page: str) -> None:
    assert report(*sources(), comparison=compared[1]) == page
    assert "made on a Monday" in report(*compared[0], comparison=compared[1], written="made on a Monday")


def test_the_page_says_where_every_number_comes_from(page: str, compared: tuple[list[Embeddings], Comparison]) -> None:
    words = Elements(page).words
    for source in compared[0]:
        for table in source.tables.values():
            assert table.digest in words
            assert f"{table.shape[0]:,} × {table.shape[1]:,}" in words
    for said in (f"hfposemb {hpe.__version__}", f"numpy {np.__version__}", "Seeds: 0", "hfposemb compare"):
        assert said in words
    for source in compared[1].sources:
        value = source.metrics["mean norm"].value
        assert f"{value:.3f}" in words or f"{value:.3f}".lstrip("0") in words


def test_the_page_tells_the_origin_of_every_two_models(
    page: str, compared: tuple[list[Embeddings], Comparison]
) -> None:
    origins = page.partition("<h2>Origins</h2>")[2].partition("</section></section>")[0]
    expected = hpe.kinship(*compared[0][:2])
    assert origins.count("<h3>") == 2, "a sinusoid has no tokens"
    assert f": a merge {hpe.merge_preview(*compared[0][:2]).verdict}</h3>" in origins
    assert f": {expected.verdict}</h3>" in origins
    assert html.escape(sentence_case(one_line(expected.reason))) in origins


def test_every_plot_has_its_numbers_in_the_file(page: str) -> None:
    found = views(page)
    panels = [panel for row in found["rows"] for panel in row["panels"]]
    assert {"positions-0", "positions-1", "positions-2", "distance", "norms", "variance"} <= {p["key"] for p in panels}
    assert {"tokens-0", "tokens-1", "token 0 1 0", "position 0 2 2"} <= {panel["key"] for panel in panels}
    for panel in panels:
        for drawing in panel["drawings"]:
            assert drawing["bin"] is None or base64.b64decode(found["files"][drawing["bin"]]["data"])
    links = [
        trace["meta"]["link"]
        for panel in panels
        if panel["key"].startswith("positions-")
        for drawing in panel["drawings"]
        for trace in drawing["figure"]["data"]
        if "link" in (trace.get("meta") or {})
    ]
    assert links == ["position"] * 6, "hovering a position marks it in every cloud and matrix"


def test_a_vocabulary_larger_than_a_page_holds_is_sampled(minilm_folder: Path) -> None:
    """Every part of the map is cut alike: points, labels, and the trust of those that have it."""
    model = hpe.extract(str(minilm_folder))
    page = report(model, comparison=hpe.compare(model, draws=0))
    drawn = next(panel for row in views(page)["rows"] for panel in row["panels"] if panel["key"] == "tokens-0")
    assert "20,000 of 30,522 tokens, sampled with seed 0" in drawn["foot"]
    dots = drawn["drawings"][0]["figure"]["data"]
    assert sum(dot["x"]["shape"][0] if isinstance(dot["x"], dict) else len(dot["x"]) for dot in dots) == 20_000
    assert len(page.encode()) < 10e6


def test_paths_are_shortened_where_that_tells_them_apart(tmp_path: Path) -> None:
    made = [hpe.from_arrays(position=np.eye(6), name=str(tmp_path / part / "model")) for part in "ab"]
    page = report(*made, comparison=hpe.compare(*made, draws=0, pairs=False))
    assert Elements(page).words.strip().startswith("a/model and b/model compared")
    assert str(tmp_path) in Elements(page).words, "the whole path stands where the numbers come from"


def test_a_report_needs_the_sources_of_its_comparison(compared: tuple[list[Embeddings], Comparison]) -> None:
    with pytest.raises(InputError, match="must be those of the comparison"):
        report(compared[0][0], comparison=compared[1])
    with pytest.raises(InputError):
        report()
    rotary = hpe.extract("rotary:32x8")
    assert "rotary positions have no vector" in Elements(report(rotary)).words, "what is missing is said"
    assert "no cloud" in json.dumps(views(report(rotary, comparison=hpe.compare(rotary, draws=0, pairs=False))))


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("report.txt", "report", "report.json"):  # refused before anything is read
        assert main(["compare", "./nowhere", "--out", str(tmp_path / name)]) == 1
        said = capsys.readouterr().err
        assert said.startswith("hfposemb: a report is an HTML page")
        assert said.count("\n") == 1
    with pytest.raises(InputError, match=r"must end in \.html"):
        write_report("x", tmp_path / "report.txt")
    with pytest.raises(HfposembError, match="choose another"):
        write_report("x", tmp_path / "nowhere" / "report.html")
    write_report("päge", tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "päge"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# --- tables ---


def test_tables_tell_chance_by_sign_and_word(compared: tuple[list[Embeddings], Comparison]) -> None:
    found = pairs_tables(compared[1])
    null = next(pair.measures["CKA"] for pair in compared[1].pairs if pair.measures)
    where = standing(null)
    said = "not beyond chance" if where == "within" else f"{where} chance"
    assert f'<span class="unseen">{said}</span>' in found
    assert EVIL not in found
    assert html.escape(EVIL) in found
    assert EVIL not in metrics_table(compared[1])


@pytest.mark.parametrize(
    ("observed", "p", "where"),
    [(0.9, 0.01, "above"), (0.9, 0.9, "within"), (0.15, 0.5, "within"), (0.05, 1.0, "within"), (0.05, 0.02, "below")],
)
def test_a_number_is_above_chance_only_where_its_p_says_so(observed: float, p: float, where: str) -> None:
    null = Null(observed, 0.15, 0.1, 0.2, p, 20, 0, "local variogram")
    assert standing(null) == where
    pair = Alignment("position", "a", "b", {"CKA": null}, 20, 20, 20, observed={"CKA": observed})
    assert f'class="dot {where}"' in pairs_tables(Comparison((), (), (pair,)))


def test_the_finding_is_the_figure_that_differs_most(compared: tuple[list[Embeddings], Comparison]) -> None:
    said = finding(compared[1], ("A", "B", "C"))
    plain = said.removeprefix("Biggest difference: ").partition(" (")[0]
    name = next(one.name for one in MEASURES if meaning(one)[1:].startswith(plain[1:]))
    values = [source.metrics[name].value for source in compared[1].sources]
    known = [value for value in values if value is not None]
    assert max(map(abs, known)) <= 1
    for other in ("translation invariance", "IsoScore", "mean cosine at distance 1"):
        found = [source.metrics[other].value for source in compared[1].sources]
        numbers = [value for value in found if value is not None]
        assert max(known) - min(known) >= max(numbers) - min(numbers)


# --- JSON ---


def violations(value: Any) -> list[str]:
    """Return where a document is not as its JSON Schema says."""
    found = jsonschema.Draft202012Validator(SCHEMAS["compare"]).iter_errors(value)
    return [f"{one.json_path}: {one.message}" for one in found]


def test_json_is_as_its_schema_says(compared: tuple[list[Embeddings], Comparison]) -> None:
    x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    damage = hpe.compare_quantised(hpe.from_arrays(token=x), hpe.from_arrays(token=x.round(1)), count=2)
    found = json.loads(json.dumps(document(compared[1], [damage]), allow_nan=False))
    assert violations(found) == []
    assert len(found["quantisation"][0]["worst"]) == 2
    assert found["pairs"]
    assert found["moves"][0]["most"]
    assert violations({**found, "version": 2}) == ["$.version: 1 was expected"]
    del found["sources"][0]["metrics"]["mean norm"]["unit"]
    assert violations(found) == ["$.sources[0].metrics['mean norm']: 'unit' is a required property"]


def test_the_command_writes_the_page_and_prints_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main(["compare", "random:24x32", "sinusoidal:24x32", "--draws", "20", "--json", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert violations(found) == []
    assert f"wrote {out}" in captured.err
    page = out.read_text(encoding="utf-8")
    assert hpe.extract("random:24x32").tables["token"].digest in page
    value = found["pairs"][0]["measures"]["CKA"]["observed"]
    assert f"{abs(value):.4f}"[1:] in page or f"{abs(value):.3f}"[1:] in page


def test_the_command_without_chance_or_pairs_and_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "random:24x8", "sinusoidal:24x8", "--draws", "0", "--no-pairs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert violations(found) == []
    assert found["pairs"] == []
    assert {figure["null"] for source in found["sources"] for figure in source["metrics"].values()} == {None}
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "--schema"])
    assert stopped.value.code == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS["compare"]
