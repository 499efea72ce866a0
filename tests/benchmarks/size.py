"""The app in public mode with large vocabularies of a Hub, whose bytes are on this machine already.

A server of its own for each, so that nothing is known of the model: from its name being entered to the first map, then
from a word to its neighbours, and the server's memory above what it had before. Here too is how long Cancel takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tests.browser.chromium import find
from tests.browser.conftest import FLAGS, TIMEOUT
from tests.browser.waiting import drawn, open_tab, unfold_bar
from tests.support.app.serving import Visitor, serving

from .computing import clustered
from .cost import ROOT, Row, count, environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZE = 15
WORDS = ("queen", "father", "mother", "heaven", "earth")


@dataclass(frozen=True)
class Vocabulary:
    """A model of random vectors about some centres: its size, how it is stored, and what is wanted of the app."""

    name: str
    rows: int
    width: int
    dtype: str
    first_map: int
    """Seconds from the name to the first map."""

    @property
    def size(self) -> str:
        """How large it is, in words."""
        return f"{self.rows:,} × {self.width}"


GPT2 = Vocabulary("lab/fifty", 50_257, 768, "float16", 3)
GEMMA = Vocabulary("lab/quarter", 262_144, 640, "bfloat16", 6)
MEMORY = 1_500
"""Megabytes above its start that the server may take for the larger one."""

NEIGHBOURS = {GPT2.name: 300, GEMMA.name: 400}
"""Milliseconds from a word to its neighbours."""

PATTERNS = ("^ ab.*c$", "[xyz]{3}", "q[^u]$", "^ (b|d)a+")
PATTERN = 200
"""Milliseconds from a regular expression over all labels to the matches."""


def size_rows(*, rounds: int) -> Iterator[Row]:
    """Yield what the two vocabularies take; nothing where there is no Chromium."""
    path = find()
    if path is None:
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        folder = Path(made)
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=TIMEOUT)
        with _hub(folder) as variables:
            for one in (GPT2, GEMMA):
                found = [_opened(browser, folder / str(turn), one, variables) for turn in range(rounds + 1)][1:]
                yield from _judged(one, found)
        yield from cancel_rows(browser)
        browser.close()


@dataclass(frozen=True)
class _Found:
    """What one server took: seconds to the first map, ms for each word and pattern, megabytes above its start."""

    first_map: float
    words: list[float]
    patterns: list[float]
    memory: float


def _judged(one: Vocabulary, found: list[_Found]) -> Iterator[Row]:
    seconds = median(run.first_map for run in found)
    yield count(SIZE, f"app, public: {one.size}, name to map", 1e3 * seconds, 1e3 * one.first_map, unit="ms")
    words = median(word for run in found for word in run.words)
    yield count(SIZE, f"app, public: {one.size}, word to neighbours", words, NEIGHBOURS[one.name], unit="ms")
    if one is GEMMA:
        patterns = median(took for run in found for took in run.patterns)
        yield count(SIZE, f"app, public: {one.size}, regular expression to matches", patterns, PATTERN, unit="ms")
        memory = median(run.memory for run in found)
        yield count(SIZE, f"app, public: {one.size}, memory of the server", memory, MEMORY, unit="MB")


def _opened(browser: Browser, folder: Path, one: Vocabulary, variables: dict[str, str]) -> _Found:
    with serving(folder, **variables) as served:
        Visitor(served.url).close()  # waits until it answers
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(TIMEOUT)
        page.goto(f"{served.url}/?models=sinusoidal:64x16&tab=tokens")  # which has no tokens
        drawn(page)
        process = psutil.Process(served.process.pid)
        before = process.memory_info().rss
        field = page.get_by_label("Models to compare").locator("visible=true")
        field.click()
        field.press_sequentially(one.name, delay=10)
        began = time.perf_counter()
        field.press("Enter")
        map_of = page.locator(".panel[data-key=map][data-state=drawn] .subtitle")
        map_of.filter(has_text=f"{one.rows:,}").wait_for()
        first_map = time.perf_counter() - began
        drawn(page)
        words = [_word(page, word) for word in WORDS]
        page.get_by_label("Regex").check()  # which searches for the last word
        page.locator(".panel[data-key=matches]").wait_for()
        drawn(page)
        patterns = [_word(page, pattern, panel="matches") for pattern in PATTERNS]
        memory = (process.memory_info().rss - before) / 1e6
        page.close()
    return _Found(first_map, words, patterns, memory)


# From Enter to a word in the heading of its panel, in ms: taken by the page itself, which answers a question from
# outside only when it has also marked the word on the map.
LISTED = """([word, panel]) => {
  let began = 0;
  window.took = null;
  addEventListener("keydown", (happened) => { began = happened.timeStamp; }, { capture: true, once: true });
  const seen = new MutationObserver(() => {
    const titles = [...document.querySelectorAll(`.panel[data-key=${panel}] h3`)];
    if (!began || !titles.some((one) => one.textContent.includes(word))) return;
    seen.disconnect();
    window.took = performance.now() - began;
  });
  seen.observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def _word(page: Page, word: str, panel: str = "neighbours") -> float:
    """Return the milliseconds from Enter to the neighbours of a word, or to the matches of a pattern."""
    field = page.get_by_label("Word, part of a word, or id")
    field.fill(word)
    page.evaluate(LISTED, [word, panel])
    field.press("Enter")
    page.wait_for_function("() => window.took !== null")
    drawn(page)
    return float(page.evaluate("window.took"))


def cancel_rows(browser: Browser) -> Iterator[Row]:
    """Yield how long the child of a UMAP lives after Cancel, and what a table of many positions shows first."""
    from .app import serving as serving_locally

    with serving_locally("sample:bert") as (url, _):
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(TIMEOUT)
        page.goto(url)
        drawn(page)
        open_tab(page, "Tokens")
        unfold_bar(page)
        page.get_by_role("radio", name="UMAP").click()
        cancel = page.get_by_role("button", name="Cancel")
        cancel.wait_for()
        served = next(one for one in psutil.process_iter(["cmdline"]) if url.rpartition(":")[2] in _line(one))
        while not served.children():
            page.wait_for_timeout(20)
        began = time.perf_counter()
        cancel.click()
        while served.children():
            time.sleep(0.005)
        yield count(SIZE, "app: Cancel, to the end of the child", 1e3 * (time.perf_counter() - began), 300, unit="ms")
        page.close()
    with serving_locally("sinusoidal:100000x2048") as (url, _):
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(TIMEOUT)
        began = time.perf_counter()
        page.goto(f"{url}/?tab=positions")
        page.wait_for_function("() => document.querySelector('.panel[data-state=drawn], [role=progressbar]')")
        took = 1e3 * (time.perf_counter() - began)
        yield count(SIZE, "app: 100,000 × 2,048 positions, to the first panel", took, 3_000, unit="ms")
        page.close()


def _line(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or ())


@contextmanager
def _hub(folder: Path) -> Iterator[dict[str, str]]:
    """Serve both models from a Hub in another process, read them once, and yield the environment of a server."""
    for one in (GPT2, GEMMA):
        write_model(folder / one.name, one)
    given = [f"{one.name}={folder / one.name}" for one in (GPT2, GEMMA)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hub", *given],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        variables = dict(part.split("=", 1) for part in process.stdout.readline().split())
        variables |= {"HFPOSEMB_CACHE": str(folder / "cache"), "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "0"}
        for one in (GPT2, GEMMA):
            read = f"import hfposemb; t = hfposemb.extract({one.name!r}, token=False).token; t.vectors; t.labels"
            subprocess.run([sys.executable, "-c", read], cwd=ROOT, env={**os.environ, **variables}, check=True)
        yield variables
    finally:
        process.kill()
        process.wait()


def write_model(folder: Path, one: Vocabulary) -> None:
    """Write a GPT-2, or a Gemma, with a tokenizer.json of as many words and a merge for each."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    random, sign = np.random.default_rng(0), "Ġ" if one is GPT2 else "▁"
    vectors = 0.05 * clustered(one.rows, one.width)
    stored = torch.from_numpy(vectors).to(getattr(torch, one.dtype))
    if one is GPT2:
        positions = torch.from_numpy(random.standard_normal((1024, one.width), dtype=np.float32))
        tensors = {"wte.weight": stored, "wpe.weight": positions.to(stored.dtype)}
        config = {"model_type": "gpt2", "n_positions": 1024, "n_embd": one.width, "n_layer": 12, "n_head": 12}
        decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    else:
        tensors = {"model.embed_tokens.weight": stored}
        config = {"model_type": "gemma3_text", "hidden_size": one.width, "num_hidden_layers": 18, "head_dim": 256}
        config |= {"num_attention_heads": 4, "num_key_value_heads": 1, "max_position_embeddings": 32_768}
        decoder = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": one.rows}))
    known = [f"{sign}{word}" for word in ("king", *WORDS)]
    letters = [chr(97 + place) for place in range(26)]
    words = [*known, *letters, *(f"{sign if row % 3 else ''}{_spelt(row)}" for row in range(2 * one.rows))]
    words = list(dict.fromkeys(words))[: one.rows]
    model = {"type": "BPE", "vocab": {word: row for row, word in enumerate(words)}, "unk_token": None}
    model["merges"] = [f"{word[:-1]} {word[-1]}" for word in words if len(word) > 1]
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": decoder}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "model": model}, ensure_ascii=False))


def _spelt(number: int) -> str:
    """Return a number in letters, every fifth of another script."""
    digits, first = "", 0x0430 if number % 5 == 0 else 97
    while number or not digits:
        number, digit = divmod(number, 26)
        digits += chr(first + digit)
    return digits
