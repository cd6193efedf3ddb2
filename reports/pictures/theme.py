"""Defines the colours of a report, and adapts matplotlib figures to the page's style.

The page has a light and a dark set of CSS variables. A figure is drawn with placeholder colours, which are never
shown, and each placeholder in the SVG is replaced by the variable that it stands for, so that one picture serves
both sets and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

INK = "#00a001"
MUTED = "#00a002"
RULE = "#00a003"
PAPER = "#00a004"
OK = "#00a005"
READ = "#00a006"
FAIL = "#00a007"
INFO = "#00a008"
VIOLATION = "#00a009"
ALLOWED = "#00a00a"
PROCESS = "#00a00b"
NETWORK = "#00a00c"
STORAGE = "#00a00d"
OTHER = "#00a00e"
ON_FILL = "#00a00f"

VARIABLES: Mapping[str, str] = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    PAPER: "--paper",
    OK: "--ok",
    READ: "--read",
    FAIL: "--fail",
    INFO: "--info",
    VIOLATION: "--violation",
    ALLOWED: "--allowed",
    PROCESS: "--process",
    NETWORK: "--network",
    STORAGE: "--storage",
    OTHER: "--other",
    ON_FILL: "--on-fill",
}
"""Placeholder → CSS variable of `templates/style.css`."""

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("storage", ("page-cache", "disk", "fsync", "flip", "truncat", "rollback")),
    (
        "network",
        ("isolate", "halves", "one-way", "partition", "ring", "bridge", "network", "delay", "bandwidth"),
    ),
    ("process", ("kill", "pause", "restart", "stop", "crash", "upgrade")),
)


def fault_family(kind: str | None) -> str:
    """Return "process", "network", "storage" or "other": what a fault of this kind is aimed at."""
    for family, words in _FAMILIES:
        if any(word in (kind or "") for word in words):
            return family
    return "other"


def adopt(svg: str, prefix: str, label: str) -> str:
    """Make an SVG file of matplotlib fit to stand inside the page.

    Its ids get a prefix, its placeholders become CSS variables, its fixed size becomes the width of its container,
    and whatever refers to other documents (the DTD, the XML namespaces) goes. `label` is its text alternative.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    for placeholder, variable in VARIABLES.items():
        svg = svg.replace(placeholder, f"var({variable})")
    # The font belongs to the page; sizes stay as they were laid out.
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
