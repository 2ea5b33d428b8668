"""Extraction in a disposable child, its failures told as problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compiler.intake.extraction import Extraction
from compiler.intake.shapes import GivenShapes, Values
from server.http.problems import Problem
from server.in_child import GONE, Nursery
from worker.children.nursery import ChildCancelled, ChildCrashed, ChildRaised, ChildTimeout, Flag

TIMEOUT_S = 60.0
"""For all sets of shapes together."""
MEMORY_BYTES = 8 << 30


def extract(
    nursery: Nursery,
    path: Path,
    name: str,
    shapes: GivenShapes,
    cancelled: Flag | None = None,
    assembled: Path | None = None,
    values: Values | None = None,
    largest: int = 0,
) -> Extraction:
    """The workloads of the model at ``path``, called ``name`` by the user; raises a 422 problem.

    It ends early once ``cancelled`` is set. Given ``assembled``, the model is written there, with the
    ``values`` of its inputs and the data that a zip has beside it, unless that makes more than ``largest``
    bytes.
    """
    payload: dict[str, Any] = {"path": str(path), "shapes": shapes}
    if assembled is not None:
        payload |= {"assembled": str(assembled), "largest": largest}
        payload["values"] = {k: list(v) for k, v in (values or {}).items()}
    found = _asked(nursery, "compiler.intake.extract:extract_child", payload, name, cancelled, assembled)
    return Extraction.from_json(found)


def read_graph(
    nursery: Nursery, path: Path, name: str, shapes: GivenShapes, cancelled: Flag
) -> list[dict[str, Any]]:
    """The nodes of the model at ``path`` (``compiler.intake.outline``); raises a 422 problem."""
    payload = {"path": str(path), "shapes": shapes}
    found: list[dict[str, Any]] = _asked(
        nursery, "compiler.intake.outline:outline_child", payload, name, cancelled
    )
    return found


def _asked(
    nursery: Nursery,
    function: str,
    payload: dict[str, Any],
    name: str,
    cancelled: Flag | None,
    assembled: Path | None = None,
) -> Any:
    """What ``function`` says of the file at ``payload["path"]``."""
    path = Path(payload["path"])
    try:
        return nursery.call(
            function, payload, timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES, cancelled=cancelled
        )
    except ChildCancelled:
        raise Problem(400, GONE) from None
    except ChildTimeout:
        sets = payload["shapes"]
        many = len(sets) if isinstance(sets, list) else 1
        all_of, way_out = "", "cut the model, or fold what follows from shapes alone (onnxsim)"
        if many > 1:
            all_of, way_out = f" with all {many} sets of shapes", "give fewer of them"
        detail = f"model {name}: reading it{all_of} took more than {TIMEOUT_S:.0f} s"
        raise Problem(422, f"{detail}; {way_out}") from None
    except ChildCrashed as error:
        how = f"signal {error.signal}" if error.signal else str(error)
        raise Problem(422, f"model {name}: the process that read it died ({how})") from None
    except ChildRaised as error:
        message = error.message.replace(path.name, name)
        if assembled is not None:
            message = message.replace(assembled.name, name)
        if error.type_name == "MemoryError":
            message = f"reading it took more than {MEMORY_BYTES >> 30} GB of memory"
        elif error.type_name != "ModelError":
            message = f"reading it failed: {error.type_name}: {message.splitlines()[0] if message else ''}"
        raise Problem(422, f"model {name}: {message.removeprefix(f'{name} ')}") from None
