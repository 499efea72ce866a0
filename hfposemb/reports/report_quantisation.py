"""The report's section on sources that are one model in full precision and quantised."""

from __future__ import annotations

from collections.abc import Sequence

from ..comparison.quantisation import QuantisationDamage
from ..figures import style
from ..figures.quantisation_errors import quantisation_errors
from . import html_tables
from .report_page import Page

ABOUT = (
    "Relative error of a token: distance of its quantised vector from the original one, divided by the original's norm."
)


def add_quantisation(page: Page, quantisation: Sequence[QuantisationDamage]) -> None:
    """Draw the errors of the tokens for every model that is there in both forms, and list the largest."""
    page.add("Quantisation", ABOUT if quantisation else "", "".join(_pair(page, one) for one in quantisation))


def _pair(page: Page, found: QuantisationDamage) -> str:
    place = [source.name for source in page.sources].index(found.quantised)
    stored = " against ".join(found.stored)
    panel = page.panel(
        f"quantisation-{page.sources[place].name}",
        html_tables.damage(found),
        (quantisation_errors(found, style=style.source_style(place)), ""),
        subtitle=f"{stored}, {len(found.labels):,} tokens",
        foot="; ".join(found.notes),
        **page.owner(place),
    )
    return page.row([panel]) + html_tables.errors_table(found, page.named)
