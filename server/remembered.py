"""Answers that take long and stay true: the last few are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Remembered(Generic[Answer]):
    """The ``size`` answers that were asked for last, by what was asked; used by several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, find: Callable[[], Answer]) -> Answer:
        """What ``find`` says, or said the last time; two who ask at once may both have to wait for it."""
        with self._lock:
            if asked in self._answers:
                self._answers.move_to_end(asked)
                return self._answers[asked]
        answer = find()
        with self._lock:
            self._answers[asked] = answer
            self._answers.move_to_end(asked)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)
        return answer
