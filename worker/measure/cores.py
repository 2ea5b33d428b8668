"""The cores of this machine: which of them builds use, which its own board, and who rests for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from worker.children.nursery import Flag

_POLL_S = 0.05


class Cores:
    """The cores for builds and those of this machine as a board.

    Where they share one, builds rest while the board is used, and it is used only once the builds under way
    have ended: a time that is measured beside a build says nothing. Used from many threads.
    """

    def __init__(self, builds: Sequence[int], board: Sequence[int]) -> None:
        self.builds, self.board = list(builds), list(board)
        self._shared = not set(builds).isdisjoint(board)
        self._changed = threading.Condition()
        self._building = self._measuring = 0

    @contextmanager
    def building(self, given_up: Flag | None = None) -> Iterator[None]:
        """A build, once the board rests or ``given_up`` is set. Any number of them run at once."""
        with self._changed:
            self._await(lambda: not self._measuring, given_up)
            self._building += 1
        try:
            yield
        finally:
            with self._changed:
                self._building -= 1
                self._changed.notify_all()

    @contextmanager
    def measuring(self, given_up: Flag | None = None) -> Iterator[None]:
        """Use of the board, once no build runs or ``given_up`` is set."""
        with self._changed:
            self._measuring += 1  # from now on no build begins
            self._await(lambda: not self._building, given_up)
        try:
            yield
        finally:
            with self._changed:
                self._measuring -= 1
                self._changed.notify_all()

    def _await(self, free: Callable[[], bool], given_up: Flag | None) -> None:
        while self._shared and not free() and not (given_up and given_up.is_set()):
            self._changed.wait(_POLL_S)
