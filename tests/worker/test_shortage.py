"""No descriptors or no memory left here: it is waited for, and no board is to blame."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from worker.children import nursery as nurseries
from worker.children.nursery import Nursery
from worker.engine.engine import Engine
from worker.fleet.dispatcher import CannotCheck
from worker.shortage import Shortage, shortage


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_call_waits_for_descriptors_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    real, fails = os.pipe, [errno.EMFILE, errno.ENFILE]

    def pipe() -> tuple[int, int]:
        if fails:
            raise OSError(fails.pop(), "too many")
        return real()

    with Nursery(preload=()) as nursery:
        assert nursery.call("math:sqrt", 4, timeout_s=120) == 2
        before = descriptors()
        monkeypatch.setattr(os, "pipe", pipe)
        assert nursery.call("math:sqrt", 9, timeout_s=120) == 3
        assert not fails
        fails[:] = [errno.EMFILE] * 1000
        monkeypatch.setattr(nurseries, "_SHORT_S", 0.5)
        with pytest.raises(Shortage, match="short of descriptors or memory"):
            nursery.call("math:sqrt", 9, timeout_s=120)
        fails.clear()
        assert descriptors() == before


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "files"), OSError(errno.ENOMEM, "memory"), MemoryError(), Shortage("x")]
)
def test_a_check_that_lacks_something_here_says_nothing_of_the_board(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Workers:
        async def run_on(self, *_: Any, **__: Any) -> None:
            raise error

    monkeypatch.setattr(Engine, "_workers", Workers())
    engine = Engine.__new__(Engine)
    with pytest.raises(CannotCheck):
        asyncio.run(engine._check("a", None))  # type: ignore[arg-type]


def test_other_errors_are_what_they_are() -> None:
    assert shortage(OSError(errno.ENOENT, "none")) is None
    assert shortage(ValueError()) is None
