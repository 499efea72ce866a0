"""Linked maps and matrices of sources in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..analysis.projection.methods import method_named
from ..errors import InputError, MissingExtraError
from ..guesses import several
from ..progress import Report, shown
from .panels import DEEP, WORDS, Options, position_rows, token_maps, token_matrices
from .selection import Role
from .shown_sources import Shown, selectable, shown_sources

if TYPE_CHECKING:
    from .notebook_view import NotebookView


def show(
    *sources: Shown,
    role: Role | None = None,
    method: Literal["pca", "umap"] = "pca",
    dims: Literal[2, 3] | None = None,
    words: Sequence[str] = WORDS,
    progress: Report | Literal[False] | None = None,
) -> NotebookView:
    """Show sources in a notebook: a map and a similarity matrix of each, linked, with the selection back in Python.

    Hovering over a position or token marks it in all maps and matrices. What is selected by a click, with the lasso or
    the box on a map, or as a range on a matrix, is the widget's ``selection``, which can be observed and set as well.

    Args:
        sources: Sources, their names or paths, single tables, or position encodings.
        role: ``"position"`` or ``"token"``; by default positions if a source has any, otherwise tokens.
        method: Method of the maps, ``"pca"`` or ``"umap"``.
        dims: Dimensions of the maps, 2 or 3; by default 3 for positions of up to three sources, otherwise 2. Lasso and
            box need 2.
        words: Tokens whose cosines are drawn until others are selected.
        progress: Callback for the fraction done, 0 to 1, and the current step; ``False`` for no progress bar.

    Returns:
        The widget, which a notebook shows where it is the last value of a cell.

    Raises:
        InputError: If there is no source, too many of them, or an argument is unknown.
        MissingExtraError: If anywidget is not installed.
        HfposembError: If a source cannot be read.

    Examples:
        >>> import hfposemb as hpe
        >>> view = hpe.show("sample:bert", "sample:gpt2", progress=False)
        >>> view.selection = range(10, 13)
        >>> view.selection["sample:gpt2"].tolist()
        [10, 11, 12]
    """
    try:
        from .notebook_view import NotebookView
    except ImportError as error:
        raise MissingExtraError("anywidget", extra="widget", purpose="show()") from error
    method = method_named(method)
    if dims not in (None, 2, 3):
        raise InputError(f"dims must be 2 or 3; got {dims!r}")
    role, opened, left_out = shown_sources([one for part in sources for one in several(part)], role)
    chosen = selectable(role, opened)
    deep = 3 if role == "position" and len(opened) <= DEEP else 2
    options = Options(method, dims or deep, tuple(several(words)))
    with shown(f"drawing {role}s", progress) as report:
        if role == "position":
            maps, matrices, figures = position_rows(opened, options, report, left_out)
        else:
            maps, drawn = token_maps(opened, chosen, options, report, left_out)
            matrices, others = token_matrices(opened, chosen, chosen.of(None), options.words)
            figures = [*drawn, *others]
    return NotebookView(opened, chosen, options, (maps, matrices), figures)
