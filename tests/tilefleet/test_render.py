"""What people read of boards: no simulated time without its mark, and no figure that is hard to read."""

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from rich.console import Console, RenderableType

from server.boards.schemas import Board, BoardEvent
from server.jobs.schemas import Job, Task
from server.records.schemas import Record
from tilefleet import render

SIMULATED = "simulated:rpi4-sim:0123456789ab"


def text(shown: RenderableType) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def example(kind: type[BaseModel]) -> dict[str, Any]:
    return dict(kind.model_config["json_schema_extra"]["example"])  # type: ignore[index, call-overload]


def board(**changes: Any) -> Board:
    facts = {
        **example(Board),
        **dict.fromkeys(("lease", "reference_s", "best_reference_s", "drift", "checked")),
        "id": "pi",
        "clock": SIMULATED,
        "threads": 1,
        "trials": 0,
        "leases": 1,
    }
    return Board.model_validate({**facts, **changes})


def test_a_simulated_board_is_marked_also_before_it_was_ever_timed():
    line = text(render.boards([board()])).splitlines()[1]
    assert "simulated" in line
    assert "wall" not in line
    timed = text(render.board(board(reference_s=0.00125, drift=1.0)))
    assert "1.25 ms (simulated)" in timed
    assert "rpi4: NEON, 1 thread\n" in "\n".join(line.rstrip() + "\n" for line in timed.splitlines())
    assert "0 in 1 lease, 2 faults" in timed


def test_tasks_are_marked_by_their_jobs_clock():
    task = Task.model_validate(example(Task))
    assert "best ms (simulated)" in text(render.task_table([task], 9, SIMULATED))
    assert "simulated" not in text(render.task_table([task], 9, "wall"))


def test_after_the_search_a_job_says_what_it_does():
    """Its trials are spent, so no other figure would change while the model is compared and built."""
    facts = {**example(Job), "phase": "building", "eta_s": None}
    assert "builds and measures the model" in render.plain_progress(Job.model_validate(facts))
    assert "builds" in text(render.progress(Job.model_validate(facts), [], 4))
    searching = render.summary(Job.model_validate({**facts, "phase": "searching", "eta_s": 51.8}))
    assert "3 known before  0:52 to go" in searching


def test_disturbed_times_are_marked():
    for disturbed in (True, False):
        task = Task.model_validate({**example(Task), "best_s": 1e-3, "best_disturbed": disturbed})
        assert ("1.00 (disturbed)" in text(render.task_table([task], 9, "wall"))) is disturbed
        record = Record.model_validate({**example(Record), "verified_s": 1e-3, "disturbed": disturbed})
        assert ("1.00 (disturbed)" in text(render.records([record]))) is disturbed


def test_rates_of_integers_are_no_flops():
    floats, integers = (Task.model_validate({**example(Task), "unit": unit}) for unit in ("FLOP", "OP"))
    for tasks, unit in (([floats], "GFLOP/s"), ([integers], "GOP/s"), ([floats, integers], "GOP/s")):
        assert unit in text(render.task_table(tasks, 9, "wall")).split()
    record = Record.model_validate({**example(Record), "unit": "OP"})
    assert "GOP/s" in text(render.records([record])).split()


def test_history_is_told_in_words():
    details: list[tuple[str, dict[str, object]]] = [
        ("check", {"seconds": 0.00125, "problem": "", "artifact": "ab" * 32, "temperature_c": 40.5}),
        (
            "fault",
            {"health": "unknown", "before": "good", "reason": "gone", "failures": 1, "draining": False},
        ),
        ("drain", {"health": "good", "before": "good", "reason": "fan", "failures": 0, "draining": True}),
        ("lease_revoked", {"token": 7, "holder": "x/1/2", "job": 3, "reason": "smoke"}),
    ]
    events = [
        BoardEvent(id=number, at=datetime(2026, 1, 1, tzinfo=UTC), kind=kind, detail=detail)
        for number, (kind, detail) in enumerate(details)
    ]
    check, fault, drain, revoked = text(render.board_history(events, SIMULATED)).splitlines()[1:]
    assert "1.25 ms (simulated), code abababababab, temperature_c 40.5" in check
    assert "good -> unknown, gone, 1 failed in a row" in fault
    assert "good, fan, draining" in drain
    assert "lease revoked  smoke, token 7, holder x/1/2, job 3" in " ".join(revoked.split(" "))
