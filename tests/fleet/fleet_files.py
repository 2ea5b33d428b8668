"""Fleet files, ports, and a proxy that cuts uploads."""

from __future__ import annotations

import contextlib
import platform
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ELF = b"\x7fELF"


def write_fleet(path: Path, boards: list[dict[str, object]]) -> Path:
    """A fleet file with these boards; each target that they name is this machine, but a kind of its own."""
    names = sorted({str(board["target"]) for board in boards if "target" in board})
    targets = [
        {
            "name": name,
            "triple": f"{platform.machine()}-linux-gnu",
            "cpu": "x86-64" if platform.machine() == "x86_64" else "generic",
            "l3_bytes": 1 << 20 + number,
        }
        for number, name in enumerate(names)
    ]
    lines = ["[gateway]", 'listen = "127.0.0.1:0"']
    for kind, entries in (("board", boards), ("target", targets)):
        for entry in entries:
            lines += [f"[[{kind}]]", *(f"{key} = {value!r}" for key, value in entry.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


class Cutter:
    """A proxy before a board's port. The next ``cuts`` uploads of candidates are cut in their middle."""

    def __init__(self, port: int) -> None:
        self._port, self.cuts, self.done = port, 0, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Listen no more, and end what goes through it."""
        for each in (self._listener, *self._open):
            _hang_up(each)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                board = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                _hang_up(client)
                continue
            self._open |= {client, board}
            for source, sink in ((client, board), (board, client)):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, source is client), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, to_board: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
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
def cutter(port: int) -> Iterator[Cutter]:
    """A Cutter that is closed in the end."""
    made = Cutter(port)
    try:
        yield made
    finally:
        made.close()
