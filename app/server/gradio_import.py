"""Import of Gradio without the stub files that only authors of components need. This module imports nothing heavy.

For each of its 80 components Gradio parses the component's source twice, renders a ``.pyi`` file and compares it with
the one that is installed: two fifths of the time that ``import gradio`` takes. No setting turns this off.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from hfposemb.errors import require

from .collector import uncollected

MODULE, WRITER = "gradio.component_meta", "create_or_modify_pyi"
"""The module whose function writes the stub of a component, and that function."""


def import_gradio() -> None:
    """Import Gradio without writing stubs; later classes of components get theirs as usual.

    Raises:
        MissingExtraError: Gradio is not installed.
    """
    require("gradio", extra="app", purpose="the app")
    if "gradio" in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        with uncollected():
            import gradio  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
        finder.restore()


class _Finder:
    """Finds only ``MODULE``, whose ``WRITER`` does nothing until ``restore`` is called."""

    def __init__(self) -> None:
        self._loader: _Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's usual spec with another loader, ``None`` for every other module."""
        spec = PathFinder.find_spec(name, path, target) if name == MODULE else None
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = self._loader = _Loader(spec.loader.name, spec.loader.path)
        return spec

    def restore(self) -> None:
        """Put Gradio's function back."""
        if self._loader is not None:
            self._loader.restore()


class _Loader(SourceFileLoader):
    """Replaces ``WRITER`` once the module has been loaded, if the module has it."""

    module: ModuleType | None = None
    writer: Any = None

    def exec_module(self, module: ModuleType) -> None:
        """Load the module."""
        super().exec_module(module)
        self.module, self.writer = module, getattr(module, WRITER, None)
        if self.writer is not None:
            setattr(module, WRITER, _nothing)

    def restore(self) -> None:
        """Put the function back."""
        if self.module is not None and self.writer is not None:
            setattr(self.module, WRITER, self.writer)


def _nothing(*_: object) -> None:
    """Write no stub."""
