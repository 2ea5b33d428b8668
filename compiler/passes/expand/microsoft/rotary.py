"""RotaryEmbedding as com.microsoft has it."""

from __future__ import annotations

import numpy as np

from compiler.passes.expand.microsoft.fused import Fused


def embedding(form: Fused) -> None:
    """Pairs of numbers, each turned by an angle that its place has in the caches."""
    if form.attributes.get("is_packed_batching", 0):
        form.refuse("has a packed batch, which is not supported")
    half = form.value(2).shape[-1]
    heads, size = int(form.attributes.get("num_heads", 0)), 2 * half
    data, rank = form.needed(0), form.rank(form.needed(0))
    if rank == 3:
        shape = [0, 0, heads, -1] if heads else [0, 0, -1, size]
        shaped = form.add("Reshape", [data, form.constant(np.array(shape))])
        data = form.add("Transpose", [shaped], perm=[0, 2, 1, 3])
    elif rank != 4:
        form.refuse(f"has data of {rank} axes instead of 3 or 4")
    cosine, sine = (form.gathered(form.needed(at), _places(form, data), "a position") for at in (2, 3))
    if form.rank(form.needed(1)) > 1:
        cosine, sine = (form.unsqueezed(each, 1) for each in (cosine, sine))
    rest = bool(form.attributes.get("rotary_embedding_dim", 0))
    result = turned(form, data, (cosine, sine), half, bool(form.attributes.get("interleaved", 0)), rest)
    if rank == 3:
        result = form.add("Transpose", [result], perm=[0, 2, 1, 3])
        result = form.add("Reshape", [result, form.constant(np.array([0, 0, -1]))])
    form.finish(result)


def turned(form: Fused, data: str, waves: tuple[str, str], half: int, apart: bool, rest: bool) -> str:
    """``data`` with the first 2 * ``half`` numbers of its last axis turned, by cosine and sine.

    The two numbers of a pair lie ``half`` apart, or beside each other where pairs are ``apart``. ``rest``
    says that there are numbers behind those, which stay.
    """
    cosine, sine, size = *waves, 2 * half
    one = _part(form, data, 0, size if apart else half, 2 if apart else 1)
    other = _part(form, data, 1 if apart else half, size, 2 if apart else 1)
    pair = [
        form.add("Sub", [form.add("Mul", [one, cosine]), form.add("Mul", [other, sine])]),
        form.add("Add", [form.add("Mul", [one, sine]), form.add("Mul", [other, cosine])]),
    ]
    if apart:
        pairs = form.add("Concat", [form.unsqueezed(each, 4) for each in pair], axis=4)
        pair = [form.add("Reshape", [pairs, form.constant(np.array([0, 0, 0, size]))])]
    if rest:
        pair.append(_part(form, data, size, np.iinfo(np.int64).max, 1))
    return form.add("Concat", pair, axis=3)


def _places(form: Fused, data: str) -> str:
    """The place of every element of the sequence: given, or counted from one that is given."""
    given = form.needed(1)
    if form.rank(given) > 1:
        return given
    length = form.add("Gather", [form.add("Shape", [data]), form.constant(np.array(2))])
    count = form.add("Range", [form.constant(np.array(0)), length, form.constant(np.array(1))])
    return form.add("Add", [count, given])


def _part(form: Fused, data: str, first: int, last: int, step: int) -> str:
    ends = [form.constant(np.array([value])) for value in (first, last, 3, step)]
    return form.add("Slice", [data, *ends])
