"""Tables of large trees, read from a file's bytes as arrays.

A model of 200 MB has its trees as some forty million numbers and names, each with a tag of its own, of which
protobuf makes objects of several times their size. Here a node's tables are taken out of the bytes before
protobuf sees them, and become attributes that are tensors, of as few bits as hold all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, ModelProto, helper

LARGE = 2**16
"""From so many bytes on a table is taken out."""
TABLES = ("class_", "leaf_", "nodes_", "target_")
"""How their names begin."""
UNREAD = "nodes_hitrates"
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER", "LEAF")
"""What a node asks, in the order of TreeEnsemble's numbers; in those of others leaves are nodes as well."""
_GRAPH, _NODE, _ATTRIBUTE, _OPERATOR, _NAME = 7, 1, 5, 4, 1
_FLOATS, _INTS, _STRINGS = 7, 8, 9
_CHUNK = 2**20
_WHOLE = (np.int8, np.int16, np.int32, np.int64)

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Tables = dict[str, Array]


class _Other(Exception):
    """The bytes are not as expected; protobuf says what they are."""


def parse(data: bytes) -> ModelProto:
    """The model that ``data`` are, large tables of its trees as tensors; raises DecodeError as protobuf."""
    rest, taken = data, dict[int, Tables]()
    if len(data) > LARGE and b"TreeEnsemble" in data:
        try:
            rest, taken = _without_tables(data)
        except (_Other, IndexError):
            rest, taken = data, {}
    model = ModelProto()
    model.ParseFromString(rest)
    for number, tables in taken.items():
        for name in list(tables):
            values = tables.pop(name)
            said = model.graph.node[number].attribute.add(name=name, type=AttributeProto.TENSOR)
            said.t.data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
            said.t.dims.append(len(values))
            said.t.raw_data = values.tobytes()
    return model


def codes(names: list[bytes]) -> Array:
    """The places of modes in ``MODES`` by their names, ``len(MODES)`` for one that is not known."""
    known = {name: code for code, name in enumerate(_SPELLED)}
    return np.array([known.get(name, len(MODES)) for name in names], np.uint8)


_SPELLED = [(name if name == "LEAF" else f"BRANCH_{name}").encode() for name in MODES]


def _without_tables(data: bytes) -> tuple[bytes, dict[int, Tables]]:
    """``data`` without the large tables of trees, and these, by the number of their node."""
    view, rest, taken = memoryview(data), list[bytes](), dict[int, Tables]()
    for number, start, inside, end in _fields(view, 0, len(view)):
        if number != _GRAPH:
            rest.append(bytes(view[start:end]))
            continue
        pieces, nodes = list[bytes](), 0
        for each, first, within, last in _fields(view, inside, end):
            tables: Tables = {}
            piece = b""
            if each == _NODE and last - within > LARGE:
                piece, tables = _node(view, within, last)
            if tables:
                taken[nodes] = tables
            pieces.append(piece if tables else bytes(view[first:last]))
            nodes += each == _NODE
        rest += [_head(_GRAPH, sum(map(len, pieces))), *pieces]
    return b"".join(rest), taken


def _node(view: memoryview, start: int, end: int) -> tuple[bytes, Tables]:
    """A node without its large tables, and these; none where it is no ensemble of trees."""
    found = list(_fields(view, start, end))
    operators = [bytes(view[within:last]) for number, _, within, last in found if number == _OPERATOR]
    tables, pieces = Tables(), list[bytes]()
    if not operators or not operators[0].startswith(b"TreeEnsemble"):
        return b"", {}
    for number, first, within, last in found:
        if number == _ATTRIBUTE and last - within > LARGE:
            each, _, at, to = next(_fields(view, within, last))
            name = str(view[at:to], "utf-8", "replace") if each == _NAME else ""
            if name.startswith(TABLES) and not name.endswith("_as_tensor"):
                if name != UNREAD:
                    tables[name] = _table(view, to, last)
                continue
        pieces.append(bytes(view[first:last]))
    whole = b"".join(pieces)
    return _head(_NODE, len(whole)) + whole, tables


