"""Hostile names on every screen: labels, tensors, folders and settings are text, wherever they are drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.figures.named_figures import VIEWS, view
from hfposemb.reports.atlas_page import atlas_page
from hfposemb.reports.export import write_figure
from hfposemb.reports.report import report
from hfposemb.reports.static_site import write_site
from tests.browser.waiting import drawn, open_tab
from tests.conftest import FULL
from tests.support.app.models import WORDS
from tests.support.app.widget_host import Host

RUN = "window.ran=1"
MARKUP = f"<img src=x onerror={RUN}>"
LABELS = (
    MARKUP,
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"</style><svg onload={RUN}>",
    f"<a href='javascript:{RUN}'>y</a>",
    f"javascript:{RUN}",
    f'" onmouseover="{RUN}" x="',
    f"'`;${{{RUN}}}//",
    f"{{{{constructor.constructor('{RUN}')()}}}}{{% x %}}<%= x %>",
    "$\\href{javascript:window.ran=1}{x}$ \\(x\\) $$y$$",
    f"![x](x) [y](javascript:{RUN}) <http://outside.example/x>",
    "&lt;img src=x onerror=window.ran=1&gt; &#60;b&#62;",
    "}</style>*{background:url(http://outside.example/x)}",
    "url(http://outside.example/x)",
    "%{x}<extra></extra><br>%{customdata}",
    "\u202egnp\u2066\u200b\ufeff\u00ad",
    "\x1b[31mred\x1b]8;;http://outside.example\x07\x00\x08\r\nline\u2028line",
    "half \ud800",
    "long" * 2_500,
    "=cmd()|'/c calc'!A1",
)
INJECTED = """() => [window.ran ?? 0, document.querySelectorAll(
  'img[src="x"], svg[onload], [onerror], [onload], [onmouseover], [href^="javascript:"], [href*="outside.example"], '
  + '[style*="outside.example"], .katex, .MathJax').length,
  [...document.scripts].filter((one) => one.textContent.trim() === 'window.ran=1').length]"""


def model(folder: Path, name: str, seed: int) -> str:
    """Write a model whose words, tensors, settings and name are hostile, and return it as a source."""
    path = folder / f"{name}{MARKUP}$x^2$&lt;\u202e"
    path.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    words = [*LABELS, *WORDS]
    tables = {f"{MARKUP}.{one}.weight": draw.normal(size=(n, 16)) for one, n in (("wte", len(words)), ("wpe", 32))}
    (path / "model.safetensors").write_bytes(save({key: table.astype(np.float32) for key, table in tables.items()}))
    spaced = {f"Ġ{word}" if word.isalpha() else word: row for row, word in enumerate(words)}
    (path / "vocab.json").write_text(json.dumps(spaced))
    (path / "merges.txt").write_text("#version: 0.2\n")
    said = dict.fromkeys(("architectures", "torch_dtype", "_name_or_path", "tokenizer_class", "position"), MARKUP)
    config = {**said, "architectures": [MARKUP], "model_type": "gpt2", "n_positions": 32, "n_embd": 16}
    (path / "config.json").write_text(json.dumps({**config, "vocab_size": len(words)}))
    return str(path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two models that share their words."""
    folder = tmp_path_factory.mktemp("hostile")
    return model(folder, "a", 1), model(folder, "b", 2)


def served(page: Page, html: str, name: str) -> None:
    """Open a page that was saved, at an address of this machine."""
    page.route(f"http://localhost/{name}", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto(f"http://localhost/{name}")
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg, canvas").first.wait_for(state="attached")


def harmless(page: Page) -> None:
    """Check that what is on the screen has run nothing and is nothing but text; the page checks requests."""
    assert page.evaluate(INJECTED) == [0, 0, 0]
    text = page.locator("body").inner_text()
    assert [text[max(at - 150, 0) : at + 20] for at, one in enumerate(text) if one in "\u202e\u2066\x1b"] == []


UNFOLD = """() => {
  const closed = [...document.querySelectorAll('.question > button:not(.open), details:not([open]) > summary')];
  const seen = closed.filter((one) => one.offsetWidth);
  for (const one of seen) one.click();
  return seen.length; }"""


def unfolded(page: Page) -> None:
    """Open all that is folded on the screen, and what that contains."""
    while page.evaluate(UNFOLD):
        drawn(page)


def test_every_tab_and_fold(page: Page, own_site: Callable[..., str], models: Sequence[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("app.limits.COMPARISON_DRAWS", 2)
    page.goto(own_site(*models))
    drawn(page)
    for tab in ("Start", "Positions", "Tokens", "Words + positions", "Compare", "Training"):
        open_tab(page, tab)
        unfolded(page)
        if tab == "Tokens":
            page.get_by_label("Compare words").fill(",".join(map(str, range(len(LABELS)))))
            for word in ("0", LABELS[1], *(LABELS[2:] if FULL else ())):
                page.get_by_label("Word, part of a word").fill(word)
                page.get_by_label("Word, part of a word").press("Enter")
                drawn(page)
        if tab.startswith("Words"):
            page.get_by_label("Sentence", exact=True).fill(" ".join(LABELS[:6]))
            drawn(page)
        harmless(page)


def test_the_widget_the_report_and_the_saved_pages(page: Page, models: Sequence[str], tmp_path: Path) -> None:
    opened = [hpe.extract(source) for source in models]
    Host(page).show(hpe.show(*models, role="token", progress=False))
    harmless(page)
    for name in ("tokens", "norms"):
        write_figure(view(name, *opened[: 1 if name in VIEWS else 2]), tmp_path / "figure.html")
        served(page, (tmp_path / "figure.html").read_text(), name)
        harmless(page)
    served(page, report(*opened, comparison=hpe.compare(*opened, draws=2)), "report")
    unfolded(page)
    harmless(page)
    served(page, atlas_page(hpe.survey(models, draws=2)), "atlas")
    harmless(page)
    write_site(tmp_path / "site")
    served(page, (tmp_path / "site" / "index.html").read_text(), "site")
    page.get_by_label("Files of: Model").set_input_files([str(path) for path in Path(models[0]).iterdir()])
    page.locator("#lines .panel").first.wait_for()
    drawn(page)
    harmless(page)
