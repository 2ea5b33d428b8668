"""What a disposable child works out for an answer of the API, within its time and memory."""

from __future__ import annotations

from typing import Any, Protocol

from server.http.problems import Problem
from worker.children.nursery import ChildCancelled, ChildCrashed, ChildRaised, ChildTimeout, Flag

TIMEOUT_S = 60.0
MEMORY_BYTES = 4 << 30


class Nursery(Protocol):
    """What runs a function in a disposable child (``worker.children.nursery.Nursery``)."""

    def call(
        self,
        function: str,
        payload: Any,
        *,
        timeout_s: float,
        memory_bytes: int | None = None,
        cancelled: Flag | None = None,
    ) -> Any:
        """Call ``"module:function"`` with ``payload``."""


GONE = "the connection broke before the answer was there"


def worked_out(
    nursery: Nursery,
    function: str,
    payload: Any,
    doing: str,
    cannot: str,
    cancelled: Flag,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """What ``function`` says of ``payload``; ends early once ``cancelled`` is set.

    Raises a 503 problem where ``doing`` that takes too long or ends the child, a 422 problem with the child's
    reason behind ``cannot`` where it refuses.
    """
    try:
        return nursery.call(
            function, payload, timeout_s=timeout_s, memory_bytes=MEMORY_BYTES, cancelled=cancelled
        )
    except ChildCancelled:
        raise Problem(400, GONE) from None
    except ChildTimeout:
        raise Problem(503, f"{doing} took more than {timeout_s:.0f} s") from None
    except ChildCrashed as error:
        raise Problem(503, f"{doing} failed: {error}") from None
    except ChildRaised as error:
        raise Problem(422, f"{cannot}: {error.message or error.type_name}") from None
