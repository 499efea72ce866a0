"""All that this app changes in Gradio: three things, for which no setting exists. Nothing heavy is imported here.

``docs/upstream.md`` has the table of them: why, how much each buys, a case for Gradio, and the test that fails when
Gradio changes. Without them, which ``HFPOSEMB_PATCHES=0`` asks for, the app is slower and otherwise the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hfposemb.errors import require

if TYPE_CHECKING:
    from starlette.routing import Route

SWITCH = "HFPOSEMB_PATCHES"
"""Name of the variable that turns them off when it is 0."""

STUBS = "gradio.component_meta", "create_or_modify_pyi"
"""The function that parses the source of each component twice and writes its stub, for authors of components."""

PANDAS = "gradio.caching"
"""The module that imports pandas, to hash values of caches that this app does not have."""

STREAMS = b"&&s?`input`:", b"&&s&&s!==`closed`?`input`:"
"""In ``LoadingStatus.resolve_args`` of the page: what it reads, and what it is to read.

At the end of every event Gradio calls the stream of its inputs closed, even if there was none, and from then on it
tracks the progress of those inputs as well as that of the outputs. At each message of the server its page looks up all
that it tracks in the tree of components, and copies its properties.
"""


def wanted() -> bool:
    """Return whether Gradio is to be changed."""
    return os.environ.get(SWITCH, "1") != "0"


def import_gradio() -> None:
    """Import Gradio without stubs and pandas; it writes and imports them as usual afterwards.

    Raises:
        MissingExtraError: Gradio is not installed.
    """
    require("gradio", extra="app", purpose="the app")
    if "gradio" in sys.modules:
        return
    if wanted():
        try:
            _import_lightly()
            return
        except (ImportError, AttributeError):  # of a version that is built differently
            for name in [name for name in sys.modules if name.partition(".")[0] == "gradio"]:
                del sys.modules[name]
    import_module("gradio")


def _import_lightly() -> None:
    """Import two modules of Gradio before the package itself, which then finds them as they are to be."""
    spec = find_spec("gradio")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["gradio"] = package = module_from_spec(spec)
    module, name = import_module(STUBS[0]), STUBS[1]
    own = getattr(module, name)
    setattr(module, name, lambda *_: None)
    try:
        with _later("pandas"):
            import_module(PANDAS)
        spec.loader.exec_module(package)
    finally:
        setattr(module, name, own)


@contextmanager
def _later(package: str) -> Iterator[None]:
    """Let what is imported inside import a package when it first uses that, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = _OnFirstUse(package)
    try:
        yield
    finally:
        del sys.modules[package]


class _OnFirstUse(ModuleType):
    """A module that is imported when one of its attributes is first read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            raise AttributeError(f"{self.__name__} is not imported yet", name=name, obj=self)
        return getattr(import_module(self.__name__), name)


def mended_scripts() -> list[Route]:
    """Return routes that serve what is changed of the page's scripts; without them Gradio serves its own."""
    import gradio
    from starlette.responses import Response
    from starlette.routing import Route

    before, after = STREAMS
    assets = Path(gradio.__file__).parent / "templates" / "frontend" / "assets"
    found = {path.name: path.read_bytes() for path in assets.glob("statustracker-*.js") if wanted()}
    mended = {name: script.replace(before, after) for name, script in found.items() if script.count(before) == 1}

    def serving(script: bytes) -> Any:
        return lambda request: Response(script, media_type="text/javascript")

    return [Route(f"/assets/{name}", serving(script)) for name, script in mended.items()]
