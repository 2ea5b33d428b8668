"""Reading a model that may be hostile: with a deadline and a limit of memory, also where C code does it."""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from compiler.intake.shapes import Shapes
from tilefleet.errors import TilefleetError

TIMEOUT_S = 60.0
MEMORY_BYTES = 8 << 30
GRACE_S = 5.0
"""How long the command may take to end by itself, which it cannot while C code runs."""


class _Late(BaseException):
    """The deadline passed. No exception of the usual kind, as who reads may expect any of those."""


def read_once(path: Path, name: Path, sets: Sequence[Shapes]) -> None:
    """Read the model at ``path``, which the user calls ``name``, as ``check`` and ``build`` will.

    Raises TilefleetError where that takes too long or too much memory. What else is wrong with it is told by
    those who read it for good.
    """
    from compiler.intake.extract import extract
    from compiler.intake.shapes import given_of

    seconds = TIMEOUT_S * max(1, len(sets))
    with _limited(f"{name}: reading it took more than {seconds:.0f} s", seconds):
        try:
            extract(path, given_of(sets))
        except MemoryError:
            too_much = f"{name}: reading it took more than {MEMORY_BYTES >> 30} GB of memory"
            raise TilefleetError(too_much) from None
        except ValueError:
            return


@contextmanager
def _limited(late: str, seconds: float) -> Iterator[None]:
    """What is done inside ends with a TilefleetError that says ``late`` after so many seconds; the process is
    killed with these words where it cannot be interrupted."""

    expired = False

    def interrupted(*_: object) -> NoReturn:
        nonlocal expired
        expired = True
        raise _Late

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + MEMORY_BYTES
    before = signal.signal(signal.SIGUSR1, interrupted)
    told, tell = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.close(tell)
        _watch(told, late, seconds)
    os.close(told)
    try:
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        yield
    except _Late:
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        os.close(tell)
        os.waitpid(watcher, 0)
        signal.signal(signal.SIGUSR1, before)
    if expired:
        raise TilefleetError(late)


def _watch(told: int, late: str, seconds: float) -> NoReturn:
    """A process beside the one that reads, which has ``told`` closed when it is done."""
    reader = os.getppid()
    with suppress(BaseException):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not select.select([told], [], [], seconds)[0]:
            os.kill(reader, signal.SIGUSR1)
            if not select.select([told], [], [], GRACE_S)[0] and os.getppid() == reader:
                os.write(2, f"tilefleet: {late}\n".encode())
                os.kill(reader, signal.SIGKILL)
    os._exit(0)
