"""Run the snippets of a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def run_snippets(text: str, names: dict[str, Any], *, after: Callable[[], None] = lambda: None) -> int:
    """Run the snippets of a page in order, each followed by ``after``; return how many values were checked."""
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert snippets
    checked = 0
    for snippet in snippets:
        exec(compile(snippet, "page", "exec"), names)
        for code, said in re.findall(r"^(\S.*?) {2,}# ([(\[].*[)\]])(?: cosines)?$", snippet, flags=re.M):
            assert repr(eval(code, names)) == said
            checked += 1
        after()
    return checked
