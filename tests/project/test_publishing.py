"""What is left for whoever publishes is found, and no page sends readers to a package that is not there."""

from __future__ import annotations

import re

from tests.publishing import CHECKOUT, PLACEHOLDER, left
from tests.support.installing import ROOT, tracked


def test_every_place_is_listed() -> None:
    found = list(left())
    assert {name for name, _, _ in found} >= {"pyproject.toml", "README.md", "docs/index.md", "docs/check.md"}
    lines = {(name, number): (ROOT / name).read_text("utf-8").splitlines()[number - 1] for name, number, _ in found}
    assert all(PLACEHOLDER.search(one) or CHECKOUT.search(one) or "unreleased" in one for one in lines.values())


def test_badges_show_workflows_of_this_repository() -> None:
    """GitHub draws their state, so that they are true wherever they are seen."""
    badges = re.findall(r"!\[[^]]+\]\((https?://\S+?)\)", (ROOT / "README.md").read_text("utf-8"))
    names = [
        re.fullmatch(r"https://github\.com/OWNER/hfposemb/actions/workflows/(\w+\.yml)/badge\.svg", one)
        for one in badges
    ]
    assert names
    assert all(name and (ROOT / ".github/workflows" / name[1]).exists() for name in names)


def test_no_page_installs_a_package_that_is_not_there() -> None:
    """A hint that names an extra is right wherever hfposemb is installed; a page is read before."""
    pages = [name for name in tracked() if name.endswith((".md", ".ipynb"))]
    wrong = [name for name in pages if re.search(r"pip install [^`\n]*hfposemb", (ROOT / name).read_text("utf-8"))]
    assert wrong == []
