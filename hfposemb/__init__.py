"""Read, measure and compare the token and position embedding tables of pretrained models."""

from __future__ import annotations

_HOME = {
    "extract": "models.extraction",
    "similarity": "analysis.similarity.similarity_matrix",
    "add_positions": "composition.added_positions",
    "align_maps": "comparison.aligned_maps",
    "anchor_similarity": "composition.anchor_words",
    "centred_logits": "composition.attention_logits",
    "check": "checks.running",
    "CheckReport": "checks.check_report",
    "compare": "comparison.side_by_side",
    "compare_head": "comparison.token_against_head",
    "compare_quantised": "comparison.quantisation",
    "compare_sum_with_concatenation": "composition.sum_and_concatenation",
    "Comparison": "comparison.results",
    "Embeddings": "tables.embeddings",
    "EmbeddingTable": "tables.table",
    "EmbeddingWatch": "training.trainer_callback",
    "encoding_requirements": "analysis.positions.encoding_properties",
    "evenly_spaced": "surveys.source_lists",
    "find_moved_words": "comparison.moved_words",
    "fit_shift": "analysis.positions.shift_operator",
    "fingerprint": "comparison.row_fingerprints",
    "frequency_buildup": "analysis.positions.sinusoid_forms",
    "frequency_resolution": "analysis.positions.resolution",
    "from_arrays": "tables.embeddings",
    "helix": "analysis.positions.shift_operator",
    "HfposembError": "errors",
    "identical_word_logits": "composition.attention_logits",
    "interference": "composition.sum_and_concatenation",
    "intrinsic_dimension": "analysis.tokens.two_nn",
    "kinship": "comparison.row_kinship",
    "logit_shares": "composition.attention_logits",
    "logits_by_distance": "composition.attention_logits",
    "mean_cosine_by_distance": "figures.named_figures",
    "mixture": "composition.word_mixture",
    "model_card": "reports.card_facts",
    "moved_neighbours": "composition.amplitude_sweep",
    "neighbours": "analysis.similarity.nearest_rows",
    "norms": "analysis.rows",
    "pair_similarities": "analysis.similarity.row_pairs",
    "patch_map": "analysis.positions.patches",
    "patch_maps": "analysis.positions.patches",
    "plane_rotation": "analysis.positions.shift_curves",
    "point_trust": "analysis.projection.quality",
    "position_probes": "analysis.positions.probes",
    "PositionAddition": "composition.added_positions",
    "positive_norms": "figures.named_figures",
    "project": "analysis.projection.projecting",
    "Projection": "analysis.projection.projecting",
    "reorder_words": "composition.word_order",
    "retention_at": "composition.amplitude_sweep",
    "revisions": "surveys.source_lists",
    "row_changes": "comparison.changed_rows",
    "row_origin": "analysis.tokens.new_rows",
    "shift_by_distance": "analysis.positions.shift_curves",
    "shift_rotation": "analysis.positions.sinusoid_forms",
    "similarity_by_distance": "analysis.geometry",
    "show": "widget.showing",
    "similarity_distribution": "analysis.similarity.similarity_matrix",
    "sinusoidal": "tables.closed_forms",
    "spectrum": "analysis.geometry",
    "sum_cloud": "composition.variance_decomposition",
    "survey": "surveys.source_figures",
    "sweep_amplitude": "composition.amplitude_sweep",
    "text_coverage": "vocabularies.measured_text",
    "trajectory": "surveys.training_run",
    "translation_invariance": "analysis.geometry",
    "transplant": "comparison.transplants",
    "UMAPParameters": "analysis.projection.projecting",
    "uncertainty": "comparison.figure_intervals",
    "undertrained_tokens": "analysis.tokens.undertrained",
    "view": "figures.named_figures",
    "strength_by_period": "analysis.geometry",
    "vocabulary_difference": "vocabularies.comparing",
    "VocabularyDifference": "vocabularies.comparing",
    "word_plane": "analysis.tokens.word_sets",
    "write_table": "tables.saved.writing",
}
"""Module of each public name. Names are imported on first use, so that ``import hfposemb`` is fast.

Type checkers and editors read ``__init__.pyi`` instead, which imports all of them.
"""

_ALIASES = {"neighbors": "neighbours", "from_pretrained": "extract", "load": "extract"}
"""What most libraries call a public name."""

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    import sys
    from importlib import import_module
    from types import FunctionType

    from .guesses import answering, unknown_attribute

    ours = _ALIASES.get(name, name)
    if ours not in _HOME:
        this = sys.modules[__name__]
        raise unknown_attribute(this, name, __all__, what="module 'hfposemb'", table="model.token", source="model")
    value = getattr(import_module(f".{_HOME[ours]}", __name__), ours)
    if isinstance(value, FunctionType):
        value = answering(value, __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
