"""Every claim of docs/claims.md has a line of Python that exists and a test that is there."""

import re
from pathlib import Path

import pytest

import hfposemb as hpe

ROOT = Path(__file__).parents[2]
ROWS = [
    re.split(r"(?<!\\)\|", line)[1:-1]
    for line in (ROOT / "docs" / "claims.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| claim ")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:40])
def test_a_claim_has_a_panel_a_line_and_a_test(row: list[str]) -> None:
    _, panel, python, test, said = (cell.strip() for cell in row)
    assert panel
    assert said
    for name in re.findall(r"hpe\.(\w+)", python):
        assert callable(getattr(hpe, name))
    path, _, name = test.strip("`").partition("::")
    assert not name or f"def {name}(" in (ROOT / path).read_text()
    assert (ROOT / path).is_file()
