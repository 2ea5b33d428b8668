import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.layouts.solve import Link, Tensor, solve

LAYOUTS = ("nchw", "nhwc", "nchw8c")


def conversion_seconds(name, source, to):
    return random.Random(f"{name}{source}{to}").choice([0.0, 0.5, 1.0, 3.0])


def brute_force(tensors, links):
    """The least cost over all layouts written and all sets of layouts available, by trying all."""
    names = list(tensors)
    best = math.inf
    for written in itertools.product(*(tensors[name].written for name in names)):
        at = dict(zip(names, written, strict=True))
        for reads in itertools.product(*({read for read, _ in link.seconds} for link in links)):
            to = [at[link.target] if link.target else "" for link in links]
            cost = sum(
                link.seconds.get((r, w), math.inf) for link, r, w in zip(links, reads, to, strict=True)
            )
            needed = {(link.source, read) for link, read in zip(links, reads, strict=True)}
            cost += sum(conversion_seconds(n, at[n], r) for n, r in needed if r != at[n])
            best = min(best, cost)
    return best


@st.composite
def graphs(draw):
    count = draw(st.integers(2, 4))
    tensors, links = {}, []
    for number in range(count):
        readable = LAYOUTS[: draw(st.integers(1, 3))]
        written = readable[:1] if number == 0 else readable[: draw(st.integers(1, len(readable)))]
        tensors[f"t{number}"] = Tensor(written, readable)
    for _ in range(draw(st.integers(1, 5))):
        source = draw(st.integers(0, count - 2))
        target = draw(st.one_of(st.none(), st.integers(source + 1, count - 1)))
        reads = tensors[f"t{source}"].readable
        writes = [""] if target is None else tensors[f"t{target}"].written
        pairs = draw(
            st.lists(st.sampled_from(list(itertools.product(reads, writes))), min_size=1, unique=True)
        )
        seconds = {pair: draw(st.sampled_from([0.0, 1.0, 2.0, 5.0])) for pair in pairs}
        links.append(Link(f"t{source}", None if target is None else f"t{target}", seconds))
    return tensors, links


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_the_plan_is_as_cheap_as_the_cheapest_of_all(graph):
    tensors, links = graph
    best = brute_force(tensors, links)
    if math.isinf(best):
        with pytest.raises(ValueError, match="no choice of layouts"):
            solve(tensors, links, conversion_seconds)
        return
    found = solve(tensors, links, conversion_seconds)
    assert found.seconds == pytest.approx(best)
    # What it says it costs is what its choices cost.
    cost = sum(conversion_seconds(n, s.written, to) for n, s in found.states.items() for to in s.converted)
    for link, read in zip(links, found.reads, strict=True):
        assert found.states[link.source].has(read)
        cost += link.seconds[read, found.states[link.target].written if link.target else ""]
    assert cost == pytest.approx(found.seconds)


def chain_and_everything(count):
    """A tensor that reads all before it, as in a dense block: as wide as it is long."""
    free = Tensor(LAYOUTS, LAYOUTS)
    same = {(layout, layout): {"nchw": 2.0, "nhwc": 1.0, "nchw8c": 1.5}[layout] for layout in LAYOUTS}
    tensors = {f"t{number}": free for number in range(count)}
    links = [Link(f"t{a}", f"t{b}", same) for b in range(count) for a in range(b)]
    return tensors, links


def test_a_graph_that_is_too_wide_still_gets_a_plan():
    tensors, links = chain_and_everything(12)
    found = solve(tensors, links, lambda *_: 0.1, largest_table=2000)
    assert all(found.states[link.source].has(read) for link, read in zip(links, found.reads, strict=True))
    assert found.seconds <= 2.0 * len(links)  # all of it in nchw


def test_a_conversion_is_paid_once_for_all_its_readers():
    tensors = {"x": Tensor(("nchw",), LAYOUTS), "a": Tensor(LAYOUTS, LAYOUTS), "b": Tensor(LAYOUTS, LAYOUTS)}
    faster = {("nchw", "nchw"): 10.0, ("nhwc", "nchw"): 6.0}
    links = [Link("x", "a", faster), Link("x", "b", faster)]
    found = solve(tensors, links, lambda *_: 5.0)
    assert (found.states["x"].converted, found.reads, found.seconds) == (("nhwc",), ("nhwc", "nhwc"), 17.0)
    assert solve(tensors, links[:1], lambda *_: 5.0).reads == ("nchw",)
