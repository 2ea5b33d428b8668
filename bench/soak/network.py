"""A bad network: a proxy before a port that holds back, delays and cuts what goes through it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ELF = b"\x7fELF"


class Proxy:
    """Passes connections on to a port of the loopback interface.

    ``delay_s`` is added to every piece. While it is ``silent`` nothing gets through and nobody is told, as
    when every packet is lost; what TCP would send again goes on afterwards. The next ``cuts`` uploads of
    candidates are cut in their middle.
    """

    def __init__(self, port: int) -> None:
        self._port, self.cuts, self.done = port, 0, 0
        self.delay_s = 0.0
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Listen no more, and end what goes through it."""
        self.silent = False
        _hang_up(self._listener)
        self.cut()

    def cut(self) -> None:
        """End every connection that there is now."""
        for each in list(self._open):
            _hang_up(each)

    @property
    def silent(self) -> bool:
        """Whether nothing gets through."""
        return not self._flows.is_set()

    @silent.setter
    def silent(self, value: bool) -> None:
        if value:
            self._flows.clear()
        else:
            self._flows.set()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            board = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            _hang_up(client)
            return
        self._open |= {client, board}
        back = threading.Thread(target=self._pass_on, args=(board, client, False), daemon=True)
        back.start()
        self._pass_on(client, board, True)
        back.join()
        self._open -= {client, board}

    def _pass_on(self, source: socket.socket, sink: socket.socket, to_board: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                at = data.find(_ELF) if to_board and self.cuts > 0 else -1
                if at >= 0:
                    self.cuts, self.done = self.cuts - 1, self.done + 1
                    sink.sendall(data[: at + 1000])
                    break
                sink.sendall(data)
        _hang_up(source)
        _hang_up(sink)


def _hang_up(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
    peer.close()


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A Proxy that is closed in the end."""
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
