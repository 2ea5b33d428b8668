"""A bar chart of sorted ratios as SVG: figure 8 of seed 003, the bars above 1 won."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 900, 340
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 34, 28
_STYLE = """
  text { font: 12px sans-serif; fill: #57606a }
  .title { font-size: 14px; fill: #24292f }
  .grid { stroke: #d0d7de }
  .one { stroke: #24292f }
  .won { fill: #0969da }
  .lost { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #8d96a0 }
    .title { fill: #e6edf3 }
    .grid { stroke: #30363d }
    .one { stroke: #e6edf3 }
    .won { fill: #4493f8 }
    .lost { fill: #db6d28 }
  }
"""


def sorted_ratios(ratios: Sequence[tuple[str, float]], title: str) -> str:
    """One bar for each (name, ratio), the lowest first, from the line at 1 on a logarithmic axis.

    No background, and colours that follow the reader's light or dark scheme.
    """
    bars = sorted(ratios, key=lambda bar: bar[1])
    values = [1.0, *(value for _, value in bars)]
    low, high = math.floor(10 * min(values)) / 10, math.ceil(10 * max(values)) / 10
    ticks = [tick for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5) if low <= tick <= high]

    def y(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    step = (WIDTH - LEFT - RIGHT) / len(bars)
    won = sum(value >= 1 for _, value in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>',
    ]
    for tick in ticks:
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for number, (name, value) in enumerate(bars):
        top, foot = sorted((y(value), y(1)))
        parts.append(
            f'<rect class="{"won" if value >= 1 else "lost"}" x="{LEFT + number * step:.1f}" y="{top:.1f}" '
            f'width="{0.85 * step:.2f}" height="{max(foot - top, 0.5):.1f}">'
            f"<title>{escape(name)}: {value:.2f}</title></rect>"
        )
    parts.append(
        f'<text x="{LEFT}" y="{HEIGHT - 8}">layers sorted by ratio; {won} of {len(bars)} '
        f"({won / len(bars):.0%}) won</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"