def _table(view: memoryview, start: int, end: int) -> Array:
    """The numbers of an attribute, or the codes of its names; its name lies before ``start``."""
    number, _, within, last = next(_fields(view, start, end))
    tag = view[start]
    packed = tag & 7 == 2 and number != _STRINGS
    if number not in (_FLOATS, _INTS, _STRINGS):
        raise _Other
    # The attribute's kind, which may follow.
    rest = end - 3 if bytes(view[end - 3 : end - 1]) == b"\xa0\x01" else end
    if packed and last != rest:
        raise _Other
    several = np.frombuffer(view[within if packed else start : rest], np.uint8)
    if number == _STRINGS:
        return _names(several, tag)
    if number == _INTS:
        return _varints(several, None if packed else tag)
    if len(several) % (4 if packed else 5):
        raise _Other
    if packed:
        return several.view("<f4")
    rows = several.reshape(-1, 5)
    if (rows[:, 0] != tag).any():
        raise _Other
    return np.ascontiguousarray(rows[:, 1:]).view("<f4").reshape(-1)


def _varints(several: Bytes, tag: int | None) -> Array:
    """Integers one after the other, each behind ``tag`` if there is one."""
    found: list[Array] = []
    while len(several):
        ends = np.flatnonzero(several[:_CHUNK] < 128)
        if tag is not None:
            ends = ends[: len(ends) // 2 * 2]
        if not len(ends):
            raise _Other
        starts = np.concatenate([[0], ends[:-1] + 1])
        used = int(ends[-1]) + 1
        if tag is not None:
            if (several[starts[::2]] != tag).any():
                raise _Other
            starts, ends = starts[1::2], ends[1::2]
        length = ends - starts
        if length.max() > 9:
            raise _Other
        values = (several[starts] & 127).astype(np.uint64)
        for place in range(1, int(length.max()) + 1):
            more = np.flatnonzero(length >= place)
            part = (several[starts[more] + place] & 127).astype(np.uint64)
            values[more] |= part << np.uint64(7 * place)
        whole = values.view(np.int64)
        low, high = whole.min(), whole.max()
        found.append(
            whole.astype(next(t for t in _WHOLE if np.iinfo(t).min <= low and high <= np.iinfo(t).max))
        )
        several = several[used:]
    return np.concatenate(found)


def _names(several: Bytes, tag: int) -> Array:
    """Modes, each with a tag, which no letter of theirs is, and a length."""
    found: list[Array] = []
    while len(several):
        piece = several[:_CHUNK]
        starts = np.flatnonzero(piece == tag)
        if len(piece) < len(several) and len(starts) > 1:
            piece, starts = piece[: starts[-1]], starts[:-1]
        found.append(_codes(piece, starts))
        several = several[len(piece) :]
    return np.concatenate(found)


def _codes(piece: Bytes, starts: Array) -> Array:
    """The codes of the names behind the tags at ``starts``."""
    if not len(starts) or starts[0] or int(starts[-1]) + 2 > len(piece):
        raise _Other
    lengths = piece[starts + 1]
    after = np.concatenate([starts[1:], [len(piece)]])
    if (starts + 2 + lengths != after).any() or lengths.min() < 4:
        raise _Other
    result = np.full(len(starts), len(MODES), np.uint8)
    # Length and two letters tell them apart; then it is seen whether all others are right.
    third, second = piece[after - 3], piece[after - 2]
    for code, name in enumerate(_SPELLED):
        at = np.flatnonzero((lengths == len(name)) & (third == name[-3]) & (second == name[-2]))
        for place, letter in enumerate(name, 2):
            if (piece[starts[at] + place] != letter).any():
                raise _Other
        result[at] = code
    if (result == len(MODES)).any():
        raise _Other
    return result


def _fields(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each field of a message: its number, and where it, its content, and what follows begin."""
    while start < end:
        key, inside = _varint(view, start, end)
        kind = key & 7
        if kind == 0:
            last = _varint(view, inside, end)[1]
        elif kind == 2:
            length, inside = _varint(view, inside, end)
            last = inside + length
        elif kind in (1, 5):
            last = inside + (8 if kind == 1 else 4)
        else:
            raise _Other
        if last > end:
            raise _Other
        yield key >> 3, start, inside, last
        start = last


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """(the number at a place, where the next one begins)."""
    value = shift = 0
    while at < end and shift < 64:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise _Other


def _head(field: int, length: int) -> bytes:
    """What stands before a message of ``length`` in another one."""
    found = bytearray([field << 3 | 2])
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    return bytes([*found, length])
