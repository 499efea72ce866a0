"""README and documentation: snippets run, commands work, links lead somewhere, and every measure has its section."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from hfposemb.cli.main import main
from hfposemb.cli.parser import parser
from hfposemb.comparison.alignment import MEASURES as PAIR_MEASURES
from hfposemb.comparison.metrics import MEASURES, Measure
from tests.hub import FakeHub
from tests.hub.gpt2 import add_gpt2
from tests.measure_pictures import DRAWINGS, FOLDER
from tests.support.snippets import run_snippets

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def hub_with_gpt2(hub: FakeHub, tmp_path: Path) -> None:
    """The Hub, which has the model that the README reads."""
    add_gpt2(hub, tmp_path)


RUN = ("README.md", "docs/index.md", "docs/tutorial.md", "docs/howto/scripts.md", "docs/widget.md")


@pytest.mark.usefixtures("hub_with_gpt2")
@pytest.mark.parametrize("page", RUN)
def test_snippets_run_in_order_and_say_what_is_so(page: str) -> None:
    """A line that ends in a comment with a value, such as ``x.shape  # (3, 4)``, has that value."""
    assert run_snippets((ROOT / page).read_text(encoding="utf-8"), {})


EXAMPLES = README + (ROOT / "docs" / "howto" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = list(dict.fromkeys(line for line in EXAMPLES.splitlines() if line.startswith("hfposemb ")))


@pytest.mark.usefixtures("hub_with_gpt2")
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm_folder: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").symlink_to(minilm_folder)
    assert main(shlex.split(line, comments=True)[1:]) == 0


PAGES = sorted(path.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_are_understood(page: Path) -> None:
    """Whatever a page says to type has the names and options that the parser knows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.name in ("commands.md", "CHANGELOG.md"):
        return  # usage lines, and commands of the past
    for block in re.findall(r"^```\n(.*?)^```", text, flags=re.S | re.M):
        for line in block.splitlines():
            if line.startswith("hfposemb "):
                assert parser().parse_args(shlex.split(line, comments=True)[1:]), line


def test_every_page_and_notebook_is_in_the_navigation() -> None:
    """The strict build fails otherwise, but it takes longer."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = set(re.findall(r"[\w/-]+\.md", str(settings["nav"])))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {f"{path.stem}.md" for path in (ROOT / "docs").glob("*.ipynb")}
    assert pages - named == set(), "add it to nav in mkdocs.yml"
    assert "MODULES" in str(settings["nav"])


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_link_leads_to_the_reader_s_own_machine(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"\]\(https?://(?:127\.0\.0\.1|localhost)[^)]*\)", text) == []


def test_the_readme_quotes_the_benchmarks() -> None:
    """The two ratios that it gives as the reason for an extra are those of the page, rounded."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for of in ("time", "memory"):
        found = re.search(rf"whole process over AutoModel, {of} \|.*\| 1/([\d.]+) \[.*\|", page)
        assert found is not None
        assert re.search(rf"1/{float(found[1]):.0f} of the\s+{of}", README)


SECTIONS = {
    name: re.split(r"^## ", (ROOT / "docs" / "measures" / f"{name}.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    for name in ("positions", "tokens", "sums", "heads", "pairs")
}
PAGE_OF = {"position": "positions", "token": "tokens", "both": "sums", "head": "heads"}
NAMED = r"^\| `([^`]+)` \| ([^|]+) \|$"


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name.strip())
def test_every_measure_has_a_section(measure: Measure) -> None:
    """On the page of what it is a measure of, once, with its unit."""
    rows = [row for section in SECTIONS[PAGE_OF[measure.section]] for row in re.findall(NAMED, section, flags=re.M)]
    assert rows.count((measure.name.strip(), measure.unit or "number")) == 1


def test_every_measure_of_two_tables_has_a_section() -> None:
    rows = {name for section in SECTIONS["pairs"] for name, _ in re.findall(NAMED, section, flags=re.M)}
    assert rows == {*PAIR_MEASURES, "moved words"}


def test_sections_name_measures_that_exist() -> None:
    named = [
        name
        for page in PAGE_OF.values()
        for section in SECTIONS[page]
        for name, _ in re.findall(NAMED, section, flags=re.M)
    ]
    assert set(named) == {measure.name.strip() for measure in MEASURES}


def test_every_picture_of_a_measure_can_be_drawn_again() -> None:
    assert {f"{name}.svg" for name in DRAWINGS} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("page", SECTIONS)
def test_a_section_has_formula_picture_reading_pitfalls_and_source(page: str) -> None:
    for section in SECTIONS[page]:
        title = section.partition("\n")[0]
        for part in ("$$", "![", "**How to read it.**", "**What fools it.**", "**Source.**"):
            assert part in section, (title, part)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        path, _, place = link.partition("#")
        if link.startswith("http"):
            continue
        to = ROOT / page.parent / path if path else ROOT / page
        assert to.exists(), link
        if place and to.suffix == ".md":
            assert place in places(to.read_text(encoding="utf-8")), link


def places(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pictures_are_there_and_small(page: Path) -> None:
    for name in re.findall(r"(?:!\[[^\]]*\]\(|<img[^>]* src=\")([^)\s\"]+)", (ROOT / page).read_text(encoding="utf-8")):
        if name.startswith("https://"):  # a badge: see test_publishing
            continue
        picture = ROOT / page.parent / name
        assert picture.read_bytes().startswith(b"<svg" if picture.suffix == ".svg" else b"\x89PNG"), name
        assert picture.stat().st_size <= 150_000, name


def test_every_picture_stands_on_a_page_and_all_of_them_are_small() -> None:
    shown = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    pictures = [path for path in (ROOT / "docs" / "pictures").rglob("*") if path.is_file()]
    assert [path.name for path in pictures if path.name not in shown] == []
    assert sum(path.stat().st_size for path in pictures) <= 3_000_000
