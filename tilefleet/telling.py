"""What ``tilefleet.tune`` does meanwhile, on standard error."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tilefleet import render
from tilefleet.job import Job, Source
from tilefleet.phases import ShareBar

REDRAW_S, LINE_S = 0.5, 10.0


class Telling:
    """In a terminal one line with a bar and a clock, which goes in the end; elsewhere a line now and then."""

    def __init__(self, console: Console, bar: Progress) -> None:
        self._console, self._bar = console, bar
        self._task = bar.add_task("starting", total=None, share=None)

    def say(self, text: str) -> None:
        """What begins now; nobody knows how long it takes."""
        self._bar.update(self._task, description=text, share=None)
        if not self._console.is_terminal:
            self._console.print(text, soft_wrap=True, markup=False)

    def follow(self, job: Job, source: Source) -> Job:
        """Show how far the job is until it ends; the job as it then is."""
        pause_s = REDRAW_S if self._console.is_terminal else LINE_S
        told = -math.inf
        for event in source.events(job.id):
            if event.name != "progress" or time.monotonic() - told < pause_s:
                continue
            told = time.monotonic()
            job = source.job(job.id)
            if self._console.is_terminal:
                words = f"tuning: {render.ms(job.estimated_ms)}  {render.summary(job)}"
                self._bar.update(self._task, description=words, share=render.share_used(job))
            else:
                self._console.print(render.plain_progress(job), soft_wrap=True)
        return source.job(job.id)


@contextmanager
def telling(shown: bool) -> Iterator[Telling]:
    """Tell meanwhile, unless not ``shown``."""
    console = Console(stderr=True, highlight=False, quiet=not shown)
    columns = (ShareBar(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    live = shown and console.is_terminal
    # What goes to standard output is the script's business.
    with Progress(*columns, console=console, transient=True, disable=not live, redirect_stdout=False) as bar:
        yield Telling(console, bar)
