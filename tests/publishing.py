"""What is left for whoever publishes hfposemb: ``python -m tests.publishing``, or ``make publish-check``.

Ends with 1 while something in the repository is left. What only the owner of an account can do is listed last.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import hfposemb
from tests.support.installing import ROOT, tracked

PLACEHOLDER = re.compile(r"(?:github\.com/|uses: |\.io/)OWNER\b")
"""Where the account stands that will hold the repository; a user's own Space is OWNER/NAME, which stays."""

CHECKOUT = re.compile(
    r"pip install (?!-e )\S*\.(\[[\w,]+\])?['`\s]|make run in a checkout|from a checkout", re.IGNORECASE
)
"""What is said of the installation until there is a package."""

ACCOUNTS = (
    "the index of packages: name this repository, release.yml and the environment pypi as the trusted publisher",
    "the repository: an environment pypi, one github-pages, and Pages published by a workflow (site.yml)",
    "a tag v{version} on the commit to publish, which starts both workflows",
)
"""What no commit can do."""


READ = (".md", ".toml", ".yml", ".yaml", ".cff", ".py", ".js")


def left() -> Iterator[tuple[str, int, str]]:
    """Yield file, line and what is to be changed there."""
    own = {"tests/publishing.py", "tests/project/test_publishing.py"}
    for name in tracked():
        if name in own or "/bundle/" in name or not name.endswith(READ):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if PLACEHOLDER.search(line):
                yield name, number, "put the account in the place of OWNER"
            elif not name.startswith("tests/") and CHECKOUT.search(line):
                yield name, number, "say how the package is installed: pip install hfposemb"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"[{hfposemb.__version__}] - unreleased" in changes:
        yield "CHANGELOG.md", changes[: changes.index("unreleased")].count("\n") + 1, "write the date of the release"


def main() -> int:
    """Print what is left; return 1 if any of it is in the repository."""
    found = list(left())
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    print(f"{len(found)} places of the repository; beside it:")
    for one in ACCOUNTS:
        print(f"- {one.format(version=hfposemb.__version__)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
