"""The joined scripts of the page, and the style sheet: what they hold, and what the joining refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from app.components import page_script, page_style
from hfposemb.figures.assets import STATIC
from hfposemb.figures.javascript import atlas_script, joined, report_script, widget_script
from tests.support.installing import ROOT, tracked

MODULES = sorted([*STATIC.glob("*.js"), *page_script.FOLDER.glob("*.js")])


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write modules, named by keyword, and join the one called main."""

    def join(**modules: str) -> str:
        for name, code in modules.items():
            (tmp_path / f"{name}.js").write_text(code, encoding="utf-8")
        return joined("main.js", (tmp_path,))

    return join


def test_modules_are_joined_in_the_order_of_their_imports(write: Callable[..., str]) -> None:
    script = write(
        main='import { b } from "./b.js";\nimport { a, A } from "./a.js";\n\nb(a, A);\n',
        b='import { a } from "../x/a.js";\n\n/** Types. */\nexport function b() {\n  /** C. */\n  return a; // d\n}\n',
        a="/**\n * @returns {number}\n */\nexport async function a() {}\nexport const A = 1;\nlet own;\n",
    )
    assert script == (
        "async function a() {}\nconst A = 1;\nlet own;\n\nfunction b() {\n  return a; // d\n}\n\nb(a, A);\n"
    )


@pytest.mark.parametrize(
    ("main", "other", "said"),
    [
        ('import { b } from "./other.js";', "export const a = 1;", "imports b, which other.js does not export"),
        ('import { a } from "./other.js";', "const a = 1;", "imports a, which other.js does not export"),
        ('import { a } from "./other.js";\nconst c = 2;', "export const a = 1;\nconst c = 1;", "both define c"),
        ('import { a } from "./other.js";\nexport const b = 1;', 'import { b } from "./main.js";\nexport const a = 1;',
         "import each other"),
        ('import { a as b } from "./other.js";', "export const a = 1;", "cannot read"),
        ('import a from "./other.js";', "export default 1;", "cannot read"),
        ('import * as a from "./other.js";', "", "cannot read"),
        ('import { a } from "package";', "", "cannot read"),
        ("export default 1;", "", "cannot read"),
        ("const a = 1;\nexport { a };", "", "cannot read"),
        ('export * from "./other.js";', "", "cannot read"),
        ('import { a } from "./absent.js";', "", "absent.js has 0 files"),
        ('const a = "</SCRIPT>";', "", "ends or hides a script"),
    ],
)  # fmt: skip
def test_what_it_cannot_join_is_refused(main: str, other: str, said: str, write: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match=said):
        write(main=main, other=other)


def test_a_name_is_one_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "main.js").write_text("")
    with pytest.raises(ValueError, match="has 2 files"):
        joined("main.js", (tmp_path / "a", tmp_path / "b"))


def test_every_module_is_in_a_script() -> None:
    pages = page_script.page_script() + report_script() + atlas_script()
    widget, _, exported = widget_script().rpartition("\nexport default ")
    assert exported == "{ render: renderWidget };\n"
    both = pages + widget
    for path in MODULES:
        defined = re.findall(r"^(?:export )?(?:async )?(?:function|class|const) (\w+)", path.read_text("utf-8"), re.M)
        assert defined, path.name
        assert all(f" {name}" in both for name in defined), path.name
    assert not re.search(r"^(import|export)\b", both, flags=re.M)


def test_files_and_lines_are_short() -> None:
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 600, path.name
        assert max(map(len, lines)) <= 120, path.name


def test_private_fields_of_plotly_are_in_one_file() -> None:
    private = re.compile(r"\._[a-zA-Z]|\bd2p\b|glplot|fullSceneLayout")
    assert {path.name for path in MODULES if private.search(path.read_text("utf-8"))} == {"plotly_adapter.js"}


def test_every_call_names_a_function_of_the_script() -> None:
    code = (page_script.FOLDER / "app.js").read_text(encoding="utf-8")
    known = set(re.findall(r"\w+", code.partition("CALLED = {")[2].partition("}")[0]))
    python = [path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py")]
    called = {name for text in python for name in re.findall(r'on_(?:load|event)\("(\w+)"', text)}
    assert called == known


def test_python_holds_no_javascript() -> None:
    code = re.compile(r"document\.|addEventListener|=> \{|localStorage")
    held = {path.name for folder in ("app", "hfposemb") for path in (ROOT / folder).rglob("*.py") if _has(path, code)}
    assert held == {"page_script.py", "plot.py"}, "the two that call the script and load it"


def test_python_holds_no_style() -> None:
    sheets = re.compile(r"css_template|font-size:|<style>")
    held = {path.name for folder in ("app", "hfposemb") for path in (ROOT / folder).rglob("*.py") if _has(path, sheets)}
    sends = {"page_style.py", "html_page.py", "static_site.py", "source_bar.py"}
    assert held == {"plot.py", *sends}, "what frames a row, those that send sheets, and the colours of chips"


def test_style_is_no_template() -> None:
    """Gradio reads it as a template of Handlebars and of JavaScript."""
    assert not re.search(r"\{\{|\$\{|`|\\", page_style.page_style())


def _has(path: Path, code: re.Pattern[str]) -> bool:
    return code.search(path.read_text(encoding="utf-8")) is not None


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "tests/javascript/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert all(one["integrity"] for one in packages.values())
    assert not [name for name in tracked() if "node_modules" in name]
