"""The curves of ``replay`` as SVG: a panel a space, a line with a band a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

Run = Sequence[float]
WIDTH, HEIGHT = 420, 260
"""Of a panel, in pixels; two lie beside each other."""
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 32, 36
LINE = 20
"""Height of a line of text."""
COLOURS = (
    ("#0969da", "#4493f8"), ("#bc4c00", "#db6d28"), ("#1a7f37", "#3fb950"), ("#8250df", "#ab7df8"),
    ("#bf3989", "#db61a2"), ("#6e7781", "#9198a1"), ("#9a6700", "#d29922"), ("#1b7c83", "#39c5cf"),
)  # fmt: skip
"""A strategy's on light and on dark; the ninth has the first one's with dashes."""


def plot(spaces: Mapping[str, tuple[float, Mapping[str, Sequence[Run]]]]) -> str:
    """Draw how fast the best config is that was found after each trial, over the best recorded one.

    ``spaces`` has for each name the best recorded seconds and each strategy's runs: the best seconds after
    each trial. A line is the median of the runs, its band the middle half of them. There is no background,
    and the colours follow the reader's light or dark scheme.
    """
    strategies = list(dict.fromkeys(name for _, runs in spaces.values() for name in runs))
    columns = min(2, len(spaces))
    rows = -(-len(spaces) // columns)
    legend = TOP + LINE * len(strategies)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {columns * WIDTH} {rows * HEIGHT + legend}">',
        f"<style>{_style(len(strategies))}</style>",
    ]
    for at, (name, (best_s, runs)) in enumerate(spaces.items()):
        panel = _panel(name, {each: _shares(best_s, runs[each]) for each in runs}, strategies)
        parts.append(f'<g transform="translate({at % columns * WIDTH} {at // columns * HEIGHT})">{panel}</g>')
    foot = rows * HEIGHT + 12
    parts.append(
        f'<text x="{LEFT}" y="{foot}">line: median of the runs; band: the middle half of them</text>'
    )
    for at, name in enumerate(strategies):
        y = foot + LINE * (at + 1)
        parts.append(f'<path class="line s{at}" d="M{LEFT} {y - 4}h28"/>')
        parts.append(f'<text x="{LEFT + 36}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _shares(best_s: float, runs: Sequence[Run]) -> np.ndarray:
    """A row a run, a column a trial, in per cent; a run that ended early stays where it was."""
    length = max(map(len, runs))
    filled = [[*run, *[run[-1]] * (length - len(run))] for run in runs]
    return np.asarray(100 * best_s / np.array(filled))


def _panel(title: str, shares: Mapping[str, np.ndarray], strategies: Sequence[str]) -> str:
    length = max(each.shape[1] for each in shares.values())
    bands = {name: np.percentile(each, (25, 50, 75), axis=0) for name, each in shares.items()}
    low = min(90.0, 10 * float(min(each.min() for each in bands.values()) // 10))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(trial: float) -> float:
        """Of the logarithm, as most happens in the first trials."""
        return LEFT + inner_width * float(np.log(trial)) / max(float(np.log(length)), 1e-9)

    def y(share: float) -> float:
        return TOP + inner_height * (100 - share) / (100 - low)

    parts = [f'<text class="title" x="{LEFT}" y="{TOP - 12}">{escape(title)}</text>']
    for share in np.linspace(low, 100, 6):
        parts.append(f'<path class="grid" d="M{LEFT} {y(share):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0f} %</text>')
    for trial in _marks(length):
        parts.append(f'<text x="{x(trial):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{trial}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">trials</text>')
    for name, (lower, middle, upper) in bands.items():
        at = strategies.index(name)

        def points(values: np.ndarray) -> list[str]:
            return [f"{x(trial):.1f} {y(value):.1f}" for trial, value in enumerate(values, 1)]

        around = [*points(upper), *reversed(points(lower))]
        parts.append(f'<path class="band s{at}" d="M{"L".join(around)}Z"/>')
        line, last = "L".join(points(middle)), f"{escape(name)}: {middle[-1]:.1f} %"
        parts.append(f'<path class="line s{at}" d="M{line}"><title>{last}</title></path>')
    return "".join(parts)


def _marks(length: int) -> list[int]:
    """The numbers of trials that are written at the axis."""
    steps = [factor * 10**power for power in range(5) for factor in (1, 2, 5)]
    return [step for step in steps if step <= length]


def _style(count: int) -> str:
    def colours(scheme: int) -> str:
        each = (f".s{at} {{ color: {COLOURS[at % len(COLOURS)][scheme]} }}" for at in range(count))
        return " ".join(each)

    dashed = "".join(f".line.s{at} {{ stroke-dasharray: 5 3 }}" for at in range(len(COLOURS), count))
    return f"""
  text {{ font: 12px sans-serif; fill: #57606a }}
  .title {{ font-size: 14px; fill: #24292f }}
  .grid {{ stroke: #d0d7de }}
  .line {{ stroke: currentColor; stroke-width: 2; fill: none }}
  .band {{ fill: currentColor; opacity: 0.18 }}
  {colours(0)} {dashed}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #8d96a0 }}
    .title {{ fill: #e6edf3 }}
    .grid {{ stroke: #30363d }}
    {colours(1)}
  }}
"""
