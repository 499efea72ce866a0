"""The least of a notebook that anywidget needs: a page with a model per widget, bound to the widget in Python."""

from __future__ import annotations

import base64
import json
from typing import Any

from playwright.sync_api import Page

from hfposemb.widget.notebook_view import NotebookView

HOST = """<!doctype html><html><head><meta charset="utf-8"><title>widget</title></head>
<body data-jp-theme-light="true"><main></main><script>
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
const revive = (_, item) => (item?.base64 !== undefined ? bytes(item.base64) : item);
const revived = (value) => JSON.parse(JSON.stringify(value), revive);
class Model {
  constructor(state, id) { this.state = revived(state); this.id = id; this.heard = {}; this.dirty = {}; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = this.dirty[name] = value;
    this.fire(`change:${name}`);
  }
  save_changes() { window.fromPage?.(this.id, { method: "update", state: this.dirty }); this.dirty = {}; }
  send(content) { window.fromPage?.(this.id, { method: "custom", content }); }
  on(name, listener) { (this.heard[name] ??= new Set()).add(listener); }
  off(name, listener) { this.heard[name]?.delete(listener); }
  fire(name, ...values) { for (const listener of this.heard[name] ?? []) listener(...values); }
  receive(state) {
    for (const [name, value] of Object.entries(revived(state))) {
      this.state[name] = value;
      this.fire(`change:${name}`);
    }
  }
  get widget_manager() {
    const missing = () => Promise.reject(new Error("no such model"));
    return { get_model: async (id) => models[id] ?? missing() };
  }
}
const models = {};
async function display(id, state) {
  const model = models[id] ??= new Model(state, id);
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = state._css;
  const module = await import(URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" })));
  const el = document.querySelector("main").appendChild(document.createElement("div"));
  return module.default.render({ model, el });
}
</script></body></html>"""


class Host:
    """A page that shows widgets of this process; both sides exchange what a notebook would."""

    def __init__(self, page: Page, *, shares_models: bool = True) -> None:
        self.page, self.shares_models = page, shares_models
        self.widgets: dict[str, NotebookView] = {}
        self.told: list[dict[str, Any]] = []
        page.expose_function("fromPage", self._from_page)
        page.set_content(HOST)

    def show(self, view: NotebookView) -> None:
        """Display a widget, and wait until all its panels are drawn."""
        from hfposemb.widget.notebook_view import shared_library

        self.widgets[view.model_id] = view
        library = shared_library()
        if self.shares_models:
            state = written({"content": library.content})
            self.page.evaluate("([id, state]) => { models[id] ??= new Model(state, id); }", [library.model_id, state])
        view._send = lambda message, buffers=None: self._to_page(view, message, buffers)
        state = written(view.get_state())
        self.page.evaluate("([id, state]) => { display(id, state); }", [view.model_id, state])
        self.drawn()

    def drawn(self) -> None:
        """Wait until every panel of the page is drawn."""
        self.page.wait_for_function(
            """() => { const panels = [...document.querySelectorAll(".panel")];
            return panels.length && !document.querySelector(".late")
              && panels.every((panel) => ["drawn", "failed"].includes(panel.dataset.state)); }"""
        )

    def _to_page(self, view: NotebookView, message: dict[str, Any], buffers: Any) -> None:
        if message["method"] == "update":
            # ipywidgets has taken the bytes out of the state
            state = written({name: getattr(view, name) for name in message["state"]})
            self.page.evaluate("([id, state]) => models[id].receive(state)", [view.model_id, state])
        elif message["method"] == "custom":
            sent = [written(bytes(one)) for one in buffers or ()]
            self.page.evaluate(
                "([id, content, buffers]) => models[id].fire('msg:custom', content, buffers.map(revived))",
                [view.model_id, message["content"], sent],
            )

    def _from_page(self, model: str, message: dict[str, Any]) -> None:
        self.told.append(message)
        view = self.widgets[model]
        if message["method"] == "update":
            view.set_state(message["state"])
        else:
            view._handle_custom_msg(message["content"], [])


def written(value: Any) -> Any:
    """Return a state as JSON holds it: bytes in base64."""

    def default(item: Any) -> Any:
        return (
            {"base64": base64.b64encode(bytes(item)).decode()} if isinstance(item, (bytes, memoryview)) else str(item)
        )

    return json.loads(json.dumps(value, default=default))
