"""What takes long while the service starts and ends, told to whoever waits for it."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from datetime import datetime

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar

from worker.phases import phases


class ShareBar(ProgressColumn):
    """How much is done, by a task's field ``share``; nothing where that is None, as nobody knows."""

    def render(self, task: Task) -> RenderableType:
        """The bar."""
        share = task.fields["share"]
        return "" if share is None else ProgressBar(total=1.0, completed=share, width=20)


class Told(logging.Handler, AbstractContextManager["Told"]):
    """Prints each phase as a line with the time on standard error, in a terminal with a clock beside it, and
    with a bar where it is known how much is done.

    A context manager; ``ready`` ends the clock, after which there are only lines.
    """

    def __init__(self) -> None:
        super().__init__()
        console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), ShareBar(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("starting", total=None, share=None)

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
        """A line, and the words beside the clock; a share moves the bar alone."""
        if hasattr(record, "share"):
            self._bar.update(self._task, share=record.share)
            return
        text = record.getMessage()
        self._bar.console.print(f"{datetime.now():%H:%M:%S} {text}", soft_wrap=True, markup=False)
        self._bar.update(self._task, description=text, share=None)
