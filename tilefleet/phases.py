"""What takes long while the service starts and ends, told to whoever waits for it."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from datetime import datetime

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from worker.phases import phases


class Told(logging.Handler, AbstractContextManager["Told"]):
    """Prints each phase as a line with the time on standard error, in a terminal with a clock beside it.

    A context manager; ``ready`` ends the clock, after which there are only lines.
    """

    def __init__(self) -> None:
        super().__init__()
        console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Told:
        phases.addHandler(self)
        phases.setLevel(logging.INFO)
        phases.propagate = False
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ready()
        phases.removeHandler(self)

    def ready(self) -> None:
        """What was waited for is there."""
        self._bar.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """A line, and the words beside the clock."""
        text = record.getMessage()
        self._bar.console.print(f"{datetime.now():%H:%M:%S} {text}", soft_wrap=True, markup=False)
        self._bar.update(self._task, description=text)
