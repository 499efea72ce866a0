"""The colours of all figures: roles, sources, token classes and scales, each in a light and a dark form.

Figures are made with the light colours. To show one on a dark page, replace each colour by its partner from
``dark_map``, without making the figure again. This works because each light colour has exactly one dark partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Colour:
    """A colour on a light and on a dark page."""

    light: str
    dark: str


@dataclass(frozen=True)
class SourceStyle:
    """The style of a source in all figures: a colour and a dash, so that sources never differ by colour alone."""

    name: str
    colour: Colour
    dash: str = "solid"


@dataclass(frozen=True)
class Scale:
    """A colour scale with evenly spaced stops; light and dark stops correspond one to one."""

    light: tuple[str, ...]
    dark: tuple[str, ...]

    def stops(self) -> list[tuple[float, str]]:
        """Return the light stops as a plotly ``colorscale``: pairs of a place in 0…1 and a colour."""
        last = len(self.light) - 1
        return [(i / last, colour) for i, colour in enumerate(self.light)]


PALETTE: Mapping[str, Colour] = MappingProxyType(
    {
        "page": Colour("#f6f7f8", "#14171b"),
        "panel": Colour("#ffffff", "#1c2026"),
        "field": Colour("#f1f3f5", "#262b33"),
        "ink": Colour("#1b2027", "#e9ecf0"),
        "subdued": Colour("#586270", "#a3adb9"),
        "faint": Colour("#e4e7eb", "#2f353e"),
        "accent": Colour("#b8195a", "#d13a78"),
        # One step of blue from "accent", which is invisible: the same light value could not have its own dark value,
        # and text in the dark accent colour has too little contrast.
        "accent_text": Colour("#b8195b", "#ff8fb8"),
        "accent_soft": Colour("#fbe9f0", "#3a1f2b"),
        "baseline": Colour("#7b8592", "#8f9aa8"),
    }
)

SOURCES: tuple[SourceStyle, ...] = (
    SourceStyle("blue", Colour("#0b6aa8", "#62b4ee")),
    SourceStyle("rust", Colour("#b54d06", "#f39a4e")),
    SourceStyle("slate", Colour("#4b5663", "#c3cbd5"), dash="dash"),
    SourceStyle("green", Colour("#00805c", "#4fcfa4"), dash="dashdot"),
    SourceStyle("violet", Colour("#7a3fb3", "#bf97f2"), dash="longdash"),
    SourceStyle("olive", Colour("#7d6b00", "#d8c63e"), dash="12px,3px,3px,3px,3px,3px"),
    SourceStyle("mauve", Colour("#8a4a5e", "#e0a3b4"), dash="longdashdot"),
    SourceStyle("teal", Colour("#007a85", "#55cfdc"), dash="4px,3px"),
)

CLASSES: Mapping[str, Colour] = MappingProxyType(
    {
        "word start": Colour("#8d9bb0", "#8d9bb0"),
        "continuation": Colour("#d98200", "#e39a2b"),
        "digit": Colour("#00805c", "#4fcfa4"),
        "other script": Colour("#0b6aa8", "#62b4ee"),
        "unused": Colour("#b06a9b", "#c884b5"),
        "special": Colour("#1b2027", "#e9ecf0"),
    }
)

GROUPS: tuple[Colour, ...] = (
    *(source.colour for source in SOURCES),
    *(CLASSES[name] for name in ("continuation", "unused", "word start")),
)
"""Colours of many groups in one figure, the most frequent first."""

# Viridis, without the yellow that is invisible on white and the purple that is invisible on black.
POSITION = Scale(
    light=("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#94cc37", "#d2d21b"),
    dark=("#5a4fa0", "#5064a6", "#417aa6", "#2f92a0", "#24ab88", "#55c86f", "#a0da39", "#fde725"),
)
# Always −1…1; the middle is the colour of the panel.
SIMILARITY = Scale(
    light=("#174f8c", "#84b1d9", "#f6f6f4", "#f0b07c", "#a8460f"),
    dark=("#9ccdf8", "#3577ad", "#20252c", "#b0641f", "#ffc590"),
)
# Cividis, which is legible on both backgrounds.
SHARE = Scale(
    light=("#00224e", "#2a3f6d", "#575d6d", "#7d7c78", "#a59c74", "#d2c060", "#fee838"),
    dark=("#00224e", "#2a3f6d", "#575d6d", "#7d7c78", "#a59c74", "#d2c060", "#fee838"),
)


def dark_map() -> dict[str, str]:
    """Map each light colour (lower-case hex) to its dark partner, except colours that stay the same."""
    return {light: dark for light, dark in _pairs() if light != dark}


def _pairs() -> Iterator[tuple[str, str]]:
    for colour in (*PALETTE.values(), *(source.colour for source in SOURCES), *CLASSES.values()):
        yield colour.light, colour.dark
    for scale in (POSITION, SIMILARITY, SHARE):
        yield from zip(scale.light, scale.dark, strict=True)
