"""Import of Gradio without what this app does not need at its start. This module imports nothing heavy.

No setting of Gradio turns these off, which take half the time of ``import gradio``:

- For each of its 80 components Gradio parses the component's source twice, renders a ``.pyi`` file and compares it with
  the one that is installed, for authors of components. It also renders a template for the docstring of every event.
- It imports pandas to hash cached values, the MCP SDK for a server of its own, and IPython for a magic.

Before each event it imports ``matplotlib.pyplot``, to draw on no screen, which takes a third of a second of the first.

All of it still works where it is used later: stubs are written for later classes, and packages imported on first use.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from hfposemb.errors import require


def import_gradio() -> None:
    """Import Gradio without stubs and the packages that it need not have yet; both come as usual afterwards.

    Raises:
        MissingExtraError: Gradio is not installed.
    """
    require("gradio", extra="app", purpose="the app")
    if "gradio" in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        import gradio  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
        finder.restore()


def keep_from_pyplot() -> None:
    """Let Gradio set the backend of ``matplotlib.pyplot`` for an event only if that is imported: the app draws without.

    Gradio must be imported.
    """
    utils: Any = import_module("gradio.utils")
    own = utils.MatplotlibBackendMananger
    if own.__module__ == __name__:
        return

    @contextmanager
    def backend() -> Iterator[None]:
        with own() if "matplotlib.pyplot" in sys.modules else nullcontext():
            yield

    utils.MatplotlibBackendMananger = backend


class _Finder:
    """Finds the modules that are to be changed, until ``restore`` changes them back."""

    def __init__(self) -> None:
        self._loaders: list[_Loader] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's usual spec with another loader, ``None`` for every other module."""
        kind = _Without if name in WITHOUT else _Patched if name in PATCHES else None
        spec = PathFinder.find_spec(name, path, target) if kind else None
        if kind and spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = loader = kind(spec.loader.name, spec.loader.path)
            self._loaders.append(loader)
        return spec

    def restore(self) -> None:
        """Put Gradio's own functions back."""
        for loader in self._loaders:
            loader.restore()


class _Loader(SourceFileLoader):
    """Loads a module that is changed until ``restore`` is called."""

    def restore(self) -> None:
        """Undo the change."""


class _Patched(_Loader):
    """Replaces a function of a module once that is loaded, if the module has it."""

    owner: Any = None
    own: Any = None

    def exec_module(self, module: ModuleType) -> None:
        """Load the module."""
        super().exec_module(module)
        path, replacement = PATCHES[self.name]
        *owners, name = path.split(".")
        owner: Any = module
        for part in owners:
            owner = getattr(owner, part, None)
        if hasattr(owner, name):
            self.owner, self.own = owner, getattr(owner, name)
            setattr(owner, name, replacement)

    def restore(self) -> None:
        """Put the function back."""
        if self.owner is not None:
            setattr(self.owner, PATCHES[self.name][0].rpartition(".")[2], self.own)


def _nothing(*_: object) -> None:
    """Write no stub."""


def _document(event: Any, component: str) -> None:
    """Write the component's name into the docstring of an event, as ``EventListener.set_doc`` does by a template."""
    if event.listener.__doc__:
        event.listener.__doc__ = event.listener.__doc__.replace("{{ component }}", component)


PATCHES: dict[str, tuple[str, Callable[..., None]]] = {
    "gradio.component_meta": ("create_or_modify_pyi", _nothing),
    "gradio.events": ("EventListener.set_doc", _document),
}
"""By module: the function that is replaced during the import, and by what."""


class _Without(_Loader):
    """Loads a module as if a package were missing, unless that has been imported before.

    ``import PACKAGE`` gives a module that imports the package when an attribute is read, ``from PACKAGE import NAME``
    fails. Only imports of this module are concerned, and only while it is loaded.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Load the module."""
        package, finish = WITHOUT[self.name]
        if package in sys.modules:
            super().exec_module(module)
            return
        loading = True

        def importing(
            name: str, names: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
        ) -> ModuleType:
            if not loading or level or name.partition(".")[0] != package:
                return builtins.__import__(name, names, local, fromlist, level)
            if fromlist or name != package:
                raise ImportError(f"{package} is not imported yet", name=package)
            return _OnFirstUse(package)

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": importing}
        try:
            super().exec_module(module)
        finally:
            loading = False
        finish(module)


class _OnFirstUse(ModuleType):
    """A module that is imported when one of its attributes is first read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def _as_it_is(_: ModuleType) -> None:
    """Change nothing."""


def _find_tools(module: ModuleType) -> None:
    """Let Gradio's own MCP server, which keeps what it imports in its class, import it on first use."""
    places = {"types": "mcp", "Server": "mcp.server", "ReadResourceContents": "mcp.server.lowlevel.helper_types"}
    places |= {"SseServerTransport": "mcp.server.sse"}
    places |= {"StreamableHTTPSessionManager": "mcp.server.streamable_http_manager"}

    def find(server: object, name: str) -> Any:
        if name not in places:
            raise AttributeError(f"{type(server).__name__!r} object has no attribute {name!r}", name=name, obj=server)
        found = import_module("mcp.types") if name == "types" else getattr(import_module(places[name]), name)
        setattr(type(server), name, found)
        return found

    module.GradioMCPServer.__getattr__ = find


WITHOUT: dict[str, tuple[str, Callable[[ModuleType], None]]] = {
    "gradio.caching": ("pandas", _as_it_is),
    "gradio.ipython_ext": ("IPython", _as_it_is),  # a magic of notebooks, where IPython is imported already
    "gradio.mcp": ("mcp", _find_tools),
}
"""By module: the package that it is loaded without, and what is done afterwards so that it finds the package."""
