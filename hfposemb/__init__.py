"""See and measure what a pretrained model knows about words and positions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Two public functions are named as their modules are. Importing a module for the first time binds its name here, so
# these two are bound now, to the functions, and for good. Neither loads more than numpy.
from .extract import extract
from .similarity import similarity

if TYPE_CHECKING:
    from .builtin import sinusoidal as sinusoidal
    from .comparison import Comparison as Comparison
    from .comparison import compare as compare
    from .embeddings import Embeddings as Embeddings
    from .embeddings import from_arrays as from_arrays
    from .errors import HfposembError as HfposembError
    from .projection import Projection as Projection
    from .projection import UMAPParameters as UMAPParameters
    from .projection import project as project
    from .similarity import neighbours as neighbours
    from .table import EmbeddingTable as EmbeddingTable

_HOME = {
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
}
"""The module of each public name. They load on first use, so that ``import hfposemb`` stays light."""

__version__ = "0.1.0"
__all__ = ["__version__", "extract", "similarity", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hfposemb' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
