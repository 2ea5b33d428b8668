"""GroupQueryAttention: heads of queries share those of keys and values, which are kept from run to run."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.attention import HIDDEN, attend, count, extent, split_heads
from compiler.passes.expand.microsoft.fused import Fused
from compiler.passes.expand.microsoft.rotary import turned

PAST, LENGTHS, TOTAL, COSINE, PLACES, ADDED = 3, 5, 6, 7, 9, 10
"""Places of the inputs; values follow keys, and the sine the cosine."""


def group_query(form: Fused) -> None:
    """The attention of queries, and the keys and values of all that came so far.

    Lengths of the sequences (with the new tokens, less one) are data, and so is where the new ones begin; the
    longest of them tells shapes.
    """
    heads, kept = (int(form.attributes.get(name, 0)) for name in ("num_heads", "kv_num_heads"))
    if heads < 1 or kept < 1 or heads % kept:
        form.refuse(f"has {heads} heads of queries and {kept} of keys")
    if any(form.given(at) for at in range(ADDED + 1, len(form.node.input))):
        form.refuse("has sinks of attention or scales of a quantized past, which are not supported")
    if form.attributes.get("smooth_softmax", 0) > 0 or form.attributes.get("qk_output", 0):
        form.refuse("has a smooth Softmax or puts out its scores, which is not supported")
    form.only(3)
    queries, *parts = _parts(form, heads, kept)
    tokens = extent(form, queries, 2)
    total = _integers(form, TOTAL, (1,))
    start, length = form.constant(np.zeros(1, np.int64)), total
    if form.given(PAST):
        length = form.add("Max", [total, extent(form, form.given(PAST), 2)])
    last = form.gathered(count(form, length), _integers(form, LENGTHS, (-1,)), "seqlens_k")
    if form.given(PAST):
        start = _started(form, tokens, total, length, last)
    each = form.constant(np.array([-1, 1, 1, 1]))
    start, last = (form.add("Reshape", [name, each]) for name in (start, last))
    places = form.add("Add", [start, form.unsqueezed(count(form, tokens), 1)])
    if form.attributes.get("do_rotary", 0):
        queries, parts[0] = _rotated(form, [queries, parts[0]], places, heads)
    if form.given(PAST):
        parts = [_appended(form, part, PAST + at, start, length) for at, part in enumerate(parts)]
    else:
        parts = [_of_length(form, part, total) for part in parts]
    for at, part in enumerate(parts):
        form.finish(part, 1 + at)
    columns = count(form, length)
    # Tokens behind a sequence's end fill the batch, and see what its last one sees.
    places = form.add("Min", [places, last])
    hidden = form.add("Greater", [columns, places])
    window = int(form.attributes.get("local_window_size", -1))
    if window > 0:
        first = form.add("Sub", [places, form.constant(np.array(window - 1))])
        hidden = form.add("Or", [hidden, form.add("Less", [columns, first])])
    mask = form.add("Where", [hidden, form.number(HIDDEN), form.number(0.0)])
    wide = [_repeated(form, part, heads // kept) for part in parts]
    attend(form, [queries, *wide], [mask, form.given(ADDED)])


def _started(form: Fused, tokens: str, total: str, length: str, last: str) -> str:
    """Where the new tokens of each sequence begin; a run ends by a length that has no room for them."""
    nothing = form.constant(np.zeros(1, np.int64))
    others = form.add("Sub", [tokens, form.constant(np.ones(1, np.int64))])
    first = form.add("Equal", [tokens, total])
    start = form.add("Where", [first, nothing, form.add("Sub", [last, others])])
    # Of all places there are, so that none is taken that is not.
    return form.gathered(count(form, length), start, "seqlens_k + 1 less the number of new tokens")


def _parts(form: Fused, heads: int, kept: int) -> list[str]:
    """Queries, keys and values (batch, heads, length, size), which may come as one tensor."""
    if form.given(1):
        inputs = zip(map(form.needed, range(3)), (heads, kept, kept), strict=True)
        return [split_heads(form, name, many) for name, many in inputs]
    whole = split_heads(form, form.needed(0), heads + 2 * kept)
    ends = [0, heads, heads + kept, heads + 2 * kept]
    limits = [form.constant(np.array([end])) for end in ends]
    axis = form.constant(np.array([1]))
    return [form.add("Slice", [whole, limits[at], limits[at + 1], axis]) for at in range(3)]


def _integers(form: Fused, at: int, shape: tuple[int, ...]) -> str:
    whole = form.add("Cast", [form.needed(at)], to=TensorProto.INT64)
    return form.add("Reshape", [whole, form.constant(np.array(shape))])


def _rotated(form: Fused, parts: list[str], places: str, heads: int) -> list[str]:
    """Queries and keys turned by what the caches have for their places, (batch, 1, length, 1)."""
    half = form.value(COSINE).shape[-1]
    if form.given(PAST):
        size = form.extent(form.given(PAST), 3)
    else:
        shared = 1 if form.given(1) else int(form.attributes["kv_num_heads"])
        many = heads if form.given(1) else heads + 2 * shared
        size = form.extent(form.given(0), 2) // many
    rows = form.given(PLACES)
    if not rows:
        rows = form.add("Reshape", [places, form.constant(np.array([0, -1]))])
    waves = [
        form.unsqueezed(form.gathered(form.given(COSINE + at), rows, "a position"), 1) for at in range(2)
    ]
    apart = bool(form.attributes.get("rotary_interleaved", 0))
    return [turned(form, part, (waves[0], waves[1]), half, apart, size > 2 * half) for part in parts]


def _appended(form: Fused, part: str, past: int, start: str, length: str) -> str:
    """(batch, heads, length, size): the past up to ``start``, the new tokens behind it, and zeros."""
    one = form.constant(np.ones(1, np.int64))
    old, new = (extent(form, name, 2) for name in (form.needed(past), part))
    shape = form.add(
        "Concat", [*(extent(form, part, axis) for axis in (0, 1)), one, extent(form, part, 3)], axis=0
    )
    nothing = form.add("Expand", [form.number(0.0), shape])
    rows = form.add("Concat", [form.needed(past), part, nothing], axis=2)
    at = count(form, length)
    added = form.add("Add", [at, form.add("Sub", [old, start])])
    end = form.add("Add", [old, new])
    behind = form.add("Less", [at, form.add("Add", [start, new])])
    place = form.add("Where", [form.add("Less", [at, start]), at, form.add("Where", [behind, added, end])])
    # All rows of all heads are the rows of one table.
    place = form.add("Reshape", [place, form.constant(np.array([0, 1, -1]))])
    lines = form.add("Mul", [extent(form, part, 0), extent(form, part, 1)])
    sizes = form.add("Concat", [*(extent(form, part, axis) for axis in (0, 1)), one], axis=0)
    head = form.add("Reshape", [count(form, lines), sizes])
    depth = form.add("Add", [end, one])
    place = form.add("Add", [form.add("Mul", [head, depth]), place])
    table = form.add(
        "Reshape",
        [rows, form.add("Concat", [form.add("Mul", [lines, depth]), extent(form, part, 3)], axis=0)],
    )
    return form.add("Gather", [table, place], axis=0)


def _of_length(form: Fused, part: str, length: str) -> str:
    """``part`` with all tokens that there are: shapes do not fit together where some are missing."""
    extents = [extent(form, part, 0), extent(form, part, 1), length, extent(form, part, 3)]
    return form.add("Reshape", [part, form.add("Concat", extents, axis=0)])


def _repeated(form: Fused, part: str, times: int) -> str:
    """Each head of keys or values once for every head of queries that it serves."""
    if times == 1:
        return part
    wide = form.add("Expand", [form.unsqueezed(part, 2), form.constant(np.array([1, 1, times, 1, 1]))])
    many = form.add("Mul", [extent(form, part, 1), form.constant(np.array([times]))])
    extents = [extent(form, part, 0), many, extent(form, part, 2), extent(form, part, 3)]
    return form.add("Reshape", [wide, form.add("Concat", extents, axis=0)])
