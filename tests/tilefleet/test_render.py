"""What people read of boards: no simulated time without its mark, and no figure that is hard to read."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType

from kernels.workload import QConv2d
from tilefleet import render
from tilefleet.resources import Board, BoardEvent, Record, Task

SIMULATED = "simulated:rpi4-sim:0123456789ab"


def text(shown: RenderableType) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def board(**changes: Any) -> Board:
    facts = {
        "id": "pi",
        "target": "rpi4",
        "clock": SIMULATED,
        "threads": 1,
        "tags": [],
        "activity": "idle",
        "health": "unknown",
        "reason": "new",
        "draining": False,
        "lease": None,
        "utilisation": 0.0,
        "utilisation_total": 0.0,
        "trials": 0,
        "leases": 1,
        "faults": 2,
        "busy_s": 0.0,
        "timed_s": 0.0,
    }
    return Board.model_validate({**facts, **changes})


def test_a_simulated_board_is_marked_also_before_it_was_ever_timed():
    line = text(render.boards([board()])).splitlines()[1]
    assert "simulated" in line
    assert "wall" not in line
    timed = text(render.board(board(reference_s=0.00125, drift=1.0)))
    assert "1.25 ms (simulated)" in timed
    assert "rpi4, 1 thread\n" in "\n".join(line.rstrip() + "\n" for line in timed.splitlines())
    assert "0 in 1 lease, 2 faults" in timed


def test_tasks_are_marked_by_their_jobs_clock():
    facts = {"weight": 1, "flops": 1, "trials": 1, "failed": 0, "reused": 0, "state": "active", "curve": []}
    task = Task.model_validate(
        {"id": 1, "workload_key": "x", "text": "conv", "workload": {}, "best_s": 1e-3, **facts}
    )
    assert "best ms (simulated)" in text(render.task_table([task], 9, SIMULATED))
    assert "simulated" not in text(render.task_table([task], 9, "wall"))


def test_rates_of_integers_are_no_flops():
    facts = {"id": 1, "workload_key": "0" * 16, "text": "x", "workload": {}, "weight": 1, "flops": 2e6}
    floats, integers = (
        Task.model_validate({**facts, "unit": unit, "state": "active", "best_s": 1e-3, "gflops": 2.0})
        for unit in ("FLOP", "OP")
    )
    for tasks, unit in (([floats], "GFLOP/s"), ([integers], "GOP/s"), ([floats, integers], "GOP/s")):
        assert unit in text(render.task_table(tasks, 9, "wall")).split()
    conv = QConv2d(1, 8, 8, 16, 32, 3, 3)
    record = Record(workload={}, target={}, config={"kernel": "qdirect"}, cost_s=1e-3)
    assert "GOP/s" in text(render.records([(conv, record)])).split()


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
