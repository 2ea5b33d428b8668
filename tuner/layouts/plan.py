"""Which config each product of a model gets, and in which layout each of its tensors lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.ir.graph import attributes_of
from compiler.ir.own_nodes import PRODUCT
from compiler.ir.partition import Partition, Product
from compiler.lower.operators import rule_of
from compiler.lower.operators.border import DEQUANTIZE, border_of, scales_of_sums
from compiler.lower.operators.layouts import Rule, is_image
from kernels.layout import NCHW, NHWC, Layouts, layouts_for
from kernels.operators.relayout import is_free, predict_relayout
from kernels.target import Target
from kernels.workload.base import Conv2d, ConvChain
from tuner.layouts.options import Option, Options
from tuner.layouts.prices import Prices
from tuner.layouts.solve import Link, State, Tensor, solve


@dataclass(frozen=True)
class Conversion:
    """A tensor copied from one layout to another, ``seconds`` as measured on a board or else predicted."""

    tensor: str
    source: str
    to: str
    seconds: float
    measured: bool

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "tensor": self.tensor,
            "from": self.source,
            "to": self.to,
            "expected_s": self.seconds,
            "measured": self.measured,
        }


@dataclass(frozen=True)
class Plan:
    """``options`` by product, None where no kernel computes it; ``states`` of tensors with layouts.

    ``rules`` are the nodes, by their result, that work in the layout that they write. ``seconds`` is what
    is expected of products, conversions, pooling and concatenation together.
    """

    options: tuple[Option | None, ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    conversions: tuple[Conversion, ...] = ()
    seconds: float = 0.0

    def layout_of(self, tensor: str) -> str:
        """The layout that a tensor is written in."""
        return self.states[tensor].written if tensor in self.states else NCHW


def plan(
    partition: Partition, options: Sequence[Options | None], target: Target, threads: int, prices: Prices
) -> Plan:
    """The cheapest choice for all of the graph, given what each product may choose from.

    What is predicted of pools, concats and the like is scaled by the ``scale`` of ``prices``. Raises
    ValueError when forced configs leave none.
    """
    graph = partition.graph
    rules = {
        node.output[0]: _scaled(rule, prices.scale)
        for node in graph.nodes
        if (rule := rule_of(graph, node, target, threads)) is not None
    }
    problem = _Problem(partition, options, rules, target, threads, prices.scale)

    def price(tensor: str, source: str, to: str) -> tuple[float, bool]:
        return prices.of(graph.tensors[tensor].shape, source, to)

    found = solve(problem.tensors, problem.links, lambda *conversion: price(*conversion)[0])
    conversions = tuple(
        Conversion(name, state.written, to, *price(name, state.written, to))
        for name, state in found.states.items()
        for to in state.converted
        if not is_free(graph.tensors[name].shape, state.written, to)
    )
    chosen: list[Option | None] = []
    seconds = found.seconds
    for index, (product, each) in enumerate(zip(partition.products, options, strict=True)):
        if each is None:
            chosen.append(None)
        elif index in problem.link_of:
            data = found.reads[problem.link_of[index]]
            chosen.append(each[Layouts(data, found.states[product.output].written)])
        else:
            option = min(each.values(), key=lambda option: option.seconds)
            chosen.append(option)
            seconds += option.seconds
    return Plan(tuple(chosen), found.states, rules, conversions, seconds)


def _scaled(rule: Rule, scale: float) -> Rule:
    return replace(rule, seconds=lambda layout: scale * rule.seconds(layout))


class _Problem:
    """The graph's tensors and nodes as ``layout_plan`` takes them."""

    def __init__(
        self,
        partition: Partition,
        options: Sequence[Options | None],
        rules: Mapping[str, Rule],
        target: Target,
        threads: int,
        scale: float,
    ) -> None:
        graph = partition.graph
        self.links: list[Link] = []
        self.link_of: dict[int, int] = {}
        """By product, the link that reads its data."""
        written: dict[str, tuple[str, ...]] = {}
        for node in graph.nodes:
            output = node.output[0]
            each = None
            if node.op_type == PRODUCT:
                index = attributes_of(node)["index"]
                each = options[index]
            if each is not None and isinstance(partition.products[index].workload, Conv2d | ConvChain):
                outs = dict.fromkeys(layouts.out for layouts in each)
                written[output] = tuple(sorted(outs, key=lambda layout: layout != NCHW))
                self._product(index, partition.products[index], each)
            elif output in rules:
                written[output] = layouts_for(graph.tensors[output].shape[1], target)
                self._ruled(output, rules[output], written[output])
            elif scales_of_sums(graph, node) is not None:
                written[output] = (NHWC,)
            elif border_of(graph, node) is None:
                self._nchw(name for name in node.input if is_image(graph, name))
            elif node.op_type == DEQUANTIZE:
                # The first is what is taken where it makes no difference, and bytes are there in it.
                written[output] = (NHWC, NCHW)
            elif is_image(graph, node.input[0]):
                # What lies as planes is turned as bytes, a quarter of the size.
                turn = predict_relayout(graph.tensors[output].shape, NCHW, NHWC, target, threads) / 4 * scale
                self.links.append(Link(node.input[0], None, {(NCHW, ""): turn, (NHWC, ""): 0.0}))
        self._nchw(name for name in graph.outputs if is_image(graph, name))
        used = {name for link in self.links for name in (link.source, link.target) if name is not None}
        self.tensors = {
            name: Tensor(written.get(name, (NCHW,)), layouts_for(graph.tensors[name].shape[1], target))
            for name in graph.tensors
            if name in used
        }

    def _product(self, index: int, product: Product, options: Options) -> None:
        self.link_of[index] = len(self.links)
        seconds = {(data, out): option.seconds for (data, out), option in options.items()}
        self.links.append(Link(product.data, product.output, seconds))
        if product.residual is not None:
            same = {(layouts.out, layouts.out): 0.0 for layouts in options}
            self.links.append(Link(product.residual, product.output, same))
        if product.factors is not None:
            self._nchw([product.factors])

    def _ruled(self, output: str, rule: Rule, layouts: tuple[str, ...]) -> None:
        for position, name in enumerate(rule.reads):
            # The cost of the node is on its first operand.
            seconds = {(at, at): 0.0 if position else rule.seconds(at) for at in layouts}
            self.links.append(Link(name, output, seconds))

    def _nchw(self, names: Iterable[str]) -> None:
        self.links += [Link(name, None, {(NCHW, ""): 0.0}) for name in names]
