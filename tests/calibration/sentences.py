"""What the sentences about tables say that app, reports and command line print, and what each was held against.

A sentence states a number of the table before the reader, with what stands beside it (then another computation of that
number refutes it), or says that something is more than chance: then ``test`` names the test that counts how often it
says so of made tables in which there is nothing to find. ``PLAIN`` are sentences about files, settings and runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Rule(NamedTuple):
    """What a sentence may say: the number that it states, what it stands beside, and the test of its rate if any."""

    states: str
    beside: str
    test: str = ""


ON_PAIRS = "tests/calibration/test_rates.py::test_independent_tables_are_rarely_called_alike"
ON_KIN = "tests/kinship/test_kinship.py::test_independent_models_of_one_tokenizer_are_not_kin"
ON_MERGES = "tests/kinship/test_merges.py::test_verdicts_are_right"
ON_TITLES = "tests/calibration/test_sentences.py::test_titles_say_little_of_noise"
SURE = "tests/checks/test_sound.py::test_models_of_transformers_have_nothing_wrong"

RULES: dict[str, dict[str, Rule]] = {
    "app/findings/compare/comparison.py": {
        "pair_title": Rule("CKA of the chosen pair, and whether above chance", "the pair's null, by Holm", ON_PAIRS),
        "moved_title": Rule("distance of a word after alignment, neighbours kept", "list of all words"),
    },
    "app/findings/compare/pair_questions.py": {
        "answer": Rule(
            "verdict on two vocabularies, rows or a merge of both", "the null of independent axes", ON_MERGES
        ),
    },
    "app/findings/compare/quantisation.py": {
        "quantisation_panels": Rule("relative errors of all tokens", "the original"),
    },
    "app/findings/positions/image_patches.py": {
        "patch_finding": Rule("shares of the variance by row and column", "shuffled patches"),
    },
    "app/findings/positions/logits.py": {
        "share_title": Rule("shares of the logits' variance of each product", "each other"),
        "map_panel": Rule("the largest logit", "the mean of its query"),
        "identical_title": Rule(
            "most attention to a distance that stands out",
            "the largest of all distances with positions in random order",
            "tests/composition/test_logits.py::test_positions_in_random_order_seldom_prefer_a_distance",
        ),
        "distance_title": Rule("change of the logit between two distances", "the other sources"),
    },
    "app/findings/positions/position_clouds.py": {
        "kernel_finding": Rule("distance at which the kernel falls below .5", "nothing: a closed form"),
    },
    "app/findings/positions/position_lines.py": {
        "wavelength_title": Rule("pairs that rotate less than once in the trained length", "all pairs"),
    },
    "app/findings/positions/probing.py": {
        "finding": Rule("mean error of a decoded position on held-out positions", "the guess without a table"),
    },
    "app/findings/positions/properties.py": {
        "_title": Rule("requirements that are met, of those that apply", "a threshold for each, which is shown"),
    },
    "app/findings/positions/rotary_scaling.py": {
        "kernel_title": Rule("pairs that reach angles they were not trained on", "no scaling"),
        "agreement_title": Rule("cosine of scaled and plain, or the least sum of cosines", "nothing: a closed form"),
    },
    "app/findings/positions/sinusoid_claims.py": {
        "buildup_title": Rule("positions nearest to a neighbour, by number of pairs", "nothing: a closed form"),
        "rotation_title": Rule("angle by which a shift turns the first pair", "nothing: a closed form"),
    },
    "app/findings/positions/shifts.py": {
        "curve_title": Rule("share of a shift that a fitted map explains, held out", "the mean; the closed form"),
        "plane_panel": Rule("planes that turn by the expected angle", "all planes"),
    },
    "app/findings/start/shapes.py": {
        "headline": Rule("shape of each table, as `finding`", "the sinusoid's shape", ON_TITLES),
    },
    "app/findings/tokens/token_head.py": {
        "_panel": Rule("whether the head is the token table", "the files"),
        "_title": Rule(
            "CKA of head and token table, and whether it is above chance",
            "tokens in random order",
            "tests/comparison/test_head.py::test_independent_tables_are_beyond_chance_as_rarely_as_the_level_says",
        ),
    },
    "app/findings/tokens/token_map.py": {
        "_map_title": Rule("variance that two components hold, or names of separate clusters", "the map itself"),
        "_map_subtitle": Rule("number of tokens drawn", "the vocabulary"),
        "trust_title": Rule("tokens whose nearest neighbours are elsewhere", "all tokens"),
    },
    "app/findings/tokens/token_neighbours.py": {
        "_word_title": Rule("nearest token and its cosine, or neighbours in common", "the other sources"),
        "spread_panels": Rule("cosine of the mean and of the nearest token", "all tokens"),
    },
    "app/findings/tokens/token_search.py": {"match_panels": Rule("tokens that match", "the vocabulary")},
    "app/findings/tokens/undertrained.py": {
        "_title": Rule("tokens that look untrained", "a threshold of sound checkpoints", SURE),
    },
    "app/findings/tokens/word_pairs.py": {"_pair_words": Rule("percentile of a pair's cosine", "random pairs")},
    "app/findings/words/sum_amplitude.py": {
        "finding_panel": Rule("nearest neighbours kept", "random vectors of the same norms"),
        "survival_panel": Rule("nearest neighbours kept by amplitude", "chance; other positions"),
        "half_title": Rule("the largest amplitude that keeps half of the neighbours", "other positions"),
        "lists_panel": Rule("neighbours that a word keeps", "its ten"),
        "mixture_panel": Rule("weights of other words, alone and with positions", "random vectors; other positions"),
        "anchor_title": Rule("the nearest of chosen words, by mean cosine", "random words"),
        "recovery_title": Rule("shares of words and positions decoded from the sum", "chance; concatenation"),
        "map_panel": Rule("neighbours kept at position 0 and elsewhere", "each other"),
    },
    "app/findings/words/sum_claims.py": {
        "concatenation_title": Rule("shares decoded from the sum", "positions turned at random; concatenation"),
        "interference_title": Rule("mean |cos| of words and positions", "random directions of that width"),
        "window_title": Rule("sizes at which both parts are decoded, and the model's own", "the other sources"),
        "cloud_panel": Rule("shares of the inputs' variance", "each other"),
        "variance_panel": Rule("the amplitude at which shares cross", "shuffled inputs"),
    },
    "app/findings/training_run.py": {
        "map_title": Rule("difference of two aligned maps", "the last checkpoint"),
        "matrix_title": Rule("mean cosine of neighbouring positions", "the other checkpoints"),
        "course_title": Rule("first and last value of a figure", "each other"),
        "alike_title": Rule("step at which CKA with the last checkpoint reaches .5 and .9", "the last checkpoint"),
    },
    "hfposemb/analysis/tokens/new_rows.py": {
        "sentence": Rule(
            "how new rows were made",
            "rows trained like the others",
            "tests/calibration/test_row_origins.py::test_ordinary_rows_are_rarely_called_made",
        ),
    },
    "hfposemb/comparison/aligned_maps.py": {"sentence": Rule("difference of aligned maps", "rows in random order")},
    "hfposemb/reports/html_tables.py": {
        "finding": Rule("the number in which sources are furthest apart", "all numbers from −1 to 1"),
        "verdict": Rule("CKA, and whether it is above chance", "the null of the pair, by Holm", ON_PAIRS),
    },
    "hfposemb/reports/position_findings.py": {
        "heading": Rule("share of similarity that distance explains", "the other sources"),
        "finding": Rule("no order, a helix, a smooth curve, breaks: by the cosines shown", "thresholds", ON_TITLES),
        "shapes": Rule("shape of each table, as `finding`", "the sinusoid's shape", ON_TITLES),
        "winding": Rule("turns of a helix", "random walks", ON_TITLES),
        "wave_title": Rule("the strongest period, a slow trend or none", "noise", ON_TITLES),
        "distance_title": Rule("sign of the mean similarity by distance", "0"),
        "norm_title": Rule("a norm beside the median norm", "the other positions", ON_TITLES),
        "variance_title": Rule("variance that three components hold", "the other sources"),
        "widest_title": Rule("the widest dimension", "all dimensions"),
    },
    "hfposemb/reports/report.py": {
        "_add_origins": Rule("verdicts on rows and on a merge", "the null of independent axes", ON_MERGES),
    },
    "hfposemb/reports/report_sections.py": {"_maps_row": Rule("difference of aligned maps", "rows in random order")},
}
"""The rule of each sentence about a table, by file and function."""

PLAIN: dict[str, set[str]] = {
    "app/findings/start/file_checks.py": {"heading", "_finding"},
    "app/findings/tokens/token_head.py": {"_sentence"},
    "app/server/reach.py": {"sentence"},
    "hfposemb/checkpoints/tokenizers/worker.py": {"verdict"},
    "hfposemb/cli/measuring.py": {"run_trajectory", "run_atlas"},
    "hfposemb/guesses.py": {"_answer"},
    "hfposemb/models/lookups/names.py": {"title"},
    "hfposemb/models/lookups/rules.py": {"_sentence"},
    "hfposemb/reports/html_tables.py": {"_row"},
    "hfposemb/reports/position_findings.py": {"sentence"},
    "hfposemb/reports/pair_cards.py": {"_answer"},
    "hfposemb/tables/tabular.py": {"_repr_html_"},
    "hfposemb/vocabularies/comparing.py": {"headline"},
}
"""Functions whose sentences are about files, settings, errors or names."""

_NAMED = re.compile(r"(title|headline|heading|verdict|finding|winding|shapes|sentence|answer)$")
_HEADED = ("title", "heading")


def written() -> Iterator[tuple[str, str]]:
    """Yield file and name of each function that returns a sentence, or makes a title of measured values."""
    for folder in ("app", "hfposemb"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            inner = {id(one) for outer in _functions(tree) for one in _functions(outer) if one is not outer}
            for one in _functions(tree):
                if id(one) not in inner and _says(one):
                    yield str(path.relative_to(ROOT)), one.name


def shown_texts() -> Iterator[tuple[str, str]]:
    """Yield file and text of every string with a space in Python and JavaScript, and every line of documentation."""
    for folder in ("app", "hfposemb", "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix == ".py":
                tree = ast.parse(path.read_text(encoding="utf-8"))
                told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
                notes = {node.value.value for node in ast.walk(tree) if _is_note(node)}  # type: ignore[attr-defined]
                texts = [text for text in told if isinstance(text, str) and " " in text and text not in notes]
            elif path.suffix == ".js" and "bundle" not in path.parts:
                texts = re.findall(r"[\"`]([^\"`\n]* [^\"`\n]*)[\"`]", path.read_text(encoding="utf-8"))
            elif path.suffix == ".md":
                texts = re.sub(r"`[^`\n]*`", "", path.read_text(encoding="utf-8")).splitlines()
            else:
                continue
            yield from ((str(path.relative_to(ROOT)), text) for text in texts)


def _is_note(node: ast.AST) -> bool:
    """Tell whether a node is a docstring, or a text that stands by itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _says(function: ast.FunctionDef) -> bool:
    if _NAMED.search(function.name) and isinstance(function.returns, ast.Name) and function.returns.id == "str":
        return True
    keywords = [node.value for node in ast.walk(function) if isinstance(node, ast.keyword) and node.arg in _HEADED]
    assigned = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id in _HEADED for to in node.targets)
    ]
    return any(isinstance(part, ast.JoinedStr) for value in (*keywords, *assigned) for part in ast.walk(value))


def table() -> Iterator[str]:
    """Yield the lines of a table of Markdown with every rule."""
    yield "\n## Sentences: what each states, and beside what\n\n"
    yield "| sentence | states | beside | rate of false alarms |\n|---|---|---|---|\n"
    for path, rules in RULES.items():
        for name, rule in rules.items():
            rate = f"`{rule.test.rpartition('::')[2]}`" if rule.test else "states a number"
            yield f"| `{Path(path).stem}.{name}` | {rule.states} | {rule.beside} | {rate} |\n"
