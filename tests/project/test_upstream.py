"""The page about what is changed in and used of libraries without their word for it: complete, and its cases run."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hfposemb.app.server import gradio_patches

from tests.conftest import in_full
from tests.support.installing import ROOT
from tests.support.undocumented import all_uses, sources

PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\| [\w-]+ \| `([^`]+)` \|", PAGE, flags=re.M)
CASES = re.findall(r"^### (\d)\. .*?```python\n(.*?)```", PAGE, flags=re.M | re.S)


def test_every_use_of_an_undocumented_name_stands_in_the_table() -> None:
    """And what stands there is used."""
    assert {one for one in all_uses() if one[1] not in NAMED} == set()
    code = "\n".join((ROOT / path).read_text(encoding="utf-8") for path in sources())
    assert [name for name in NAMED if name.removesuffix(" =").rpartition(".")[2] not in code] == []


def test_every_patch_stands_in_the_table() -> None:
    """With the case for Gradio, and the test that fails when Gradio changes it."""
    table = re.findall(r"^\| .*\[case (\d)\].*`(tests/\S+)` \|$", PAGE, flags=re.M)
    assert [int(case) for case, _ in table] == [1, 2, 8]
    assert all((ROOT / path).exists() for _, path in table)
    for name in (gradio_patches.STUBS[1], gradio_patches.PANDAS, gradio_patches.SWITCH):
        assert name in PAGE


@in_full
@pytest.mark.parametrize(("number", "code"), [one for one in CASES if one[0] in "12"], ids=["stubs", "pandas"])
def test_a_case_of_an_import_still_holds(number: str, code: str) -> None:
    """If it fails, Gradio has changed: the patch can go."""
    there = {name: text for name, text in os.environ.items() if name != gradio_patches.SWITCH}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=there)
    assert done.returncode == 0, f"case {number}: {done.stderr}"


def test_every_case_is_complete() -> None:
    assert [int(number) for number, _ in CASES] == list(range(1, 10))
    for _, code in CASES:
        compile(code, "case", "exec")
