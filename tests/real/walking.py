"""Walk through a page as a person does: find the controls that it has, use each, and look whether all is drawn again.

Controls are taken from the page itself, so that a new one is covered as soon as it stands there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Error

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TABS = ("Start", "Positions", "Tokens", "Words + positions", "Compare", "Training")
CALM = 3  # looks in a row at a page that is at rest
POLL = 50  # ms
GONE = 2_000  # ms that a button may take to be pressed
ANSWERS = {
    "search": "king",
    "sentence": "the king saw the king",
    "head": "1",
    "words": "king, queen",
    "waves": "0, 7",
    "own model": "sinusoidal:64x32",
}
"""What is written into a field whose name has the word; into another one ``1``."""


@dataclass
class Walk:
    """A walk through one page.

    With ``every`` each choice of each group is taken, else one. Work that takes longer than ``cancelled`` seconds is
    cancelled. ``faults`` is what went wrong, ``took`` the seconds of every step.
    """

    page: Page
    every: bool = False
    patience: float = 90.0
    cancelled: float = 0.0
    faults: list[str] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen to the page from its first script on."""
        self.page.add_init_script(path=Path(__file__).parent / "walk.js")
        self.page.on("pageerror", lambda error: self.console.append(f"JavaScript error: {error}"))
        self.page.on(
            "console", lambda said: self.console.append(f"console: {said.text}") if said.type == "error" else None
        )

    def rest(self, step: str) -> None:
        """Wait until nothing is drawn or computed any more, and note what is wrong then."""
        began, calm, busy = time.monotonic(), 0, []
        while calm < CALM and (took := time.monotonic() - began) < self.patience:
            self.page.wait_for_timeout(POLL)
            busy = self.page.evaluate("walk.busy()")
            calm = 0 if busy else calm + 1
            if self.cancelled and took > self.cancelled and any(one.startswith("work:") for one in busy):
                self._cancel()
        self.took[step] = time.monotonic() - began
        wrong = [f"after {self.patience:.0f} s: {one}" for one in busy] if calm < CALM else []
        wrong += self.page.evaluate("walk.faults()") + self.console
        self.console.clear()
        self.faults += [f"{step}: {one}" for one in dict.fromkeys(wrong)]

    def _cancel(self) -> None:
        button = self.page.get_by_role("button", name="Cancel").locator("visible=true")
        with suppress(Error):  # the work ended meanwhile, and its line went
            if button.count():
                button.first.click(timeout=GONE)
                self.page.wait_for_timeout(10 * POLL)

    def open(self, tab: str) -> None:
        """Bring a tab to the screen."""
        one = self.page.get_by_role("tab", name=tab, exact=True)
        one.scroll_into_view_if_needed()
        one.click()
        self.rest(tab)

    def tab(self, name: str) -> int:
        """Use every control of a tab, those too that only then appear; return how many there were."""
        self.open(name)
        done: set[str] = set()
        while one := next((one for one in self.page.evaluate("walk.controls()") if self._is_new(one, done)), None):
            done.add(one["key"])
            for step in self._use(one):
                self.rest(f"{name}, {one['key']}{step}")
            if self.page.get_by_role("tab", name=name, exact=True).get_attribute("aria-selected") != "true":
                self.open(name)
        return len(done)

    def _is_new(self, one: dict[str, Any], done: set[str]) -> bool:
        """Tell whether a control is still to be used; of a group of choices one is enough, unless every is wanted."""
        group = one["key"].partition(" = ")[0]
        taken = one["kind"] == "choice" and any(key.partition(" = ")[0] == group for key in done)
        alike = one["kind"] == "button" and any(
            key.rpartition(", ")[2] == one["key"].rpartition(", ")[2] for key in done
        )
        return one["key"] not in done and (self.every or not (taken or (alike and ", " in one["key"])))

    def _use(self, one: dict[str, Any]) -> Iterator[str]:
        """Use a control, and yield whenever the page should come to rest."""
        node = self.page.locator(f'[data-walk="{one["place"]}"]')
        node.scroll_into_view_if_needed()
        match one["kind"]:
            case "checkbox" | "fold":
                for back in ("", ", back"):
                    node.click()
                    yield back
            case "slider":
                for key in ("End", "Home"):
                    node.press(key)
                    yield f", {key}"
            case "dropdown":
                yield from self._choices(node, one["key"])
            case "text":
                before, name = node.input_value(), one["key"].lower()
                for text in dict.fromkeys((next((ANSWERS[part] for part in ANSWERS if part in name), "1"), before)):
                    if text:  # what was empty stays filled, for the button beside it
                        node.fill(text)
                        node.press("Enter")
                        yield f" = {text}"
            case _:
                node.click()
                yield ""
                self.page.keyboard.press("Escape")  # help that a "?" has opened lies above what comes next

    def _choices(self, node: Locator, key: str) -> Iterator[str]:
        """Take the choices of a dropdown: the last one, or every one."""
        options = self.page.locator("[role=option]:visible")
        self.page.evaluate("document.activeElement?.blur()")  # a list of several choices stays open after one
        options.first.wait_for(state="hidden")
        node.click()
        count = options.count()
        self.page.keyboard.press("Escape")
        node.blur()  # a list opens where its field gets the focus
        options.first.wait_for(state="hidden")
        for place in range(count) if self.every else range(count)[-1:]:
            if not self._take(node, options.nth(place)):
                why = f"cannot be clicked; there are {options.count()} now"
                self.faults.append(f"{key}: choice {place + 1} of {count} {why}")
            yield f" = choice {place + 1} of {count}"

    def _take(self, node: Locator, option: Locator) -> bool:
        """Click an option of a dropdown, opening its list again if it closed; return whether that worked."""
        for _ in range(3):
            node.click()
            with suppress(Error):
                option.click(timeout=GONE)
                return True
            self.page.keyboard.press("Escape")
            node.blur()
        return False
