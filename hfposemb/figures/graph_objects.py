"""plotly's graph objects, imported when the first of them is used: plotly is an extra, and takes a while to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import require

__all__ = ["go", "require_plotly"]


def require_plotly(purpose: str = "a figure") -> None:
    """Raise ``MissingExtraError`` if plotly is not installed; call it before what a figure draws is computed."""
    require("plotly", extra="plot", purpose=purpose)


class _GraphObjects:
    """Stands for the module ``plotly.graph_objects``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # doctest and inspect look for these on everything in a module
            raise AttributeError(name)
        require_plotly()
        import plotly.graph_objects

        return getattr(plotly.graph_objects, name)


if TYPE_CHECKING:
    import plotly.graph_objects as go
else:
    go = _GraphObjects()
