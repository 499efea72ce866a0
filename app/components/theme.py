"""Appearance of the page: Gradio's theme variables, and CSS for what they do not cover."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from hfposemb.figures.palette import PALETTE, SOURCES

from .page_script import on_load

FONT = ["-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
CSS_PATH = Path(__file__).with_name("theme.css")

LOGO = (
    '<svg class="logo" viewBox="0 0 20 18" width="20" height="18" aria-hidden="true" fill="none" stroke-width="2" '
    'stroke-linecap="round">' + "".join(f'<path d="M1 {y} q4.5 -3.6 9 0 t9 0"/>' for y in (4, 9, 14)) + "</svg>"
)

_THEMES = (
    '<select aria-label="Theme"><option value="system">System theme</option><option value="light">Light</option>'
    '<option value="dark">Dark</option></select>'
)


COLOURS = {
    "body_background_fill": "page",
    "block_background_fill": "panel",
    "background_fill_primary": "panel",
    "panel_background_fill": "panel",
    "background_fill_secondary": "field",
    "input_background_fill": "field",
    "input_background_fill_hover": "field",
    "input_background_fill_focus": "field",
    "button_secondary_background_fill": "field",
    "button_secondary_background_fill_hover": "faint",
    "button_secondary_text_color": "ink",
    "checkbox_label_background_fill": "field",
    "checkbox_label_background_fill_hover": "field",
    "checkbox_label_background_fill_selected": "panel",
    "checkbox_label_text_color": "subdued",
    "checkbox_label_text_color_selected": "ink",
    "checkbox_background_color": "panel",
    "checkbox_background_color_selected": "accent",
    "checkbox_border_color": "subdued",
    "checkbox_border_color_selected": "accent",
    "table_even_background_fill": "panel",
    "table_odd_background_fill": "panel",
    "table_row_focus": "accent_soft",
    "color_accent_soft": "accent_soft",
    "border_color_primary": "faint",
    "table_border_color": "faint",
    "body_text_color": "ink",
    "body_text_color_subdued": "subdued",
    "block_info_text_color": "subdued",
    "block_title_text_color": "subdued",
    "block_label_text_color": "subdued",
    "input_placeholder_color": "subdued",
    "table_text_color": "ink",
    "accordion_text_color": "ink",
    "input_border_color_focus": "accent",
    "border_color_accent": "accent",
    "slider_color": "accent",
    "loader_color": "accent",
    "link_text_color": "accent_text",
    "link_text_color_hover": "accent_text",
    "link_text_color_active": "accent_text",
    "link_text_color_visited": "accent_text",
    "button_primary_background_fill": "accent",
    "button_primary_background_fill_hover": "accent",
}
"""The name in the palette of each of the theme's colours."""

NO_BORDERS = (
    "block_border_width",
    "input_border_width",
    "panel_border_width",
    "block_label_border_width",
    "button_border_width",
    "checkbox_label_border_width",
)
"""The theme's borders, which are not drawn."""

SIZES = {
    "block_radius": "12px",
    "container_radius": "12px",
    "input_radius": "8px",
    "button_large_radius": "8px",
    "button_medium_radius": "8px",
    "button_small_radius": "8px",
    "block_padding": "24px",
    "layout_gap": "24px",
    "form_gap_width": "0px",
    "input_padding": "10px 12px",
    "block_title_text_size": "13px",
    "block_title_text_weight": "400",
    "block_info_text_size": "13px",
    "button_large_text_size": "15px",
    "button_large_text_weight": "650",
    "button_medium_text_weight": "600",
    "section_header_text_weight": "650",
    "prose_header_text_weight": "650",
    "checkbox_label_text_size": "15px",
    "checkbox_label_padding": "8px 14px",
    "checkbox_label_gap": "4px",
}
"""Radii, distances and fonts, in light and dark alike."""


def theme() -> gr.themes.Base:
    """Return the theme. It loads no fonts from other hosts."""
    look = gr.themes.Base(
        font=FONT,
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"],
        primary_hue=_hue(),
        text_size=gr.themes.sizes.Size(
            name="text_hfposemb", xxs="12px", xs="12.5px", sm="13px", md="15px", lg="15px", xl="22px", xxl="26px"
        ),
    )
    return look.set(
        **{name: PALETTE[role].light for name, role in COLOURS.items()},
        **{f"{name}_dark": PALETTE[role].dark for name, role in COLOURS.items()},
        **{f"{name}{mode}": "0px" for name in NO_BORDERS for mode in ("", "_dark")},
        **SIZES,
        color_accent=PALETTE["accent"].light,
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        input_shadow_focus=f"inset 0 0 0 2px {PALETTE['accent'].light}",
        input_shadow_focus_dark=f"inset 0 0 0 2px {PALETTE['accent'].dark}",
        block_shadow="0 1px 2px rgba(20,28,38,.05)",
        block_shadow_dark="none",
        checkbox_label_shadow="none",
    )


def css() -> str:
    """Return the page's CSS, which is passed to ``launch`` along with the theme."""
    light, dark = (
        " ".join(f"--source-{place}: {getattr(one.colour, mode)};" for place, one in enumerate(SOURCES, 1))
        for mode in ("light", "dark")
    )
    return f":root {{ {light} }}\n.dark {{ {dark} }}\n{CSS_PATH.read_text(encoding='utf-8')}"


def header(*actions: str) -> gr.HTML:
    """Create the page header with the name and some actions.

    "Copy link" and "Theme", a choice that the browser remembers, work in the browser; any other action is sent to
    ``.select`` as ``{"action": name}``.
    """
    buttons = "".join(
        _THEMES if action == "Theme" else f'<button type="button" data-action="{action}">{action}</button>'
        for action in actions
    )
    brand = f'<h1 class="brand">{LOGO}hfposemb</h1>'
    return gr.HTML(
        html_template=f'<header>{brand}<nav aria-label="Page">{buttons}</nav></header>',
        js_on_load=on_load("pageHeader"),
        apply_default_css=False,
        elem_classes="hfposemb-header",
    )


def _hue() -> gr.themes.Color:
    shades = ("#fdf3f7", "#fbe9f0", "#f5cddd", "#ec9fbe", "#d95c8f", PALETTE["accent"].light)
    darker = ("#a31650", "#8a1244", "#700f37", "#560b2a", "#3a071c")
    names = ("c50", "c100", "c200", "c300", "c400", "c500", "c600", "c700", "c800", "c900", "c950")
    return gr.themes.Color(name="hfposemb", **dict(zip(names, shades + darker, strict=True)))
