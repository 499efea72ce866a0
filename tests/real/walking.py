"""Walk through a page as a person does: find the controls that it has, use each, and look whether all is drawn again.

Controls are taken from the page itself, so that a new one is covered as soon as it stands there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

TABS = ("Start", "Positions", "Tokens", "Words + positions", "Compare", "Training")

# What stands in the tab on the screen, with a mark on each node so that it can be found again.
_FIND = """(every) => {
  const seen = (node) => node.offsetWidth && node.checkVisibility({ visibilityProperty: true });
  const root = [...document.querySelectorAll('[role=tabpanel]')].find((one) => one.offsetWidth);
  const words = (node) => (node?.innerText ?? "").trim().replace(/\\s+/g, " ").slice(0, 60);
  const found = [], add = (node, kind, name) => {
    const key = [kind, name].join(": ");
    if (found.some((one) => one.key === key)) return;
    node.dataset.walk = String(found.length);
    found.push({ key, kind, place: found.length });
  };
  document.querySelectorAll("[data-walk]").forEach((one) => delete one.dataset.walk);
  const groups = new Map();
  for (const node of root.querySelectorAll("input[type=radio]")) {
    const group = node.closest("fieldset, [role=radiogroup]"), label = node.closest("label");
    if (!label || !seen(label) || node.checked || node.disabled) continue;
    const own = words(group?.querySelector("[data-testid=block-info], legend, span")) || node.name;
    if (!every && (groups.get(own) ?? 0) >= 1) continue;
    groups.set(own, (groups.get(own) ?? 0) + 1);
    add(label, "radio", own + " = " + words(label));
  }
  for (const node of root.querySelectorAll("input[type=checkbox]")) if (seen(node)) add(node, "checkbox", words(node.closest("label")));
  for (const node of root.querySelectorAll("input[type=range]")) if (seen(node)) add(node, "slider", node.getAttribute("aria-label") ?? "");
  for (const node of root.querySelectorAll("input[role=listbox], input[role=combobox]"))
    if (seen(node) && !node.disabled) add(node, node.closest(".sources") ? "sources" : "dropdown", node.getAttribute("aria-label") ?? "");
  for (const node of root.querySelectorAll("textarea, input[type=text]:not([role])"))
    if (seen(node) && !node.disabled) add(node, "text", words(node.closest("label")?.querySelector("span")) || node.getAttribute("aria-label"));
  for (const node of root.querySelectorAll("summary")) if (seen(node)) add(node, "fold", words(node));
  for (const node of root.querySelectorAll("button")) {
    if (!seen(node) || node.disabled || node.closest("[role=tablist], .sources, .dropdown-arrow")) continue;
    const panel = node.closest(".panel"), name = words(node) || node.getAttribute("aria-label") || node.title;
    if (/^(PNG|SVG|CSV|Table \\(CSV\\)|Cancel|Copy|Copied|Download.*)$/.test(name) || /^Remove |^Clear/.test(name)) continue;
    const neighbour = node.classList.contains("neighbour");
    const where = panel ? panel.dataset.key + (neighbour ? ", a neighbour" : ", " + name) : name;
    add(node, node.classList.contains("label-wrap") ? "accordion" : "button", where);
  }
  return found;
}"""

# Why the page is not at rest: what is still drawn, awaited or computed.
_BUSY = """() => {
  const seen = (node) => node.offsetWidth > 0, all = (what) => [...document.querySelectorAll(what)].filter(seen);
  return [
    ...all("hfposemb-row .panel").filter((one) => one.dataset.state === "loading").map((one) => "panel " + one.dataset.key + " is being drawn"),
    ...all("hfposemb-row.late").map(() => "a row has nothing yet"),
    ...all(".pending").filter((one) => one.querySelector("hfposemb-row")).map(() => "a row waits"),
    ...all(".work progress, .work .track").map((one) => "work: " + one.closest(".work").innerText.slice(0, 120)),
  ];
}"""

# What should not be on the screen at rest.
_FAULTS = """() => {
  const seen = (node) => node.offsetWidth > 0, all = (what) => [...document.querySelectorAll(what)].filter(seen);
  const words = (node) => node.innerText.trim().replace(/\\s+/g, " ").slice(0, 200);
  const panels = all("hfposemb-row .panel");
  const empty = (one) => {
    const plots = [...one.querySelectorAll(".plot")];
    if (plots.length) return plots.some((plot) => !plot.querySelector("canvas, .main-svg *")) || one.dataset.points === "0" && !one.querySelector(".stage image, .stage canvas, .hm");
    return !one.querySelector(".lists li, .numbers p, .message, .subtitle");
  };
  return [
    ...all("[role=alert], .failed").map((one) => "alert: " + words(one)),
    ...panels.filter((one) => one.dataset.state === "failed" || one.classList.contains("error")).map((one) => "failed panel " + one.dataset.key + ": " + words(one)),
    ...panels.filter((one) => one.dataset.state === "drawn" && empty(one)).map((one) => "empty panel " + one.dataset.key),
    ...all("hfposemb-row").filter((one) => !one.querySelector(".panel") && one.offsetHeight > 40).map((one) => "empty row of " + one.offsetHeight + " px"),
    ...all(".toast-body, .toast-wrap > *").map((one) => "toast: " + words(one)),
    ...(document.documentElement.scrollWidth > innerWidth ? ["the page is wider than its window: " + document.documentElement.scrollWidth] : []),
  ];
}"""

TEXTS = {
    "search": "king",
    "sentence": "the king saw the king",
    "head": "1",
    "words": "king, queen, the",
    "waves": "0, 7",
}
"""What is written into fields whose name has the word; another field gets ``1``."""


@dataclass
class Walk:
    """A walk through one page. ``faults`` is what went wrong, ``took`` the seconds of every step."""

    page: Page
    every: bool = False
    patience: float = 60.0
    faults: list[str] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen to what the page logs."""
        self.page.on("pageerror", lambda error: self.console.append(f"JavaScript error: {error}"))
        self.page.on(
            "console", lambda said: self.console.append(f"console: {said.text}") if said.type == "error" else None
        )

    def rest(self, step: str) -> None:
        """Wait until nothing is drawn or computed any more, and note what is wrong then."""
        began, calm, busy = time.monotonic(), 0, []
        while calm < 4 and time.monotonic() - began < self.patience:
            self.page.wait_for_timeout(60)
            busy = self.page.evaluate(_BUSY)
            calm = 0 if busy else calm + 1
        self.took[step] = time.monotonic() - began
        wrong = [f"pending after {self.patience:.0f} s: {one}" for one in busy]
        wrong += self.page.evaluate(_FAULTS) + self.console
        self.console.clear()
        self.faults += [f"{step}: {one}" for one in dict.fromkeys(wrong)]

    def open(self, tab: str) -> None:
        """Bring a tab to the screen, by its address bar or by the menu where the strip has no room."""
        one = self.page.get_by_role("tab", name=tab, exact=True)
        one.scroll_into_view_if_needed()
        one.click()
        self.rest(f"{tab}")

    def controls(self) -> list[dict[str, Any]]:
        """Return the controls of the tab on the screen; of each group of choices one, or every one."""
        found: list[dict[str, Any]] = self.page.evaluate(_FIND, self.every)
        return found

    def tab(self, name: str) -> int:
        """Use every control of a tab, those too that only then appear; return how many there were."""
        self.open(name)
        done: set[str] = set()
        while True:
            todo = [one for one in self.controls() if one["key"] not in done and not self._done(one, done)]
            if not todo:
                return len(done)
            one = todo[0]
            done.add(one["key"])
            for step in self._use(one):
                self.rest(f"{name}, {one['key']}{step}")
            if not self._on(name):
                self.open(name)

    def _done(self, one: dict[str, Any], done: set[str]) -> bool:
        """Tell whether another choice of the same group was taken, where one is enough."""
        group = one["key"].partition(" = ")[0]
        return not self.every and one["kind"] == "radio" and any(key.startswith(group + " = ") for key in done)

    def _on(self, name: str) -> bool:
        return self.page.get_by_role("tab", name=name, exact=True).get_attribute("aria-selected") == "true"

    def _use(self, one: dict[str, Any]) -> Iterator[str]:
        """Use a control, and yield whenever the page should come to rest."""
        node = self.page.locator(f'[data-walk="{one["place"]}"]')
        node.scroll_into_view_if_needed()
        match one["kind"]:
            case "checkbox" | "fold":
                node.click()
                yield ""
                node.click()
                yield ", back"
            case "slider":
                for key in ("End", "Home"):
                    node.press(key)
                    yield f", {key}"
            case "dropdown":
                yield from self._choices(node)
            case "sources":
                return
            case "text":
                before = node.input_value()
                name = one["key"].lower()
                node.fill(next((text for part, text in TEXTS.items() if part in name), "1"))
                node.press("Enter")
                yield ""
                node.fill(before)
                node.press("Enter")
                yield ", back"
            case _:
                node.click()
                yield ""

    def _choices(self, node: Any) -> Iterator[str]:
        """Take the choices of a dropdown: the last one, or every one."""
        node.click()
        options = self.page.locator("[role=option]:visible")
        count = options.count()
        self.page.keyboard.press("Escape")
        for place in range(count) if self.every else [count - 1]:
            node.click()
            options.nth(place).click()
            yield f" = choice {place + 1} of {count}"
