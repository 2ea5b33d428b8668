"""How an explanation looks in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kernels.target import Target
from kernels.workload.base import Workload
from tilefleet.render import config, mark, milliseconds, number, percent, rate_unit, table
from tuner.log.record import Record

_KB = 1024
_WIDTH, _MARGIN, _HOT = 100, 10, "  <- hot"
_COLUMNS = 5
"""Buffers that get a column of their own among the working sets; smaller ones share one."""
_LISTED = 240
"""Instructions of the hot loop that are shown."""
_COLUMN_WIDTH = 48


def view(
    workload: Workload,
    target: Target,
    threads: int,
    origin: str,
    explained: dict[str, Any],
    record: Record | None,
    peak: float | None,
) -> RenderableType:
    """All sections; ``origin`` says where the config comes from, ``peak`` is in GFLOP/s."""
    return Group(
        _head(workload, target, threads, origin, explained, record, peak),
        _title("Loop nest", "left: share of the multiply-adds; [what moves with the loop]"),
        *_nest(explained["nest"]),
        *_scratch(explained["scratch"]),
        _title(
            "In the caches", "KB that one run of each loop around the hot code touches; share of that cache"
        ),
        _working_sets(explained),
        *_residents(explained["residents"], target),
        _title("Hot loop", ""),
        *_hot_loop(explained["hot_loop"]),
    )


def _title(name: str, remark: str) -> Text:
    return Text.assemble("\n", (name, "bold"), f"  {remark}" if remark else "")


def _head(
    workload: Workload,
    target: Target,
    threads: int,
    origin: str,
    explained: dict[str, Any],
    record: Record | None,
    peak: float | None,
) -> Table:
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim")
    head.add_column()

    def rate(seconds: float) -> str:
        unit = rate_unit([workload.unit])
        return f"{milliseconds(seconds)} ms, {workload.flops / seconds / 1e9:.1f} {unit}"

    head.add_row("workload", Text(f"{workload}   {workload.key}", "bold"))
    caches = f"L1 {size(target.l1_bytes)}, L2 {size(target.l2_bytes)}"
    caches += f", L3 {size(target.l3_bytes)}" if target.l3_bytes else ", no L3"
    registers = f"{target.vector_registers} registers of {target.vector_bits} bits"
    head.add_row("target", f"{target.name}: {target.cpu}, {registers}, {caches}")
    head.add_row("config", f"{config(explained['config'])}")
    head.add_row("", f"{origin}; {threads} thread{'s' if threads > 1 else ''}")
    needed = workload.flops // 2
    done = explained["products"] / needed
    head.add_row(
        "work",
        f"{needed / 1e6:,.1f} million multiply-adds asked for"
        + ("" if done == 1 else f", {explained['products'] / 1e6:,.1f} done ({done:.2f} of them)"),
    )
    head.add_row("predicted", f"{rate(explained['predicted_s'])} by the machine model")
    if record is None or record.ranking_s is None:
        head.add_row("measured", "not with this config, as far as known here")
    else:
        text = rate(record.ranking_s) + mark(record.clock, record.disturbed)
        if peak and workload.unit == "FLOP":
            text += f", {percent((record.gflops or 0) / peak)} of the measured peak of {peak:.1f} GFLOP/s"
        head.add_row("measured", text + (f", on {record.board}" if record.board else ""))
    return head


def _nest(lines: list[dict[str, Any]]) -> Iterator[Text]:
    for line in lines:
        share = "" if line["share"] is None else f"{line['share'] * 100:.1f} %"
        indent = "  " * line["depth"]
        room = _WIDTH - _MARGIN - len(indent) - len(_HOT)
        # Further lines of a long one are further in.
        text = f"\n{' ' * _MARGIN}{indent}    ".join(textwrap.wrap(line["text"], max(room, 30)))
        shown = Text(f"{share:>{_MARGIN - 2}}  ", "dim")
        shown.append(indent + text, "bold green not dim" if line["hot"] else "not dim")
        if line["moves"]:
            shown.append(f"  [{', '.join(line['moves'])}]")
        if line["hot"]:
            shown.append(_HOT, "bold green not dim")
        yield shown


def _scratch(buffers: dict[str, Any]) -> Iterator[Text]:
    for name, buffer in buffers.items():
        sources = f", from {', '.join(buffer['from'])}" if buffer["from"] else ""
        yield Text(f"{' ' * _MARGIN}{name}: {size(buffer['bytes'])}{sources}", "dim")


def _working_sets(explained: dict[str, Any]) -> Table:
    sets = explained["working_sets"]
    largest: dict[str, int] = {}
    for each in sets:
        for name, used in each["bytes"].items():
            largest[name] = max(used, largest.get(name, 0))
    order = sorted(largest, key=lambda name: -largest[name])
    shown = [name for name in largest if name in order[:_COLUMNS]]
    rest = [name for name in order if name not in shown]
    result = table("one run of", *shown, *(["others"] if rest else []), "total", "fits in", left=1)
    registers = explained["registers"]
    accumulators = f"{registers['accumulators']}/{registers['of']} registers"
    blank = [""] * (len(shown) + bool(rest))
    total = registers["accumulators"] * registers["bits"] / 8
    result.add_row("accumulators", *blank, kilobytes(total), accumulators)
    for each in sets:
        figures = [kilobytes(each["bytes"].get(name, 0)) for name in shown]
        if rest:
            figures.append(kilobytes(sum(each["bytes"].get(name, 0) for name in rest)))
        level = each["level"] if each["share"] is None else f"{each['level']}, {percent(each['share'])}"
        result.add_row(each["loop"].removeprefix("parallel "), *figures, kilobytes(each["total"]), level)
    return result


def _residents(residents: list[dict[str, Any]], target: Target) -> Iterator[Text]:
    """What the analysis meant to stay; a level that the target lacks is left out."""
    caches = {"L1": target.l1_bytes, "L2": target.l2_bytes, "L3": target.l3_bytes}
    for each in residents:
        if cache := caches[each["level"]]:
            share = percent(each["size"] / cache)
            yield Text(
                f"the analysis keeps in {each['level']}: {each['what']}, {size(each['size'])}, {share}"
            )


def _hot_loop(loop: dict[str, Any] | None) -> Iterator[RenderableType]:
    if loop is None:
        yield Text("no loop has a multiply-add: the compiler unrolled all of it")
        return
    share = percent(loop["multiply_adds"] / loop["instructions"])
    yield Text(
        f"{loop['dialect']}: {loop['instructions']} instructions, {loop['multiply_adds']} multiply-adds of "
        f"{loop['vector_bits']} bits ({share}), {loop['loads']} loads, {loop['stores']} stores"
    )
    stack = f"{loop['spills']} stores and {loop['reloads']} loads on the stack"
    vectors = f"{loop['vector_spills']} and {loop['vector_reloads']} of vectors"
    spilt = loop["spills"] or loop["reloads"]
    yield Text(f"spills: {stack}, of these {vectors}" if spilt else "spills: none", "yellow" if spilt else "")
    yield Text()
    lines = [line if line.endswith(":") else f"  {line}" for line in loop["lines"]]
    if len(lines) > _LISTED:
        left_out = len(lines) - _LISTED
        lines = [*lines[:_LISTED], f"  ... {left_out} more: --json has all"]
    yield _columns(lines)


def _columns(lines: list[str]) -> RenderableType:
    """Lines top to bottom, in two columns when they are many."""
    if len(lines) <= _COLUMN_WIDTH:
        return Text("\n".join(lines))
    half = -(-len(lines) // 2)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=_COLUMN_WIDTH)
    grid.add_column(width=_COLUMN_WIDTH)
    grid.add_row(Text("\n".join(lines[:half]), no_wrap=True), Text("\n".join(lines[half:]), no_wrap=True))
    return grid


def size(count: int) -> str:
    """Bytes as KB or MB."""
    if count % (_KB * _KB) == 0:
        return f"{count // (_KB * _KB)} MB"
    return f"{count // _KB:,} KB" if count % _KB == 0 else f"{kilobytes(count)} KB"


def kilobytes(count: float) -> str:
    """Bytes as KB: a dash for none, one decimal below 100."""
    if not count:
        return "-"
    kb = count / _KB
    return number(kb, 1 if kb < 100 else 0)
