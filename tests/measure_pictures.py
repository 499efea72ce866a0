"""Draw the pictures of docs/measures: ``python -m tests.measure_pictures NAME …``, all of them without a name.

Each shows one measure on the included models. Lines and text are of middle tones on a transparent ground, so that the
same file can be read on a light page and on a dark one. Needs matplotlib, of the extra ``docs``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import hfposemb as hpe
from hfposemb.analysis import geometry, rows
from hfposemb.analysis.nulls import local_variogram
from hfposemb.analysis.nulls.surrogates import finite_rows
from hfposemb.analysis.positions import shift_operator
from hfposemb.analysis.tokens import new_rows
from hfposemb.comparison.alignment import cka
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.composition.neighbour_retention import recovered, subspace_overlap

FOLDER = Path(__file__).parent.parent / "docs" / "pictures" / "measures"
COLOURS = {"sample:gpt2": "#3f86d8", "sample:bert": "#d9772b", "sinusoid": "#2a9d8f", "untrained": "#9a9a9a"}
GREY, BLUE, ORANGE = "#808080", "#3f86d8", "#d9772b"
DRAWINGS: dict[str, Callable[[Any], None]] = {}


def drawing(name: str, panels: int = 1, height: float = 2.4) -> Callable[[Callable[[Any], None]], Callable[[], str]]:
    """Register a function that draws into one or several axes; without its name it draws nothing."""

    def register(draw: Callable[[Any], None]) -> Callable[[], str]:
        def svg() -> str:
            import matplotlib.pyplot as plt

            style = {
                "svg.fonttype": "none",
                "svg.hashsalt": name,
                "savefig.dpi": 200,
                "font.family": "sans-serif",
                "font.size": 9,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "legend.frameon": False,
                **dict.fromkeys(
                    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY
                ),
            }
            with plt.rc_context(style):
                figure, axes = plt.subplots(1, panels, figsize=(6.2, height), layout="constrained")
                draw(axes)
                written = StringIO()
                figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
                plt.close(figure)
            text = written.getvalue()
            return "\n".join(line.rstrip() for line in text[text.index("<svg") :].splitlines()) + "\n"

        DRAWINGS[name] = svg
        return svg

    return register


@cache
def sources() -> dict[str, hpe.Embeddings]:
    """Return what most pictures show: both small models, and the sinusoid and noise of their shape."""
    return {
        "sample:gpt2": hpe.extract("sample:gpt2"),
        "sample:bert": hpe.extract("sample:bert"),
        "sinusoid": hpe.sinusoidal(256, 128),
        "untrained": hpe.extract("random:256x128"),
    }


def each() -> Iterator[tuple[str, hpe.Embeddings, str]]:
    """Yield the name, the source and the colour of each line."""
    for name, source in sources().items():
        yield name, source, COLOURS[name]


def labelled(axes: Any, x: str, y: str, *, legend: str = "beside") -> None:
    """Name the axes, and the lines, beside the axes or where they are empty."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if legend == "beside" else {"loc": legend}
    if legend:
        axes.legend(fontsize=8, handlelength=1.2, **place)


@drawing("variance")
def _variance(axes: Any) -> None:
    for name, source, colour in each():
        axes.plot(range(1, 65), 100 * geometry.spectrum(source.position).cumulative[:64], color=colour, label=name)
    for share in (90, 95, 99):
        axes.axhline(share, color=GREY, linewidth=0.6, linestyle=":")
    labelled(axes, "components", "variance (%)")


@drawing("rank")
def _rank(axes: Any) -> None:
    for name, source, colour in each():
        found = geometry.spectrum(source.position)
        axes.semilogy(range(1, 129), np.maximum(found.ratio, 1e-6), color=colour, label=name)
        axes.axvline(found.effective_rank, color=colour, linestyle="--", linewidth=0.8)
        axes.axvline(found.participation_ratio, color=colour, linestyle=":", linewidth=1.2)
    axes.set_ylim(1e-5, 1)
    labelled(axes, "component (dashed: effective rank; dotted: participation ratio)", "share of variance")


