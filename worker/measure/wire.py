"""Tensors to a board and back at the speed of the wire.

TVM's client copies a byte at a time: 66 MB/s, longer than timing takes for most layers. The packets are
simple (tvm/src/runtime/rpc/rpc_endpoint.cc, protocol 0.8), so those with tensors are put on TVM's own socket
here. TVM waits for the answer to each of its packets: between its calls nothing is under way there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_RETURN, _EXCEPTION, _FROM_REMOTE, _TO_REMOTE, _COPY_ACK = 4, 5, 6, 7, 8
_CPU = 1
_TYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's codes by numpy's kinds."""


class Wire:
    """A session with the socket it runs on."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        before = _sockets()
        self.session = connect()
        self.device = self.session.cpu(0)
        (descriptor,) = _sockets() - before
        # A descriptor of its own: closing this object leaves TVM's open.
        self._socket = socket.socket(fileno=os.dup(descriptor))
        # What is small shall not wait for the answer to what went before.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def tensor(self, array: Array) -> Any:
        """A tensor on the board with ``array``'s type and values."""
        from tvm.runtime import empty

        tensor = empty(array.shape, array.dtype.name, self.device)
        self.put(array, tensor)
        return tensor

    def put(self, array: Array, tensor: Any) -> None:
        """Overwrite a tensor on the board; raises RuntimeError with what the board said."""
        array = np.ascontiguousarray(array, str(tensor.dtype))
        self._socket.sendall(_header(_TO_REMOTE, tensor, array.nbytes, array.nbytes))
        self._socket.sendall(array.data.cast("B"))
        self._answer(_RETURN, None)

    def get(self, tensor: Any) -> Array:
        """What a tensor on the board holds; raises RuntimeError with what the board said."""
        array = np.empty(tuple(tensor.shape), str(tensor.dtype))
        self._socket.sendall(_header(_FROM_REMOTE, tensor, array.nbytes, 0))
        self._answer(_COPY_ACK, array)
        return array

    def _answer(self, wanted: int, array: Array | None) -> None:
        length, code = struct.unpack("<Qi", self._receive(12))
        length -= 4
        if code == wanted and array is not None and length == array.nbytes:
            self._receive_into(array.data.cast("B"))
            return
        said = self._receive(length)
        if code == _EXCEPTION:  # one string: how many values, its type, its length
            raise RuntimeError(said[16:].decode(errors="replace"))
        if code != wanted or array is not None:
            raise RuntimeError(f"the board answered a copy with code {code} and {length} bytes")

    def _receive(self, count: int) -> bytes:
        data = bytearray(count)
        self._receive_into(memoryview(data))
        return bytes(data)

    def _receive_into(self, rest: memoryview) -> None:
        while rest:
            got = self._socket.recv_into(rest)
            if not got:
                raise ConnectionError("the board closed the connection")
            rest = rest[got:]


def _header(code: int, tensor: Any, nbytes: int, follow: int) -> bytes:
    """A copy's packet without the tensor's bytes: length, code, the remote DLTensor, bytes to copy."""
    # What TVM keeps as a remote tensor's data is a record that begins with the data's address on the board.
    address = ctypes.c_uint64.from_address(tensor.data_ptr()).value
    shape, dtype = tuple(map(int, tensor.shape)), np.dtype(str(tensor.dtype))
    body = struct.pack(
        f"<iQiiiBBH{len(shape)}qQQ",
        *(
            code,
            address,
            _CPU,
            0,
            len(shape),
            _TYPE_CODES[dtype.kind],
            8 * dtype.itemsize,
            1,
            *shape,
            0,
            nbytes,
        ),
    )
    return struct.pack("<Q", len(body) + follow) + body


def _sockets() -> set[int]:
    """This process's open sockets."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing itself
            if path.is_socket():
                found.add(int(path.name))
    return found
