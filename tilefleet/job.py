"""A job as the client gives it: what it is, and what one does with it in a script or a notebook."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator
from typing import Any, Protocol, Self

from pydantic import PrivateAttr

from server.jobs import schemas
from server.jobs.schemas import Task
from tilefleet.errors import TilefleetError
from tilefleet.sse import Event


class Source(Protocol):
    """What a job asks its client for."""

    url: str

    def job(self, job_id: int) -> Job:
        """One job."""

    def tasks(self, job_id: int) -> list[Task]:
        """Its tasks."""

    def events(self, job_id: int, last_event_id: str | None = None) -> Iterator[Event]:
        """Its events until it ends."""

    def job_log(
        self, job_id: int, select: str = "best", k: int | None = None, numerics: str | None = None
    ) -> Iterator[str]:
        """Its log."""


class Job(schemas.Job):
    """A job and how far it was when it was asked for; ``refresh`` asks again.

    In a notebook it shows itself as a table, and ``watch`` keeps that table up to date.
    """

    _source: Source | None = PrivateAttr(None)

    def of(self, source: Source) -> Self:
        """The same job, which asks ``source``."""
        self._source = source
        return self

    @property
    def client(self) -> Source:
        """The client that it came from; TilefleetError where it came from none."""
        if self._source is None:
            raise TilefleetError("this job did not come from a client")
        return self._source

    def refresh(self) -> Job:
        """The job as it is now."""
        return self.client.job(self.id)

    def wait(self) -> Job:
        """Wait until the job has ended; the job as it then is, whatever its state."""
        for _ in self.client.events(self.id):
            pass
        return self.refresh()

    def tasks(self) -> list[Task]:
        """Its tasks, one a distinct layer, with their best costs so far."""
        return self.client.tasks(self.id)

    def log(self, select: str = "best") -> list[str]:
        """Its tuning log as JSON lines: ``best``, ``top`` or ``all``."""
        return list(self.client.job_log(self.id, select))

    def to_frame(self) -> Any:
        """All its records so far as a ``pandas.DataFrame``: a row a trial, a column a fact (docs/log.md).

        Raises TilefleetError where pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise TilefleetError("a data frame needs pandas: pip install pandas") from None
        from tuner.log.record import read_log
        from tuner.log.rows import rows

        return pandas.DataFrame(rows(read_log(self.log("all"))))

    def watch(self) -> Job:
        """Show the job in a notebook, live, until it ends; the job as it then is.

        Raises TilefleetError where IPython is not installed: in a terminal it is ``tilefleet watch``.
        """
        try:
            display = importlib.import_module("IPython.display").display
        except ImportError:
            raise TilefleetError("a live view needs a notebook; in a terminal: tilefleet watch") from None
        handle = display(self, display_id=True)
        for event in self.client.events(self.id):
            if event.name in ("best", "progress", "state"):
                handle.update(self.refresh())
        ended = self.refresh()
        handle.update(ended)
        return ended

    def _repr_html_(self) -> str:
        """The job and its layers as a table, for notebooks."""
        tasks = [] if self._source is None else self.tasks()
        rows = "".join(
            f"<tr><td>{html.escape(task.text)}</td><td>{task.weight}</td><td>{task.trials}</td>"
            f"<td>{_ms(task.recommended_s)}</td><td>{_ms(task.best_s)}</td></tr>"
            for task in tasks
        )
        name = html.escape(self.model_name or "one workload")
        link = (
            name
            if self._source is None
            else f'<a href="{html.escape(self._source.url)}/jobs/{self.id}">{name}</a>'
        )
        took = self.built.measured_ms if self.built else self.estimated_ms
        figures = (
            f"{self.trials} trials, {self.failed} failed; {_ms(None if took is None else took / 1e3)} ms"
        )
        figures += " built and measured" if self.built else " estimated"
        return (
            f"<p><b>job {self.id}</b>: {link} for {html.escape(self.target)}, {self.state}; {figures}</p>"
            f"<p>{html.escape(self.message)}</p>"
            "<table><tr><th>layer</th><th>times</th><th>trials</th><th>untuned ms</th><th>best ms</th></tr>"
            f"{rows}</table>"
        )


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"
