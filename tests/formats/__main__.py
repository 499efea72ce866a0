"""Write ``docs/formats.md``: ``python -m tests.formats``."""

from __future__ import annotations

from tests.formats.page import page
from tests.reference import DOCS

if __name__ == "__main__":
    (DOCS / "formats.md").write_text(page(), encoding="utf-8")
    print(DOCS / "formats.md")
