"""Read, measure and compare the token and position embedding tables of pretrained models."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from typing, whose import takes longer than all of this module
if TYPE_CHECKING:
    from typing import Any

    from .analysis.encoding_properties import encoding_requirements as encoding_requirements
    from .analysis.geometry import similarity_by_distance as similarity_by_distance
    from .analysis.geometry import spectrum as spectrum
    from .analysis.geometry import strength_by_period as strength_by_period
    from .analysis.geometry import translation_invariance as translation_invariance
    from .analysis.nearest_rows import neighbours as neighbours
    from .analysis.new_rows import row_origin as row_origin
    from .analysis.patches import patch_map as patch_map
    from .analysis.patches import patch_maps as patch_maps
    from .analysis.probes import position_probes as position_probes
    from .analysis.projection import Projection as Projection
    from .analysis.projection import UMAPParameters as UMAPParameters
    from .analysis.projection import project as project
    from .analysis.projection_quality import point_trust as point_trust
    from .analysis.resolution import frequency_resolution as frequency_resolution
    from .analysis.row_pairs import pair_similarities as pair_similarities
    from .analysis.rows import norms as norms
    from .analysis.shift_curves import plane_rotation as plane_rotation
    from .analysis.shift_curves import shift_by_distance as shift_by_distance
    from .analysis.shift_operator import fit_shift as fit_shift
    from .analysis.shift_operator import helix as helix
    from .analysis.similarity_matrix import similarity as similarity
    from .analysis.similarity_matrix import similarity_distribution as similarity_distribution
    from .analysis.undertrained import undertrained_tokens as undertrained_tokens
    from .checks.check_report import CheckReport as CheckReport
    from .checks.running import check as check
    from .comparison.aligned_maps import align_maps as align_maps
    from .comparison.changed_rows import row_changes as row_changes
    from .comparison.moved_words import find_moved_words as find_moved_words
    from .comparison.quantisation import compare_quantised as compare_quantised
    from .comparison.results import Comparison as Comparison
    from .comparison.side_by_side import compare as compare
    from .comparison.token_against_head import compare_head as compare_head
    from .composition.added_positions import PositionAddition as PositionAddition
    from .composition.added_positions import add_positions as add_positions
    from .composition.amplitude_sweep import moved_neighbours as moved_neighbours
    from .composition.amplitude_sweep import retention_at as retention_at
    from .composition.amplitude_sweep import sweep_amplitude as sweep_amplitude
    from .composition.anchor_words import anchor_similarity as anchor_similarity
    from .composition.attention_logits import centred_logits as centred_logits
    from .composition.attention_logits import identical_word_logits as identical_word_logits
    from .composition.attention_logits import logit_shares as logit_shares
    from .composition.attention_logits import logits_by_distance as logits_by_distance
    from .composition.variance_decomposition import sum_cloud as sum_cloud
    from .composition.word_order import reorder_words as reorder_words
    from .errors import HfposembError as HfposembError
    from .figures.named_figures import mean_cosine_by_distance as mean_cosine_by_distance
    from .figures.named_figures import positive_norms as positive_norms
    from .figures.named_figures import view as view
    from .models.extraction import extract as extract
    from .surveys.source_figures import survey as survey
    from .surveys.source_lists import evenly_spaced as evenly_spaced
    from .surveys.source_lists import revisions as revisions
    from .surveys.training_run import trajectory as trajectory
    from .tables.closed_forms import sinusoidal as sinusoidal
    from .tables.embeddings import Embeddings as Embeddings
    from .tables.embeddings import from_arrays as from_arrays
    from .tables.table import EmbeddingTable as EmbeddingTable
    from .widget.showing import show as show

_HOME = {
    "extract": "models.extraction",
    "similarity": "analysis.similarity_matrix",
    "add_positions": "composition.added_positions",
    "align_maps": "comparison.aligned_maps",
    "anchor_similarity": "composition.anchor_words",
    "centred_logits": "composition.attention_logits",
    "check": "checks.running",
    "CheckReport": "checks.check_report",
    "compare": "comparison.side_by_side",
    "compare_head": "comparison.token_against_head",
    "compare_quantised": "comparison.quantisation",
    "Comparison": "comparison.results",
    "Embeddings": "tables.embeddings",
    "EmbeddingTable": "tables.table",
    "encoding_requirements": "analysis.encoding_properties",
    "evenly_spaced": "surveys.source_lists",
    "find_moved_words": "comparison.moved_words",
    "fit_shift": "analysis.shift_operator",
    "frequency_resolution": "analysis.resolution",
    "from_arrays": "tables.embeddings",
    "helix": "analysis.shift_operator",
    "HfposembError": "errors",
    "identical_word_logits": "composition.attention_logits",
    "logit_shares": "composition.attention_logits",
    "logits_by_distance": "composition.attention_logits",
    "mean_cosine_by_distance": "figures.named_figures",
    "moved_neighbours": "composition.amplitude_sweep",
    "neighbours": "analysis.nearest_rows",
    "norms": "analysis.rows",
    "pair_similarities": "analysis.row_pairs",
    "patch_map": "analysis.patches",
    "patch_maps": "analysis.patches",
    "plane_rotation": "analysis.shift_curves",
    "point_trust": "analysis.projection_quality",
    "position_probes": "analysis.probes",
    "PositionAddition": "composition.added_positions",
    "positive_norms": "figures.named_figures",
    "project": "analysis.projection",
    "Projection": "analysis.projection",
    "reorder_words": "composition.word_order",
    "retention_at": "composition.amplitude_sweep",
    "revisions": "surveys.source_lists",
    "row_changes": "comparison.changed_rows",
    "row_origin": "analysis.new_rows",
    "shift_by_distance": "analysis.shift_curves",
    "similarity_by_distance": "analysis.geometry",
    "show": "widget.showing",
    "similarity_distribution": "analysis.similarity_matrix",
    "sinusoidal": "tables.closed_forms",
    "spectrum": "analysis.geometry",
    "sum_cloud": "composition.variance_decomposition",
    "survey": "surveys.source_figures",
    "sweep_amplitude": "composition.amplitude_sweep",
    "trajectory": "surveys.training_run",
    "translation_invariance": "analysis.geometry",
    "UMAPParameters": "analysis.projection",
    "undertrained_tokens": "analysis.undertrained",
    "view": "figures.named_figures",
    "strength_by_period": "analysis.geometry",
}
"""Module of each public name. Names are imported on first use, so that ``import hfposemb`` is fast."""

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hfposemb' has no attribute {name!r}; its attributes are {', '.join(__all__)}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
