"""Fleet files of boards that are this machine, and ports for them."""

from __future__ import annotations

import contextlib
import platform
import random
import socket
from pathlib import Path


def free_port() -> int:
    """A port that nobody listens on, and that no connection gets meanwhile."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(10_000, lowest) if lowest > 12_000 else 0))
            port: int = free.getsockname()[1]
            return port


def write_fleet(path: Path, boards: list[dict[str, object]], listen: int = 0) -> Path:
    """A fleet file with these boards; boards dial in at the port ``listen``.

    Each target that they name is this machine, but a kind of its own.
    """
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
    lines = ["[gateway]", f'listen = "127.0.0.1:{listen}"']
    for kind, entries in (("board", boards), ("target", targets)):
        for entry in entries:
            lines += [f"[[{kind}]]", *(f"{key} = {value!r}" for key, value in entry.items())]
    path.write_text("\n".join(lines) + "\n")
    return path
