"""A small typed client of the REST API (docs/api.md), which the command line is built on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilefleet import errors
from tilefleet.connection import Connection, given
from tilefleet.sse import Event

# Each method imports the schema that it returns: to build them all takes as long as a command may wait for.
if TYPE_CHECKING:
    from numpy.typing import NDArray

    from compiler.intake.shapes import GivenShapes
    from server.baselines.schemas import Baseline
    from server.boards.schemas import Board, BoardEvent, FleetReport, Withdrawn
    from server.jobs.schemas import Task
    from server.models.schemas import BuildCheck, Model, Workloads
    from server.profiles.schemas import Profile
    from server.records.schemas import DamagedRecord, Imported, Record
    from server.records.search import Sort
    from tilefleet.job import Job


class Client(Connection):
    """Talks to one Tilefleet server.

    Methods return typed resources and raise ``tilefleet.errors.ProblemError`` when the server refuses,
    ``ServerUnreachable`` when it does not answer. Use it as a context manager or call ``close``.
    """

    def upload(
        self,
        path: str | Path,
        name: str | None = None,
        shapes: GivenShapes = None,
        values: dict[str, list[float]] | None = None,
        data: Sequence[Path] = (),
    ) -> Model:
        """Upload a model file; the same bytes give the same model again.

        What it keeps in other files goes with it: those beside it, and ``data``, by their names. Raises
        ``TilefleetError`` when one is missing. ``shapes`` is for dynamic inputs, one set or several; those
        that ``values`` names become constants of the model.
        """
        from server.models.schemas import Model

        path = Path(path)
        params = {"name": name or path.name}
        if shapes:
            params["shapes"] = json.dumps(shapes)
        if values:
            params["values"] = json.dumps(values)
        # Here, because onnx takes a while to import, which no other request should wait for.
        from compiler.intake.assemble import packed
        from compiler.ir.checks import ModelError

        try:
            with packed(path, data) as whole, whole.open("rb") as file:
                body = iter(lambda: file.read(1 << 20), b"")
                response = self._send("POST", "/api/v1/models", params=params, content=body)
        except ModelError as error:
            raise errors.TilefleetError(errors.named(path, error)) from None
        return Model.model_validate(response.json())

    def upload_for(
        self,
        path: Path,
        shapes: GivenShapes,
        values: dict[str, list[float]] | None = None,
        data: Sequence[Path] = (),
    ) -> Model:
        """``upload`` for a job that is given ``shapes`` as well: the model may be stored with others."""
        try:
            return self.upload(path, shapes=shapes, values=values, data=data)
        except errors.Conflict as conflict:
            try:
                return self.upload(path, values=values, data=data)
            except errors.InvalidInput:
                raise conflict from None

    def models(self) -> Iterator[Model]:
        """All models, page by page."""
        from server.models.schemas import Model

        return self._pages("/api/v1/models", Model, {})

    def model(self, model_hash: str) -> Model:
        """One model."""
        from server.models.schemas import Model

        return self._get(f"/api/v1/models/{model_hash}", Model)

    def workloads(self, model_hash: str) -> Workloads:
        """What a model asks to be computed, and what of it cannot be tuned and why."""
        from server.models.schemas import Workloads

        return self._get(f"/api/v1/models/{model_hash}/workloads", Workloads)

    def check_module(self, model_hash: str, target: str, build: dict[str, Any]) -> BuildCheck:
        """Have a model built and run on a board of ``target``, beside its definition; ``build`` has the other
        fields of the request. ``Conflict`` when no board came to an answer."""
        from server.models.schemas import BuildCheck

        path, body = f"/api/v1/models/{model_hash}/checks", {**build, "target": target}
        return BuildCheck.model_validate(self._send("POST", path, json=body).json())

    def profile(
        self,
        *,
        model: str,
        board: str | None = None,
        target: str | None = None,
        threads: int = 1,
        shapes: dict[str, list[int]] | None = None,
        numerics: str = "exact-integers",
        inputs: Mapping[str, NDArray[Any]] | None = None,
        outputs: bool = False,
    ) -> Profile:
        """Run a model (its hash) whole on a board, or on any of a target, as its best known configs build it.

        ``inputs`` are arrays by name, random ones where there are none; ``outputs`` brings the outputs back
        (``tilefleet.tensors.to_array``). ``Conflict`` when no board came to an answer.
        """
        from server.profiles.schemas import Profile

        # Here, because numpy takes a while to import, which no other request should wait for.
        from tuner.job.profile import to_tensor

        body = {
            "model": model,
            "board": board,
            "target": target,
            "threads": threads,
            "shapes": shapes,
            "numerics": numerics,
            "inputs": None if inputs is None else {name: to_tensor(each) for name, each in inputs.items()},
            "outputs": outputs,
        }
        return Profile.model_validate(self._send("POST", "/api/v1/profiles", json=body).json())

    def submit(
        self,
        *,
        target: str,
        model: str | None = None,
        workload: dict[str, Any] | None = None,
        trials: int | None = None,
        seconds: float | None = None,
        strategy: str = "model",
        threads: int = 1,
        shapes: GivenShapes = None,
        seed: int = 0,
        numerics: str = "exact-integers",
        priority: int = 0,
        tags: Sequence[str] = (),
        deadline: datetime | None = None,
        name: str = "",
        labels: Sequence[str] = (),
        submitter: str = "",
    ) -> Job:
        """Create a job for a model (its hash) or one workload; it ends when either budget is spent.

        Without a budget it gets 60 trials for each distinct workload.

        ``numerics`` is ``exact``, ``exact-integers`` or ``relaxed``. ``priority`` is from -100 to
        100, higher first; only boards with all ``tags`` measure for it. At its ``deadline`` it ends with what
        it has, also while it waits for a board. ``name`` and ``labels`` are words to find it again by,
        ``submitter`` says who you are.
        """
        body = {
            "target": target,
            "model": model,
            "workload": workload,
            "budget": given(trials=trials, seconds=seconds) or None,
            "strategy": strategy,
            "threads": threads,
            "shapes": shapes,
            "seed": seed,
            "numerics": numerics,
            "priority": priority,
            "tags": list(tags),
            "deadline": deadline.astimezone().isoformat() if deadline else None,
            "name": name,
            "labels": list(labels),
            "submitter": submitter,
        }
        return self._job("POST", "/api/v1/jobs", json=given(**body))

    def jobs(
        self,
        *,
        states: Sequence[str] = (),
        target: str | None = None,
        model: str | None = None,
        labels: Sequence[str] = (),
        search: str | None = None,
        sort: str = "id",
        order: str = "down",
    ) -> Iterator[Job]:
        """All jobs that meet all filters, page by page, the newest first.

        ``model`` is a name or a hash, ``search`` words of what names a job. ``sort`` is ``id``, ``name``,
        ``model``, ``target``, ``state``, ``elapsed`` or ``finished``, ``order`` is ``down`` or ``up``.
        """
        from tilefleet.job import Job

        asked = {"state": list(states), "target": target, "model": model, "label": list(labels)}
        asked |= {"search": search, "sort": sort, "order": order}
        return (job.of(self) for job in self._pages("/api/v1/jobs", Job, asked))

    def job(self, job_id: int) -> Job:
        """One job."""
        return self._job("GET", f"/api/v1/jobs/{job_id}")

    def cancel(self, job_id: int) -> Job:
        """Stop a job; what it measured stays."""
        return self._job("POST", f"/api/v1/jobs/{job_id}/cancel")

    def resume(self, job_id: int, *, seconds: float | None = None, trials: int | None = None) -> Job:
        """Go on with a job that ended, with what is left of its budget or a new one; no trial is repeated."""
        more = given(seconds=seconds, trials=trials) or None
        return self._job("POST", f"/api/v1/jobs/{job_id}/resume", json=more)

    def resume_all(self, /, **which: Any) -> int:
        """Go on with all jobs that were interrupted, or that ``which`` names as the API does; how many."""
        return int(self._send("POST", "/api/v1/jobs:resume", json=which).json()["resumed"])

    def change_job(self, job_id: int, name: str | None = None, labels: Sequence[str] | None = None) -> Job:
        """Give a job another name, or other ``labels`` in the place of those that it has."""
        changes = given(name=name, labels=None if labels is None else list(labels))
        return self._job("PATCH", f"/api/v1/jobs/{job_id}", json=changes)

    def _job(self, method: str, path: str, json: dict[str, Any] | None = None) -> Job:
        from tilefleet.job import Job

        return Job.model_validate(self._send(method, path, json=json).json()).of(self)

    def delete_job(self, job_id: int) -> None:
        """Delete a job that has ended; what it measured stays. ``Conflict`` while it runs."""
        self._send("DELETE", f"/api/v1/jobs/{job_id}")

    def tasks(self, job_id: int) -> list[Task]:
        """The tasks of a job, with their best-so-far curves."""
        from server.jobs.schemas import Task

        items = self._send("GET", f"/api/v1/jobs/{job_id}/tasks").json()["items"]
        return [Task.model_validate(item) for item in items]

    def events(self, job_id: int, last_event_id: str | None = None) -> Iterator[Event]:
        """A job's events from its beginning, or from after ``last_event_id``, until it ends.

        A broken connection is taken up again where it broke; ``ServerUnreachable`` after six tries in a row.
        """
        return self._events(f"/api/v1/jobs/{job_id}/events", f"the events of job {job_id}", last_event_id)

    def job_log(
        self, job_id: int, select: str = "best", k: int | None = None, numerics: str | None = None
    ) -> Iterator[str]:
        """A job's tuning log as JSON lines: ``best``, ``top`` (the ``k`` best) or ``all``.

        The best are those of each workload and pair of layouts, beside what was tried of the untuned
        model's and the analysis's configs; given ``numerics``, of configs that these allow.
        """
        return self._lines(f"/api/v1/jobs/{job_id}/log", select, k, numerics)

    def target_log(
        self, target: str, select: str = "best", k: int | None = None, numerics: str | None = None
    ) -> Iterator[str]:
        """A target's tuning log as JSON lines, over all jobs; ``exact-integers`` unless told otherwise."""
        return self._lines(f"/api/v1/targets/{target}/log", select, k, numerics)

    def targets(self) -> list[dict[str, Any]]:
        """The targets there are, as ``kernels.target.from_json`` reads them."""
        return list(self._send("GET", "/api/v1/targets").json()["items"])

    def target(self, name: str) -> dict[str, Any]:
        """One target."""
        return dict(self._send("GET", f"/api/v1/targets/{name}").json())

    def bests(
        self, target: str, threads: int = 1, numerics: str = "exact-integers", layouts: str = "nchw"
    ) -> Iterator[Record]:
        """The best record of every workload tuned for a target, one a clock, page by page."""
        from server.records.schemas import Record

        params = {"target": target, "threads": threads, "numerics": numerics, "layouts": layouts}
        return self._pages("/api/v1/configs", Record, params)

    def records(
        self,
        *,
        search: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        job: int | None = None,
        error: str | None = None,
        kernel: str | None = None,
        threads: int | None = None,
        clock: str | None = None,
        sort: Sort = "oldest",
    ) -> Iterator[Record]:
        """Records that meet all filters, page by page.

        ``search`` is words that are in a workload's text or the kernel's name, ``workload`` a key, ``target``
        a name, ``error`` a kind, ``none`` or ``any``. ``sort`` is ``oldest``, ``newest``, ``fastest``,
        ``slowest``, ``highest_rate`` or ``lowest_rate``; those without a time are left out of the last four.
        """
        from server.records.schemas import Record

        asked = {"search": search, "workload": workload, "target": target, "job": job, "error": error}
        asked |= {"kernel": kernel, "threads": threads, "clock": clock, "sort": sort}
        return self._pages("/api/v1/records", Record, asked)

    def import_log(self, lines: Iterable[str], target: str | None = None) -> Imported:
        """Add the records of a JSON-lines log, all or nothing; those known already are only counted."""
        from server.records.schemas import Imported

        content = (line.encode() for line in lines)
        params = {"target": target} if target else {}
        response = self._send("POST", "/api/v1/records", params=params, content=content)
        return Imported.model_validate(response.json())

    def best(
        self,
        workload: str,
        target: str,
        threads: int = 1,
        clock: str = "wall",
        numerics: str = "exact-integers",
        layouts: str = "nchw",
    ) -> Record:
        """The best record of a workload (its key) on a target; ``NotFound`` when there is none.

        ``layouts`` is what its config reads and writes, such as ``nchw8c>nchw``, or ``any``.
        """
        from server.records.schemas import Record

        params = {"workload": workload, "target": target, "threads": threads, "clock": clock}
        return self._get("/api/v1/configs/best", Record, {**params, "numerics": numerics, "layouts": layouts})

    def baselines(self, workload: str, target: str, threads: int = 1, clock: str = "wall") -> list[Baseline]:
        """What libraries take for a workload (its key) on a target, the fastest first."""
        from server.baselines.schemas import Baseline

        params = {"target": target, "threads": threads, "clock": clock}
        items = self._send("GET", f"/api/v1/workloads/{workload}/baselines", params=params).json()["items"]
        return [Baseline.model_validate(item) for item in items]

    def put_baseline(
        self,
        workload: str,
        library: str,
        *,
        version: str,
        seconds: float,
        target: str,
        threads: int = 1,
        clock: str = "wall",
    ) -> Baseline:
        """Store what a library takes for a workload that the server knows, in seconds a call; an earlier time
        is replaced."""
        from server.baselines.schemas import Baseline

        params = {"target": target, "threads": threads, "clock": clock}
        body = {"version": version, "seconds": seconds}
        path = f"/api/v1/workloads/{workload}/baselines/{quote(library, safe='')}"
        return Baseline.model_validate(self._send("PUT", path, params=params, json=body).json())

    def forget_imported(self) -> int:
        """Delete all records that came in logs and were not measured here since; how many these were."""
        from server.records.schemas import Forgotten

        return Forgotten.model_validate(self._send("DELETE", "/api/v1/records/imported").json()).records

    def forget(self, record: int) -> None:
        """Delete a record that is damaged or imported; ``Conflict`` for any other."""
        self._send("DELETE", f"/api/v1/records/{record}")

    def damaged(self) -> Iterator[DamagedRecord]:
        """The records that cannot be read."""
        from server.records.schemas import DamagedRecord

        return self._pages("/api/v1/records/damaged", DamagedRecord, {})

    def boards(self) -> list[Board]:
        """The boards there are."""
        from server.boards.schemas import Board

        return [Board.model_validate(item) for item in self._send("GET", "/api/v1/boards").json()["items"]]

    def report(self, days: int = 7) -> FleetReport:
        """What the fleet did in the last days: availability, use, and the share of trials lost to the lab."""
        from server.boards.schemas import FleetReport

        return self._get("/api/v1/boards/report", FleetReport, {"days": days})

    def board(self, board: str) -> Board:
        """One board."""
        from server.boards.schemas import Board

        return self._get(f"/api/v1/boards/{quote(board, safe='')}", Board)

    def board_history(self, board: str, limit: int = 50) -> list[BoardEvent]:
        """The last ``limit`` (at most 500) things that happened to a board, the newest first."""
        from server.boards.schemas import BoardEvent

        path = f"/api/v1/boards/{quote(board, safe='')}/history"
        items = self._send("GET", path, params={"limit": limit}).json()["items"]
        return [BoardEvent.model_validate(item) for item in items]

    def withdraw(self, board: str, since: datetime | None = None, good_too: bool = False) -> Withdrawn:
        """Take back what a board measured since its last good health check, or since a time (UTC).

        Failures go too, and peak, bandwidth and times of layout changes that it said. ``Conflict`` for a time
        before that check, unless ``good_too``, which without a time takes back everything.
        """
        from server.boards.schemas import Withdrawn

        path = f"/api/v1/boards/{quote(board, safe='')}/withdraw"
        body = {"good_too": good_too} | ({} if since is None else {"since": since.isoformat()})
        return Withdrawn.model_validate(self._send("POST", path, json=body).json())

    def reload_fleet(self) -> dict[str, list[str]]:
        """Have the fleet file and its tokens read again; the names of boards that were added, and so on."""
        return dict(self._send("POST", "/api/v1/fleet:reload").json())

    def change_board(self, board: str, action: str, reason: str | None = None) -> Board:
        """``drain``, ``park`` (which needs a reason), ``return`` or ``retire`` a board; ``Conflict`` when
        its health does not allow it."""
        from server.boards.schemas import Board

        body = {} if reason is None else {"reason": reason}
        path = f"/api/v1/boards/{quote(board, safe='')}/{action}"
        return Board.model_validate(self._send("POST", path, json=body).json())

    def version(self) -> dict[str, Any]:
        """The server's version and those of its tool chain."""
        return dict(self._send("GET", "/version").json())

    def health(self) -> dict[str, Any]:
        """The server's own view of its health."""
        return dict(self._send("GET", "/health").json())
