"""Attentions as com.microsoft has them, written as the products, masks and Softmax that they are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.microsoft.integers import scaled_product

PER_AXIS = 13
"""From which operator set on Softmax is of one axis; before it was of all from one on."""
HIDDEN = -1e30
"""What is added to scores of keys that come later: no weight is left of them."""
FILTER = -10000.0
"""What is added to scores of keys that a mask leaves out, where the node does not say."""


def multi_head(form: Fused) -> None:
    """MultiHeadAttention: of queries, keys and values as products made them, or as they were kept."""
    heads = _heads(form)
    for at, what in ((8, "a past length"), (9, "a cache of beams")):
        if form.given(at):
            form.refuse(f"has {what} as input {at}, which is not supported")
    parts = [form.given(at) for at in range(3)]
    ranks = [form.rank(name) if name else 0 for name in parts]
    if form.given(3):
        if ranks != [3, 3, 3]:
            form.refuse("has a bias of packed or cached operands, which is not supported")
        parts = [form.add("Add", [part, piece]) for part, piece in zip(parts, _thirds(form), strict=True)]
    if ranks[0] != 3 or not all(rank in (3, 4) for rank in ranks[1:]):
        form.refuse("has packed queries, keys or values, which is not supported")
    parts = [
        split_heads(form, part, heads) if rank == 3 else part for part, rank in zip(parts, ranks, strict=True)
    ]
    for number, at in ((1, 6), (2, 7)):
        if form.given(at):
            parts[number] = form.add("Concat", [form.given(at), parts[number]], axis=2)
    attend(form, parts, [_mask(form, 4, parts[1]), form.given(5)])
    form.only(3)
    form.finish(parts[1], 1)
    form.finish(parts[2], 2)


def attention(form: Fused) -> None:
    """Attention: the products that make queries, keys and values of one input, too."""
    if form.given(6):
        form.refuse("has a past length as input 6, which is not supported")
    weights = form.value(1)
    sizes = _sizes(form, weights)
    ends = [0, *np.cumsum(sizes)]
    bias = form.value(2) if form.given(2) else None
    parts = []
    for first, last in pairwise(ends):
        columns = form.constant(np.ascontiguousarray(weights[:, first:last]))
        part = form.add("MatMul", [form.needed(0), columns])
        parts.append(part if bias is None else form.add("Add", [part, form.constant(bias[first:last])]))
    _finish(form, parts, mask=3, past=4, added=5)


def quantized(form: Fused) -> None:
    """QAttention: the same of bytes with their scales."""
    weights, bias = form.value(1), form.value(2)
    sizes = _sizes(form, weights)
    ends = [0, *np.cumsum(sizes)]
    scale = form.value(4)
    zero = form.value(7) if form.given(7) else np.zeros((), weights.dtype)
    parts = []
    for first, last in pairwise(ends):
        mine = [each[first:last] if each.size == ends[-1] else each.reshape(()) for each in (scale, zero)]
        columns = form.constant(np.ascontiguousarray(weights[:, first:last]))
        operands = [form.needed(0), columns, form.given(6), form.constant(mine[1])]
        scales = [form.needed(3), form.constant(mine[0])]
        parts.append(scaled_product(form, operands, scales, form.constant(bias[first:last])))
    _finish(form, parts, mask=5, past=8, added=-1)


def _finish(form: Fused, parts: list[str], mask: int, past: int, added: int) -> None:
    """The attention of products, with what may have been kept of earlier ones."""
    heads = _heads(form)
    if form.attributes.get("do_rotary", 0) or form.attributes.get("past_present_share_buffer", 0):
        form.refuse("rotates its operands or shares the buffer of its past, which is not supported")
    parts = [split_heads(form, part, heads) for part in parts]
    if form.given(past):
        for number in (1, 2):
            kept = form.add("Gather", [form.given(past), form.constant(np.array(number - 1))], axis=0)
            parts[number] = form.add("Concat", [kept, parts[number]], axis=2)
    extra = form.given(added) if added >= 0 else ""
    attend(form, parts, [_mask(form, mask, parts[1]), extra])
    form.only(2)
    if len(form.node.output) > 1 and form.node.output[1]:
        both = [form.unsqueezed(part, 0) for part in parts[1:]]
        form.finish(form.add("Concat", both, axis=0), 1)


def attend(form: Fused, parts: list[str], masks: list[str]) -> None:
    """The first output, of queries, keys and values (batch, heads, length, size)."""
    queries, keys, values = parts
    scores = form.add("MatMul", [queries, form.add("Transpose", [keys], perm=[0, 1, 3, 2])])
    scale = form.attributes.get("scale", 0.0)
    if scale:
        factor = form.number(scale)
    else:
        size = form.add("Cast", [extent(form, queries, 3)], to=TensorProto.FLOAT)
        factor = form.add("Reciprocal", [form.add("Sqrt", [size])])
    scores = form.add("Mul", [scores, factor])
    limit = form.attributes.get("softcap", 0.0)
    if limit:
        scores = form.add("Tanh", [form.add("Div", [scores, form.number(limit)])])
        scores = form.add("Mul", [scores, form.number(limit)])
    masks = [mask for mask in masks if mask]
    if form.attributes.get("unidirectional", 0):
        masks.append(_later(form, queries, keys))
    if masks:
        mask = masks[0]
        for other in masks[1:]:
            mask = form.add("Add", [mask, other])
        scores = form.add("Add", [scores, mask])
    weights = form.add("Softmax", [scores], axis=3 if form.opset < PER_AXIS else -1)
    result = form.add("Transpose", [form.add("MatMul", [weights, values])], perm=[0, 2, 1, 3])
    # Sizes are said in full: of no elements, -1 could be any.
    heads = form.add("Mul", [extent(form, values, 1), extent(form, values, 3)])
    form.finish(form.add("Reshape", [result, _shape(form, [0, 0], heads)]))


def _mask(form: Fused, at: int, keys: str) -> str:
    """What is added to scores because of input ``at``: keys in use, or where those end, and perhaps begin."""
    given = form.given(at)
    if not given:
        return ""
    rank = form.rank(given)
    if rank == 1:
        used = _between(form, given, keys)
    elif rank in (2, 3):
        axes = (1, 2) if rank == 2 else (1,)
        used = form.unsqueezed(form.add("Cast", [given], to=TensorProto.BOOL), *axes)
    else:
        form.refuse(f"has a mask of {rank} axes, which is not supported")
    hidden = form.number(form.attributes.get("mask_filter_value", FILTER))
    return form.add("Where", [used, form.number(0.0), hidden])


def _between(form: Fused, given: str, keys: str) -> str:
    """Which keys are used: those before the first numbers of ``given``, one for each row of the batch, and of
    an Attention not before the second ones. Others than these tell how rows are packed."""
    size, batch = form.extent_known(given, 0), form.extent_known(form.needed(0), 0)
    many = form.node.op_type == "MultiHeadAttention"
    starts = bool(batch) and size == 2 * batch and not many
    if batch and size and not starts and size not in (batch, 3 * batch + 2):
        form.refuse(f"has a mask of {size} numbers for a batch of {batch}")
    numbers, places = form.add("Cast", [given], to=TensorProto.INT64), count(form, extent(form, keys, 2))
    ends = numbers if size in (0, batch) else _slice(form, numbers, 0, batch)
    if not many:
        # None is below zero; those behind the last key are as good as that.
        length = extent(form, keys, 2)
        ends = form.add("Min", [ends, length])
        longer = form.add("Add", [length, form.constant(np.ones(1, np.int64))])
        ends = form.gathered(count(form, longer), ends, "an end of the used keys")
    used = form.add("Less", [places, _column(form, ends, keys)])
    if not starts:
        return used
    before = form.add("Less", [places, _column(form, _slice(form, numbers, batch, size), keys)])
    return form.add("And", [used, form.add("Not", [before])])


def _slice(form: Fused, numbers: str, first: int, last: int) -> str:
    return form.add("Slice", [numbers, form.constant(np.array([first])), form.constant(np.array([last]))])


def _column(form: Fused, numbers: str, keys: str) -> str:
    """A number for each row of the batch, beside its scores."""
    shape = form.add("Concat", [extent(form, keys, 0), form.constant(np.ones(3, np.int64))], axis=0)
    return form.add("Reshape", [numbers, shape])


def _later(form: Fused, queries: str, keys: str) -> str:
    """A mask that hides from each query the keys that come after it; the last ones belong together."""
    rows, columns = extent(form, queries, 2), extent(form, keys, 2)
    last = form.add("Add", [count(form, rows), form.add("Sub", [columns, rows])])
    last = form.unsqueezed(last, 1)
    later = form.add("Greater", [count(form, columns), last])
    return form.add("Where", [later, form.number(HIDDEN), form.number(0.0)])


def extent(form: Fused, name: str, axis: int) -> str:
    """The extent of an axis, an array of one."""
    return form.add("Gather", [form.add("Shape", [name]), form.constant(np.array([axis]))])


def count(form: Fused, extent: str) -> str:
    """The numbers from 0 to below ``extent``."""
    limit = form.add("Reshape", [extent, form.constant(np.zeros(0, np.int64))])
    return form.add("Range", [form.constant(np.array(0)), limit, form.constant(np.array(1))])


def _heads(form: Fused) -> int:
    heads = int(form.attributes.get("num_heads", 0))
    if heads < 1:
        form.refuse("does not say how many heads it has")
    return heads


def split_heads(form: Fused, data: str, heads: int) -> str:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    size = form.add("Div", [extent(form, data, 2), form.constant(np.array([heads]))])
    shaped = form.add("Reshape", [data, _shape(form, [0, 0, heads], size)])
    return form.add("Transpose", [shaped], perm=[0, 2, 1, 3])


def _shape(form: Fused, first: list[int], last: str) -> str:
    return form.add("Concat", [form.constant(np.array(first)), last], axis=0)


def _thirds(form: Fused) -> list[str]:
    bias = form.value(3)
    if bias.ndim != 1 or bias.size % 3:
        form.refuse("has a bias of which the parts differ, which is not supported")
    return [form.constant(part) for part in np.split(bias, 3)]


def _sizes(form: Fused, weights: Array) -> list[int]:
    """How many columns of the weights make queries, keys and values."""
    sizes = [int(size) for size in form.attributes.get("qkv_hidden_sizes", [])]
    sizes = sizes or [weights.shape[-1] // 3] * 3
    if weights.ndim != 2 or len(sizes) != 3 or sum(sizes) != weights.shape[1]:
        form.refuse("has weights that do not go with the sizes of queries, keys and values")
    return sizes
