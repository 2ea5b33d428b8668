"""The graph of a large model in the dashboard: a model to draw, and how smoothly its map moves."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from bench.graph import Graph

if TYPE_CHECKING:
    from onnx import ModelProto
    from playwright.sync_api import Page

A_BLOCK = 4
FRAMES = """() => {
    const at = [];
    const seen = now => { at.push(now); window.going = requestAnimationFrame(seen); };
    window.going = requestAnimationFrame(seen);
    window.frames_at = at;
}"""
STOP = """() => {
    cancelAnimationFrame(window.going);
    return window.frames_at.slice(1).map((each, at) => each - window.frames_at[at]);
}"""
STEPS = 120


def deep(layers: int) -> ModelProto:
    """A model of so many distinct convolutions, rounded up to whole blocks of four, of float32 on 4x4 pixels.

    Each block has two branches that are joined, and a shortcut around its last layer.
    """
    graph, data = Graph(shape=(1, A_BLOCK, 4, 4)), "input"
    for width in range(A_BLOCK + 1, A_BLOCK + 1 + -(-layers // A_BLOCK)):
        joined = graph.concat([graph.conv(data, width, 1), graph.conv(data, width + 1, 1)])
        short = graph.conv(joined, width, 1)
        data = graph.node("Add", [short, graph.conv(short, width, 1)])
    return graph.model(data, "deep", 0, shape=None)


def moves(page: Page) -> dict[str, Any]:
    """Milliseconds between frames while the map on ``page`` is moved; 16.7 is the pace of a screen.

    Raises SystemExit when it does not move.
    """
    view = page.get_by_role("group", name="Map of the model")
    view.scroll_into_view_if_needed()
    drawn, box = view.locator("svg > g").first, view.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag() -> None:
        page.mouse.move(x, y)
        page.mouse.down()
        for at in range(STEPS):
            page.mouse.move(x + 3 * (at % 30), y + at)
        page.mouse.up()

    def zoom() -> None:
        page.mouse.move(x, y)
        page.keyboard.down("Control")
        for at in range(STEPS):
            page.mouse.wheel(0, -30 if at % 3 else 20)  # in, by and by
        page.keyboard.up("Control")

    found = {}
    for name, act in (("dragged as a whole", drag), ("zoomed", zoom), ("dragged near", drag)):
        before = drawn.get_attribute("transform")
        page.evaluate(FRAMES)
        act()
        frames = sorted(page.evaluate(STOP))
        if drawn.get_attribute("transform") == before:
            raise SystemExit(f"bench.dashboard: the map was not {name}")
        found[name] = {
            "frames": len(frames),
            "median_ms": statistics.median(frames),
            "worst_twentieth_ms": frames[int(0.95 * len(frames))],
            "longest_ms": frames[-1],
        }
    return found
