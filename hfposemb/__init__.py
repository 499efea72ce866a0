"""See and measure what a pretrained model knows about words and positions."""

from __future__ import annotations

from .version import __version__

TYPE_CHECKING = False  # as typing has it, whose import alone takes longer than this one and the start of the command
if TYPE_CHECKING:
    from typing import Any

    from .builtin import sinusoidal as sinusoidal
    from .comparison import Comparison as Comparison
    from .comparison import compare as compare
    from .embeddings import Embeddings as Embeddings
    from .embeddings import from_arrays as from_arrays
    from .errors import HfposembError as HfposembError
    from .extract import extract as extract
    from .projection import Projection as Projection
    from .projection import UMAPParameters as UMAPParameters
    from .projection import project as project
    from .similarity import neighbours as neighbours
    from .similarity import similarity as similarity
    from .survey import survey as survey
    from .table import EmbeddingTable as EmbeddingTable
    from .trajectory import trajectory as trajectory

_HOME = {
    "extract": "extract",
    "similarity": "similarity",
    "Comparison": "comparison",
    "Embeddings": "embeddings",
    "EmbeddingTable": "table",
    "HfposembError": "errors",
    "Projection": "projection",
    "UMAPParameters": "projection",
    "compare": "comparison",
    "from_arrays": "embeddings",
    "neighbours": "similarity",
    "project": "projection",
    "sinusoidal": "builtin",
    "survey": "survey",
    "trajectory": "trajectory",
}
"""The module of each public name. They load on first use, so that ``import hfposemb`` costs next to nothing."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hfposemb' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
