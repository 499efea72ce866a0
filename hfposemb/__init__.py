"""Read, measure and compare the token and position embedding tables of pretrained models."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from typing, whose import takes longer than all of this module
if TYPE_CHECKING:
    from typing import Any

    from .analysis.nearest_rows import neighbours as neighbours
    from .analysis.projection import Projection as Projection
    from .analysis.projection import UMAPParameters as UMAPParameters
    from .analysis.projection import project as project
    from .analysis.similarity_matrix import similarity as similarity
    from .comparison.results import Comparison as Comparison
    from .comparison.side_by_side import compare as compare
    from .errors import HfposembError as HfposembError
    from .models.extraction import extract as extract
    from .surveys.source_figures import survey as survey
    from .surveys.training_run import trajectory as trajectory
    from .tables.closed_forms import sinusoidal as sinusoidal
    from .tables.embeddings import Embeddings as Embeddings
    from .tables.embeddings import from_arrays as from_arrays
    from .tables.table import EmbeddingTable as EmbeddingTable

_HOME = {
    "extract": "models.extraction",
    "similarity": "analysis.similarity_matrix",
    "Comparison": "comparison.results",
    "Embeddings": "tables.embeddings",
    "EmbeddingTable": "tables.table",
    "HfposembError": "errors",
    "Projection": "analysis.projection",
    "UMAPParameters": "analysis.projection",
    "compare": "comparison.side_by_side",
    "from_arrays": "tables.embeddings",
    "neighbours": "analysis.nearest_rows",
    "project": "analysis.projection",
    "sinusoidal": "tables.closed_forms",
    "survey": "surveys.source_figures",
    "trajectory": "surveys.training_run",
}
"""Module of each public name. Names are imported on first use, so that ``import hfposemb`` is fast."""

__version__ = "0.1.0"
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