@drawing("isoscore", panels=3)
def _isoscore(axes: Any) -> None:
    drawn = np.random.default_rng(0).normal(size=(300, 2))
    for one, stretch in zip(axes, (1.0, 0.4, 0.05), strict=True):
        cloud = drawn * [1, stretch]
        one.scatter(*cloud.T, s=3, color=BLUE, rasterized=True)
        score = geometry.spectrum(hpe.from_arrays(position=cloud).position).isoscore
        one.set_title(f"IsoScore {score:.2f}", color=GREY, fontsize=9)
        one.set(xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal", xticks=[], yticks=[])


@drawing("distance")
def _distance(axes: Any) -> None:
    for name, source, colour in each():
        axes.plot(geometry.similarity_by_distance(source.position, longest=64), color=colour, label=name)
    for distance in (1, 2, 4, 8, 16):
        axes.axvline(distance, color=GREY, linewidth=0.6, linestyle=":")
    labelled(axes, "distance (positions)", "mean cosine")


@drawing("invariance", panels=3)
def _invariance(axes: Any) -> None:
    for one, name in zip(axes, ("sinusoid", "sample:gpt2", "untrained"), strict=True):
        position = sources()[name].position
        one.imshow(hpe.similarity(position)[::2, ::2], vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
        one.set_title(f"{name}: {geometry.translation_invariance(position):.2f}", color=GREY, fontsize=9)
        one.set(xticks=[], yticks=[])


@drawing("monotonicity")
def _monotonicity(axes: Any) -> None:
    for name, source, colour in each():
        share = geometry.monotonicity(source.position)
        axes.plot(hpe.similarity(source.position)[64, 64:193], color=colour, label=f"{name}: {share:.2f}")
    labelled(axes, "m (positions)", "cos(p₆₄, p₆₄₊ₘ)")


@drawing("shift")
def _shift(axes: Any) -> None:
    distances = range(1, 33)
    for name, source, colour in each():
        for split, style in (("random", "-"), ("contiguous", ":")):
            found = [shift_operator.fit_shift(source.position, k, split=split).linear for k in distances]
            axes.plot(distances, found, style, color=colour, label=name if split == "random" else None)
    axes.set_ylim(-0.6, 1.05)
    labelled(axes, "shift k (dotted: the last quarter held out)", "held-out R²")


@drawing("helix", panels=2)
def _helix(axes: Any) -> None:
    angle = np.linspace(0, 8 * np.pi, 256)
    made = np.column_stack([np.cos(angle), np.sin(angle), np.linspace(-0.5, 0.5, 256)])
    for one, name, position in zip(
        axes,
        ("a helix", "sample:gpt2"),
        (hpe.from_arrays(position=made).position, sources()["sample:gpt2"].position),
        strict=True,
    ):
        found, scores = shift_operator.helix(position), shift_operator.pca_scores(position)[1:-1]
        first, second = (number - 1 for number in found.components)
        one.plot(scores[:, first], scores[:, second], color=BLUE, linewidth=0.9)
        title = f"{name}: {found.period:.0f} positions a turn, evenness {found.even:.2f}"
        one.set_title(title, color=GREY, fontsize=8)
        one.set(xticks=[], yticks=[])


@drawing("break")
def _break(axes: Any) -> None:
    position = hpe.extract("sample:minilm").position
    axes.plot(rows.adjacent(position), color=BLUE, linewidth=0.8)
    axes.axvline(rows.breaks(position)[0].before, color=ORANGE, linestyle="--", linewidth=0.8)
    labelled(axes, "position t of sample:minilm", "cos(pₜ, pₜ₊₁)", legend="")


@drawing("norms")
def _norms(axes: Any) -> None:
    for name, colour in (("sample:minilm", "#9b5fc0"), *list(COLOURS.items())[:2]):
        axes.semilogy(hpe.norms(hpe.extract(name).position), color=colour, linewidth=0.9, label=name)
    labelled(axes, "position", "norm")


@drawing("absolute", panels=3)
def _absolute(axes: Any) -> None:
    for one, name in zip(axes, ("sinusoid", "sample:gpt2", "untrained"), strict=True):
        table = finite_rows(sources()[name].position)
        order = np.random.default_rng(0).permutation(len(table))
        for test in np.array_split(order, 5):
            fit = np.setdiff1d(order, test)
            slope = np.linalg.lstsq(np.c_[table[fit], np.ones(len(fit))], fit, rcond=1e-6)[0]
            predicted = np.c_[table[test], np.ones(len(test))] @ slope
            one.scatter(test, predicted, s=2, color=BLUE, rasterized=True)
        one.plot([0, 255], [0, 255], color=GREY, linewidth=0.6)
        one.set(ylim=(-150, 400), title=name)
        one.title.set(color=GREY, fontsize=9)
    axes[0].set_ylabel("predicted position")
    axes[1].set_xlabel("position")


@drawing("relative")
def _relative(axes: Any) -> None:
    from hfposemb.analysis.positions.probes import relative_probe

    for place, (_, source, colour) in enumerate(each()):
        plain, standardised = (
            100 * relative_probe(source.position, standardised=flag, seeds=[0]).mean for flag in (False, True)
        )
        axes.barh([place - 0.2], [plain], 0.36, color=colour)
        axes.barh([place + 0.2], [standardised], 0.36, color=colour, alpha=0.5)
    axes.axvline(50, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_yticks(range(4), list(sources()))
    axes.invert_yaxis()
    labelled(axes, "wrong answers (%); the lighter bar is standardised", "", legend="")


@drawing("extrapolation", panels=2)
def _extrapolation(axes: Any) -> None:
    for one, name in zip(axes, ("sinusoid", "sample:gpt2"), strict=True):
        table = finite_rows(sources()[name].position)
        half = len(table) // 2
        slope = np.linalg.lstsq(np.c_[table[:half], np.ones(half)], np.arange(half), rcond=1e-6)[0]
        one.scatter(
            np.arange(half, len(table)),
            (np.c_[table, np.ones(len(table))] @ slope)[half:],
            s=2,
            color=BLUE,
            rasterized=True,
        )
        one.plot([0, 255], [0, 255], color=GREY, linewidth=0.6)
        one.set_title(name, color=GREY, fontsize=9)
    labelled(axes[0], "position", "predicted from the first half", legend="")


@drawing("token-norms")
def _token_norms(axes: Any) -> None:
    for name in ("sample:gpt2", "sample:bert"):
        axes.hist(hpe.norms(sources()[name].token), 60, color=COLOURS[name], alpha=0.7, label=name)
    labelled(axes, "norm of a token", "tokens")


@drawing("anisotropy")
def _anisotropy(axes: Any) -> None:
    token = sources()["sample:bert"].token
    pairs = np.random.default_rng(0).integers(0, len(token), (2, 20_000))
    for label, table, colour in (
        ("sample:bert", token.vectors, ORANGE),
        ("the same, 0.2 added to every value", token.vectors + 0.2, "#9b5fc0"),
    ):
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        axes.hist(np.einsum("ij,ij->i", unit[pairs[0]], unit[pairs[1]]), 80, color=colour, alpha=0.7, label=label)
    labelled(axes, "cosine of two random tokens; the anisotropy is their mean", "pairs")


@drawing("intrinsic-dimension")
def _intrinsic_dimension(axes: Any) -> None:
    rng, dimensions = np.random.default_rng(0), np.arange(1, 21)
    for kind, count, colour in (("normal", 4000, BLUE), ("cube", 4000, ORANGE), ("cube", 500, "#9b5fc0")):
        drawn = {"normal": rng.standard_normal, "cube": rng.random}[kind]
        tables = [hpe.from_arrays(token=drawn((count, one))).token for one in dimensions]
        found = [hpe.intrinsic_dimension(table).value for table in tables]
        axes.plot(dimensions, found, ".-", color=colour, label=f"{kind}, {count:,} rows")
    axes.plot(dimensions, dimensions, color=GREY, lw=0.8)
    labelled(axes, "dimension of made rows", "intrinsic dimension found")


@drawing("mixture")
def _mixture(axes: Any) -> None:
    minilm, rng = hpe.extract("sample:minilm"), np.random.default_rng(0)
    words = rng.permutation(
        [row for row, label in enumerate(minilm.token.labels) if label.isalpha() and len(label) > 2]
    )
    found = [hpe.mixture(minilm, int(row)) for row in words[:60]]
    steps, null = np.arange(1, 7), [hpe.mixture(minilm, "airplane", k).null for k in range(1, 7)]
    axes.fill_between(
        steps, [one.low for one in null], [one.high for one in null], color=GREY, alpha=0.3, label="random vectors"
    )
    axes.plot(steps, np.median([one.explained for one in found], axis=0), color=BLUE, label="60 random words, median")
    axes.plot(steps, hpe.mixture(minilm, "airplane").explained, ".-", color=ORANGE, label="airplane")
    labelled(axes, "words in the mixture", "R²")


@drawing("word-plane", panels=2)
def _word_plane(axes: Any) -> None:
    for one, name in zip(axes, ("months", "days"), strict=True):
        found = hpe.word_plane(hpe.extract("sample:minilm").token, name)
        one.plot(*found.coordinates.T, ".-", color=BLUE)
        for label, place in zip(found.labels, found.coordinates, strict=True):
            one.annotate(label, place, fontsize=7, color=GREY)
        one.set_title(name, color=GREY, fontsize=9)
        one.set_aspect("equal")


@drawing("new-rows")
def _new_rows(axes: Any) -> None:
    token, rng = sources()["sample:bert"].token, np.random.default_rng(0)
    within, found = new_rows.components(token), geometry.scatter(token, single=True)
    columns, normal = new_rows.of_old_columns(token, within, 30, rng)
    for label, cloud, colour in (
        ("sets of old rows", new_rows.like_old(token, within, np.arange(30), rng), COLOURS["sample:bert"]),
        ("old covariance", new_rows.of_old_covariance(token, found, within, 30, rng), BLUE),
        ("old columns, resampled", columns, "#2a9d8f"),
        ("old columns, normal", normal, "#9b5fc0"),
    ):
        axes.scatter(*cloud.figures[:, [1, 3]].T, s=3, color=colour, label=label, rasterized=True)
    labelled(axes, "log spread of Mahalanobis lengths of 30 rows", "log weighted variance")


@drawing("token-isoscore")
def _token_isoscore(axes: Any) -> None:
    noise = hpe.from_arrays(token=np.random.default_rng(0).normal(size=(4000, 128))).token
    for label, token, colour in (
        ("sample:gpt2", sources()["sample:gpt2"].token, COLOURS["sample:gpt2"]),
        ("sample:bert", sources()["sample:bert"].token, COLOURS["sample:bert"]),
        ("noise of their shape", noise, GREY),
    ):
        found = geometry.spectrum(token)
        axes.semilogy(range(1, 129), found.ratio, color=colour, label=f"{label}: {found.isoscore:.2f}")
    labelled(axes, "component", "share of variance")


@drawing("ratio", panels=2)
def _ratio(axes: Any) -> None:
    for one, name in zip(axes, ("sample:gpt2", "sample:bert"), strict=True):
        source = sources()[name]
        for table, label, colour in ((source.token, "tokens", BLUE), (source.position, "positions", ORANGE)):
            found = hpe.norms(table)
            one.hist(found[np.isfinite(found)], 40, density=True, color=colour, alpha=0.7, label=label)
        one.set_title(name, color=GREY, fontsize=9)
        one.set_yticks([])
        labelled(one, "norm", "", legend="best")


@drawing("kept")
def _kept(axes: Any) -> None:
    for name in ("sample:gpt2", "sample:bert"):
        found = sweep_amplitude(add_positions(sources()[name], PositionAddition("own")))
        axes.plot(found.amplitudes, 100 * np.asarray(found.kept), "o-", color=COLOURS[name], markersize=3, label=name)
    axes.axvline(1, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_ylim(0, 103)
    labelled(axes, "factor on the positions; 1 is what the model adds", "neighbours kept (%)")


@drawing("recovered")
def _recovered(axes: Any) -> None:
    amplitudes = (0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)
    for name in ("sample:gpt2", "sample:bert"):
        found = [recovered(sources()[name], amplitude=one) for one in amplitudes]
        axes.plot(amplitudes, [100 * one.word for one in found], color=COLOURS[name], label=f"{name}, word")
        axes.plot(amplitudes, [100 * one.position for one in found], ":", color=COLOURS[name], label="position")
    axes.axvline(1, color=GREY, linewidth=0.6, linestyle=":")
    labelled(axes, "factor on the positions", "recovered (%)")


@drawing("overlap", panels=2)
def _overlap(axes: Any) -> None:
    for one, name in zip(axes, ("sample:gpt2", "sample:bert"), strict=True):
        found = subspace_overlap(sources()[name])
        one.hist(100 * np.array([*found.drawn, *found.uniform]), 60, color=GREY, alpha=0.6)
        one.axvline(100 * found.share, color=COLOURS[name], label="observed")
        one.axvline(100 * found.flat, color=GREY, linestyle=":", label="k / d")
        one.set_title(name, color=GREY, fontsize=9)
        one.set_yticks([])
        labelled(one, "token variance in 16 directions (%)", "", legend="best")


@drawing("head", panels=2)
def _head(axes: Any) -> None:
    token = sources()["sample:gpt2"].token.vectors
    rng = np.random.default_rng(0)
    turned = token @ np.linalg.qr(rng.normal(size=(128, 128)))[0]
    for one, noise in zip(axes, (0.05, 1.0), strict=True):
        head = turned + noise * token.std() * rng.normal(size=token.shape)
        one.scatter(
            *(np.linalg.norm(table, axis=1) for table in (token, head)), s=1, color=BLUE, alpha=0.5, rasterized=True
        )
        found = cka(token[::4].astype(float), head[::4].astype(float))
        one.set_title(f"turned, with noise × {noise:g}: CKA {found:.2f}", color=GREY, fontsize=9)
        labelled(one, "norm in the token table", "norm in the head", legend="")


@drawing("null")
def _null(axes: Any) -> None:
    table = finite_rows(hpe.extract("sample:minilm").position)
    kept = np.delete(np.arange(len(table)), rows.outlying(np.linalg.norm(table, axis=1)))
    halves = table[kept, ::2], table[kept, 1::2]
    left, right = (local_variogram.Residuals(half, kept - kept[0], seed=0) for half in halves)
    product, sums = local_variogram.compare(left, right, draws=500)
    drawn = cka(*halves) + (sums - product) / (left.size * right.size)
    axes.hist(drawn, 30, color=GREY, alpha=0.6, label="surrogates")
    axes.axvline(np.quantile(drawn, 0.95), color=GREY, linestyle=":", label="95 % of the surrogates")
    axes.axvline(cka(*halves), color=ORANGE, label="observed")
    labelled(axes, "CKA of the odd and the even columns of MiniLM's positions", "surrogates")


@drawing("cka", panels=2)
def _cka(axes: Any) -> None:
    rng = np.random.default_rng(0)
    table = np.cumsum(rng.normal(size=(64, 16)), axis=0)
    turned = table @ np.linalg.qr(rng.normal(size=(16, 16)))[0]
    for one, other, name in zip(
        axes, (turned, rng.normal(size=(64, 16))), ("a rotated copy", "independent noise"), strict=True
    ):
        kernels = [rows_ @ rows_.T for rows_ in (table - table.mean(0), other - other.mean(0))]
        above = np.triu_indices(64, 1)
        one.scatter(kernels[0][above], kernels[1][above], s=1, color=BLUE, alpha=0.5, rasterized=True)
        one.set_title(f"{name}: CKA {cka(table, other):.2f}", color=GREY, fontsize=9)
        one.set(xticks=[], yticks=[])
        labelled(one, "inner product in one table", "in the other", legend="")


@drawing("rsa")
def _rsa(axes: Any) -> None:
    left, right = (hpe.similarity(sources()[name].position) for name in ("sample:bert", "sample:gpt2"))
    above = np.triu_indices(256, 1)
    some = np.random.default_rng(0).choice(len(above[0]), 3000, replace=False)
    axes.scatter(left[above][some], right[above][some], s=1, color=BLUE, alpha=0.5, rasterized=True)
    labelled(axes, "cosine of two positions in sample:bert", "in sample:gpt2", legend="")


@drawing("procrustes", panels=2)
def _procrustes(axes: Any) -> None:
    pair = [sources()[name].position for name in ("sample:bert", "sample:gpt2")]
    usual = np.setdiff1d(np.arange(1, 255), np.concatenate([rows.outliers(one) for one in pair]))
    tables = [shift_operator.pca_scores(one)[usual, :8] for one in pair]
    left, right = (one / np.linalg.norm(one) for one in (table - table.mean(0) for table in tables))
    u, _, vt = np.linalg.svd(right.T @ left)
    for one, moved, title in zip(axes, (right, right @ (u @ vt)), ("as stored", "rotated onto it"), strict=True):
        one.plot(*left[:, :2].T, color=ORANGE, linewidth=0.9, label="sample:bert")
        one.plot(*moved[:, :2].T, color=BLUE, linewidth=0.9, label="sample:gpt2")
        one.set_title(title, color=GREY, fontsize=9)
        one.set(xticks=[], yticks=[])
    axes[0].legend(fontsize=8)


@drawing("shared")
def _shared(axes: Any) -> None:
    from hfposemb.comparison.matched_rows import shared_rows
    from hfposemb.comparison.table_side import TableSide

    left, right = sources()["sample:bert"], sources()["sample:gpt2"]
    pairs = shared_rows(left, right, "token")
    near = [TableSide(source.token.vectors[pairs[:, side]]).nearest for side, source in enumerate((left, right))]
    shared = (near[0][:, :, None] == near[1][:, None, :]).sum(axis=(1, 2))
    axes.bar(range(11), np.bincount(shared, minlength=11), color=BLUE)
    axes.set_xticks(range(11))
    title = "of a token's 10 nearest, how many are the same in sample:bert and sample:gpt2"
    labelled(axes, title, "tokens", legend="")


@drawing("moved")
def _moved(axes: Any) -> None:
    from hfposemb.comparison.matched_rows import shared_rows
    from hfposemb.comparison.moved_words import _distances

    left, right = sources()["sample:bert"], sources()["sample:gpt2"]
    pairs = shared_rows(left, right, "token")
    shuffled = np.column_stack([pairs[:, 0], np.random.default_rng(0).permutation(pairs[:, 1])])
    for label, some, colour in (("words", pairs, BLUE), ("permuted", shuffled, GREY)):
        axes.hist(_distances((left.token, right.token), some), 60, color=colour, alpha=0.7, label=label)
    labelled(axes, "relative distance of a word from itself", "words")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or DRAWINGS:
        (FOLDER / f"{name}.svg").write_text(DRAWINGS[name](), encoding="utf-8")
        print(FOLDER / f"{name}.svg")
