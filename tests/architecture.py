"""Draw which package imports which: ``python -m tests.architecture`` writes docs/pictures/architecture.svg.

An arrow is left out where a longer way leads to the same package. Every import counts, wherever it stands in a file.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
BOX, GAP, ROW, LINE = 164, 24, 56, 14
"""Pixels: width of a box, gaps beside and below it, height of a line of text."""

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 } .name { font-weight: 600; font-size: 14px }
rect { fill: #fff; stroke: #888 } path { fill: none; stroke: #888 } .head { fill: #888 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } rect { fill: #222; stroke: #999 } }
"""


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return what a file imports of its tree, wherever in it, type checking included: "package.module" or a name."""
    root, *inside = path.relative_to(ROOT).parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = (node.module or "").split(".") if node.module else []
        if node.level:
            module = [*inside[: len(inside) - node.level + 1], *module]
        elif module[0] == root:
            module = module[1:]
        else:
            continue
        whole = {alias.name: ROOT.joinpath(root, *module, alias.name) for alias in node.names}
        named = {name: path.is_dir() or path.with_suffix(".py").is_file() for name, path in whole.items()}
        found |= {".".join([*module, name] if named[name] or not module else module) for name in named}
    return frozenset(found - {"__version__"})


def arrows_of(tree: str) -> dict[str, set[str]]:
    """Return which packages each package of ``hfposemb`` or ``app`` imports."""
    folders = sorted(path.parent for path in (ROOT / tree).glob("*/__init__.py"))
    names = {folder.name for folder in folders}
    return {
        folder.name: {one.split(".")[0] for path in folder.rglob("*.py") for one in imports_of(path)}
        & names - {folder.name}
        for folder in folders
    }


def _reached(arrows: Mapping[str, set[str]], name: str) -> set[str]:
    return arrows[name].union(*(_reached(arrows, one) for one in arrows[name]))


def reduced(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the arrows without those that a longer way replaces."""
    return {
        name: {one for one in others if not any(one in _reached(arrows, other) for other in others - {one})}
        for name, others in arrows.items()
    }


def _rows(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the packages by row, each below all that import it."""
    depth: dict[str, int] = {}
    for name in reversed([*TopologicalSorter(arrows).static_order()]):
        depth[name] = 1 + max((depth[other] for other in arrows if name in arrows[other]), default=-1)
    return [sorted(name for name in depth if depth[name] == row) for row in range(max(depth.values()) + 1)]


def _drawn(tree: str, left: int) -> tuple[list[str], int, int]:
    """Return the parts of the picture of one tree, and its width and height."""
    parts: list[str] = []
    lines: list[str] = []
    places: dict[str, tuple[int, int, int]] = {}
    arrows, top = arrows_of(tree), 40
    rows = _rows(arrows)
    width = max(map(len, rows)) * (BOX + GAP) - GAP
    for row in rows:
        inside = {name: sorted(path.parent.name for path in (ROOT / tree / name).glob("*/__init__.py")) for name in row}
        high = 30 + LINE * max((len(held) + 1) // 2 for held in inside.values())
        start = left + (width - len(row) * (BOX + GAP) + GAP) // 2
        for number, name in enumerate(row):
            x = start + number * (BOX + GAP)
            places[name] = (x + BOX // 2, top, top + high)
            parts.append(f'<rect x="{x}" y="{top}" width="{BOX}" height="{high}" rx="6"/>')
            parts.append(f'<text class="name" x="{x + 10}" y="{top + 20}">{escape(name)}</text>')
            pairs = [", ".join(inside[name][at : at + 2]) for at in range(0, len(inside[name]), 2)]
            parts += [f'<text x="{x + 10}" y="{top + 34 + LINE * at}">{one}</text>' for at, one in enumerate(pairs)]
        top += high + ROW
    for name, others in sorted(reduced(arrows).items()):
        for other in sorted(others):
            (x, _, y), (x2, y2, _) = places[name], places[other]
            bend = f"C {x} {y + ROW // 2} {x2} {y2 - ROW // 2}"
            lines.append(f'<path d="M {x} {y} {bend} {x2} {y2 - 6}" marker-end="url(#head)"/>')
    heading = "hfposemb: the library" if tree == "hfposemb" else "app: imports the library"
    return [f'<text class="name" x="{left}" y="24">{heading}</text>', *lines, *parts], width, top - ROW


def picture() -> str:
    """Return the picture as SVG."""
    library, width, height = _drawn("hfposemb", 10)
    app, more, tall = _drawn("app", width + 60)
    head = '<marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + more + 70} {max(height, tall) + 10}">',
            f"<style>{STYLE}</style>",
            f'<defs>{head}<path class="head" d="M0 0 L6 3 L0 6 z"/></marker></defs>',
            *library,
            *app,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
