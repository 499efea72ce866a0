"""Appearance of the page: Gradio's theme variables, and CSS for what they do not cover."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from hfposemb.figures.palette import PALETTE

from .browser_storage import STORE_JS

FONT = ["-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
CSS_PATH = Path(__file__).with_name("theme.css")

LOGO = (
    '<svg class="logo" viewBox="0 0 20 18" width="20" height="18" aria-hidden="true" fill="none" stroke-width="2" '
    'stroke-linecap="round">' + "".join(f'<path d="M1 {y} q4.5 -3.6 9 0 t9 0"/>' for y in (4, 9, 14)) + "</svg>"
)

_HEADER_JS = (
    STORE_JS
    + """
for (const select of element.querySelectorAll("select")) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choices = [...select.options].map((option) => option.value);
  const show = () => {
    const dark = select.value === "dark" || (select.value === "system" && system.matches);
    document.body.classList.toggle("dark", dark);
  };
  const asked = new URLSearchParams(location.search).get("__theme");  // which Gradio has followed already
  select.value = [stored().theme, asked].find((theme) => choices.includes(theme)) ?? "system";
  show();
  system.addEventListener("change", show);
  select.addEventListener("change", () => { store({ theme: select.value }); show(); });
}
for (const button of element.querySelectorAll("button")) {
  button.addEventListener("click", async () => {
    if (button.dataset.action === "Copy link") {
      await navigator.clipboard.writeText(window.location.href);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy link"; }, 1500);
    } else {
      trigger("select", { action: button.dataset.action });
    }
  });
}
"""
)


_THEMES = (
    '<select aria-label="Theme"><option value="system">System theme</option><option value="light">Light</option>'
    '<option value="dark">Dark</option></select>'
)


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
        **_both("body_background_fill", "page"),
        **_both("block_background_fill", "panel"),
        **_both("background_fill_primary", "panel"),
        **_both("panel_background_fill", "panel"),
        **_both("background_fill_secondary", "field"),
        **_both("input_background_fill", "field"),
        **_both("input_background_fill_hover", "field"),
        **_both("input_background_fill_focus", "field"),
        **_both("button_secondary_background_fill", "field"),
        **_both("button_secondary_background_fill_hover", "faint"),
        **_both("button_secondary_text_color", "ink"),
        **_both("checkbox_label_background_fill", "field"),
        **_both("checkbox_label_background_fill_hover", "field"),
        **_both("checkbox_label_background_fill_selected", "panel"),
        **_both("checkbox_label_text_color", "subdued"),
        **_both("checkbox_label_text_color_selected", "ink"),
        **_both("checkbox_background_color", "panel"),
        **_both("checkbox_background_color_selected", "accent"),
        **_both("checkbox_border_color", "subdued"),
        **_both("checkbox_border_color_selected", "accent"),
        **_both("table_even_background_fill", "panel"),
        **_both("table_odd_background_fill", "panel"),
        **_both("table_row_focus", "accent_soft"),
        **_both("color_accent_soft", "accent_soft"),
        **_both("border_color_primary", "faint"),
        **_both("table_border_color", "faint"),
        **_both("body_text_color", "ink"),
        **_both("body_text_color_subdued", "subdued"),
        **_both("block_info_text_color", "subdued"),
        **_both("block_title_text_color", "subdued"),
        **_both("block_label_text_color", "subdued"),
        **_both("input_placeholder_color", "subdued"),
        **_both("table_text_color", "ink"),
        **_both("accordion_text_color", "ink"),
        **_both("input_border_color_focus", "accent"),
        **_both("border_color_accent", "accent"),
        **_both("slider_color", "accent"),
        **_both("loader_color", "accent"),
        **_both("link_text_color", "accent_text"),
        **_both("link_text_color_hover", "accent_text"),
        **_both("link_text_color_active", "accent_text"),
        **_both("link_text_color_visited", "accent_text"),
        **_both("button_primary_background_fill", "accent"),
        **_both("button_primary_background_fill_hover", "accent"),
        color_accent=PALETTE["accent"].light,
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        **{
            f"{name}{mode}": "0px"
            for mode in ("", "_dark")
            for name in (
                "block_border_width",
                "input_border_width",
                "panel_border_width",
                "block_label_border_width",
                "button_border_width",
                "checkbox_label_border_width",
            )
        },
        input_shadow_focus=f"0 0 0 2px {PALETTE['accent'].light}",
        input_shadow_focus_dark=f"0 0 0 2px {PALETTE['accent'].dark}",
        block_shadow="0 1px 2px rgba(20,28,38,.05)",
        block_shadow_dark="none",
        checkbox_label_shadow="none",
        block_radius="12px",
        container_radius="12px",
        input_radius="8px",
        button_large_radius="8px",
        button_medium_radius="8px",
        button_small_radius="8px",
        block_padding="24px",
        layout_gap="24px",
        form_gap_width="0px",
        input_padding="10px 12px",
        block_title_text_size="13px",
        block_title_text_weight="400",
        block_info_text_size="13px",
        button_large_text_size="15px",
        button_large_text_weight="650",
        button_medium_text_weight="600",
        section_header_text_weight="650",
        prose_header_text_weight="650",
        checkbox_label_text_size="15px",
        checkbox_label_padding="8px 14px",
        checkbox_label_gap="4px",
    )


def css() -> str:
    """Return the page's CSS, which is passed to ``launch`` along with the theme."""
    return CSS_PATH.read_text(encoding="utf-8")


def header(*actions: str) -> gr.HTML:
    """Create the page header with the name and some actions.

    "Copy link" and "Theme", a choice that the browser remembers, work in the browser; any other action is sent to
    ``.select`` as ``{"action": name}``.
    """
    buttons = "".join(
        _THEMES if action == "Theme" else f'<button type="button" data-action="{action}">{action}</button>'
        for action in actions
    )
    brand = f'<span class="brand">{LOGO}hfposemb</span>'
    return gr.HTML(
        html_template=f'<header>{brand}<nav aria-label="Page">{buttons}</nav></header>',
        js_on_load=_HEADER_JS,
        apply_default_css=False,
        elem_classes="hfposemb-header",
    )


def _both(variable: str, role: str) -> dict[str, str]:
    return {variable: PALETTE[role].light, f"{variable}_dark": PALETTE[role].dark}


def _hue() -> gr.themes.Color:
    shades = ("#fdf3f7", "#fbe9f0", "#f5cddd", "#ec9fbe", "#d95c8f", PALETTE["accent"].light)
    darker = ("#a31650", "#8a1244", "#700f37", "#560b2a", "#3a071c")
    names = ("c50", "c100", "c200", "c300", "c400", "c500", "c600", "c700", "c800", "c900", "c950")
    return gr.themes.Color(name="hfposemb", **dict(zip(names, shades + darker, strict=True)))
