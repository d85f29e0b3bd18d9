"""A picture of measurements by size: one line for each, as a share of what it was at the smallest size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

_WIDTH, _HEIGHT = 860, 430
_LEFT, _TOP, _RIGHT, _BOTTOM = 84, 64, 660, 360
_Y_STEP: Final = 0.2
_LABEL_PX: Final = 20
_COLOURS: Final = ("#1d4ed8", "#047857", "#b45309", "#7c3aed", "#be123c", "#0e7490")

_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-labelledby="title desc" font-family="-apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif">
  <title id="title">{title}</title>
  <desc id="desc">{desc}</desc>
  <style>
    .background {{ fill: #ffffff; }}
    .grid {{ stroke: #e2e8f0; }}
    .whole {{ stroke: #94a3b8; stroke-dasharray: 5 4; }}
    .curve {{ fill: none; stroke-width: 2; }}
    text {{ fill: #0f172a; font-size: 13px; }}
    .name {{ font-weight: 600; font-size: 15px; }}
    .small {{ fill: #475569; font-size: 12px; }}
    .right {{ text-anchor: end; }}
    .middle {{ text-anchor: middle; }}
  </style>
  <rect class="background" width="{width}" height="{height}" rx="10"/>
  <text class="name" x="{left}" y="34">{title}</text>
"""


def draw(title: str, sizes: Mapping[int, str], curves: Mapping[str, Sequence[float]]) -> str:
    """Returns the SVG. `sizes` are the events of each size with a label, ascending; a curve has a share for each."""
    top = max(1.2, math.ceil(max(_highest(curves), 1.0) / _Y_STEP) * _Y_STEP)
    desc = "; ".join(f"{name}: {', '.join(f'{share:.2f}' for share in shares)}" for name, shares in curves.items())
    parts = [
        _HEAD.format(width=_WIDTH, height=_HEIGHT, left=_LEFT, title=escape(title), desc=escape(desc)),
        *_grid(top),
        *_sizes(sizes),
        *_curves(list(sizes), curves, top),
    ]
    return "".join(parts) + "</svg>\n"


def _highest(curves: Mapping[str, Sequence[float]]) -> float:
    return max(share for shares in curves.values() for share in shares)


def _grid(top: float) -> list[str]:
    parts = []
    for step in range(round(top / _Y_STEP) + 1):
        share = step * _Y_STEP
        y = _y(share, top)
        kind = "whole" if abs(share - 1) < 1e-9 else "grid"
        parts.append(f'  <line class="{kind}" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>\n')
        parts.append(f'  <text class="small right" x="{_LEFT - 10}" y="{y + 4:.1f}">{share:.1f}</text>\n')
    return parts


def _sizes(sizes: Mapping[int, str]) -> list[str]:
    parts = []
    for n, label in sizes.items():
        x = _x(n, list(sizes))
        parts.append(f'  <line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>\n')
        for row, line in enumerate(label.split("\n")):
            parts.append(
                f'  <text class="small middle" x="{x:.1f}" y="{_BOTTOM + 20 + 16 * row}">{escape(line)}</text>\n'
            )
    return parts


def _curves(sizes: Sequence[int], curves: Mapping[str, Sequence[float]], top: float) -> list[str]:
    parts = []
    ends = sorted(curves, key=lambda name: -curves[name][-1])
    label_y = float("-inf")
    for name in ends:
        shares = curves[name]
        colour = _COLOURS[list(curves).index(name) % len(_COLOURS)]
        points = [(_x(size, sizes), _y(share, top)) for size, share in zip(sizes, shares, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'  <polyline class="curve" stroke="{colour}" points="{line}"/>\n')
        parts += [f'  <circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>\n' for x, y in points]
        label_y = max(points[-1][1] + 4, label_y + _LABEL_PX)
        text = f"{escape(name)} {shares[-1]:.2f}"
        parts.append(f'  <text style="fill: {colour}" x="{_RIGHT + 14}" y="{label_y:.1f}">{text}</text>\n')
    return parts


def _x(size: int, sizes: Sequence[int]) -> float:
    """Returns the place of a size, on a logarithmic scale."""
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    return _LEFT + 40 + (_RIGHT - _LEFT - 80) * (math.log10(size) - first) / ((last - first) or 1)


def _y(share: float, top: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * share / top
