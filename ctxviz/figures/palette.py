"""One palette for every picture: Okabe-Ito for variants, cividis for fields, a light and a dark theme.

Colour never speaks alone: dashes tell the precision, marker symbols the variant. The browser's live view
gets the same values from :func:`as_json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ctxviz.settings import Variant

FONT: Final = 'ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a page: paper, panels on it, text, quieter text, grid lines, trouble, and what is chosen.

    None of them is a colour of a variant, so a finished figure can be given the other theme colour by colour.
    """

    name: str
    background: str
    panel: str
    ink: str
    soft: str
    line: str
    alarm: str
    accent: str


LIGHT: Final = Theme("light", "#fcfcfa", "#f3f3ef", "#1b1e23", "#626a73", "#dcdcd5", "#B84F00", "#00679F")
DARK: Final = Theme("dark", "#14161a", "#1c1f25", "#eceef0", "#a2a9b2", "#31353c", "#F08A4B", "#74C2F2")
THEMES: Final = {theme.name: theme for theme in (LIGHT, DARK)}

HIGH_PRECISION: Final = ("float64", "float32")
RULE_COLOURS: Final = {"direct": "#0072B2", "stable": "#009E73", "floored": "#CC79A7", "rescaled": "#56B4E9"}
LOW_PRECISION_COLOURS: Final = RULE_COLOURS | {"direct": "#E69F00", "stable": "#D55E00"}
"""Okabe-Ito has no further hue that is readable on both themes; the dash and the symbol tell the rest."""

DASHES: Final = {"float64": "solid", "float32": "solid", "bfloat16": "6px,4px", "float16": "10px,3px,2px,3px"}
NOISE_DASH: Final = "1px,3px"
UNPATCHED_DASH: Final = "2px,6px"
FLOOR_STYLES: Final = {
    "float64": ("1px,2px", 1.6),
    "float32": (NOISE_DASH, 2.0),
    "bfloat16": ("3px,6px", 3.6),
    "float16": ("3px,11px", 3.6),
}
"""Dash and width in px of a dtype's noise floor: all dotted, finely where the dtype is fine."""
UNPATCHED_STYLES: Final = {
    "float64": (UNPATCHED_DASH, 1.6),
    "float32": (UNPATCHED_DASH, 2.0),
    "bfloat16": ("10px,8px", 2.0),
    "float16": ("16px,10px", 2.0),
}
"""The same of the unpatched model."""
SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "pentagon",
    "star",
    "hexagon",
)

CIVIDIS: Final = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
    "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """How one variant is drawn: a hex colour, a dash (``solid`` or lengths in px), a plotly marker symbol."""

    color: str
    dash: str
    symbol: str


def variant_style(variant: Variant, index: int) -> Style:
    """The style of a run's variant number ``index``; the factored arithmetic has hollow symbols."""
    colours = RULE_COLOURS if variant.dtype in HIGH_PRECISION else LOW_PRECISION_COLOURS
    hollow = "-open" if variant.arithmetic == "factored" else ""
    return Style(colours[variant.update], DASHES[variant.dtype], SYMBOLS[index % len(SYMBOLS)] + hollow)


def label(variant: Variant, among: Sequence[Variant]) -> str:
    """The shortest words that tell ``variant`` from the others, e.g. ``stable float32``."""
    full = variant.label
    if len({v.arithmetic for v in among}) == 1:
        full = full.removesuffix(f" {variant.arithmetic}")
    return full


def as_json(variants: Sequence[Variant] = ()) -> dict[str, Any]:
    """Themes, the field's colours, reference dashes, and each variant's label and style, for a browser."""
    return {
        "font": FONT,
        "themes": {name: asdict(theme) for name, theme in THEMES.items()},
        "cividis": list(CIVIDIS),
        "noise_dash": NOISE_DASH,
        "unpatched_dash": UNPATCHED_DASH,
        "floor_styles": {dtype: list(style) for dtype, style in FLOOR_STYLES.items()},
        "unpatched_styles": {dtype: list(style) for dtype, style in UNPATCHED_STYLES.items()},
        "variants": [
            {
                "label": label(v, variants),
                "slug": v.slug,
                "written": v.arithmetic == "written",
                **asdict(variant_style(v, i)),
            }
            for i, v in enumerate(variants)
        ],
    }
