"""From a candidate to a shared object in the artifact store, in a disposable child."""

from __future__ import annotations

import signal
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from worker.build.artifacts import ArtifactStore
from worker.build.space import SPACE_S, for_want_of_space
from worker.candidate import Candidate
from worker.children.nursery import ChildCancelled, ChildCrashed, ChildRaised, ChildTimeout, Flag, Nursery
from worker.outcome import ErrorKind, Outcome

ENTRY = "main"
"""The name every candidate's function is exported by."""
BUILD_MEMORY_BYTES = 4 << 30
"""What a compiler may allocate; where it runs out of that, it gets as much again, once."""
TRIES = 3
"""How often a build is tried that somebody kills: the system, short of memory, or an operator."""
_OUT_OF_MEMORY = ("out of memory", "MemoryError", "bad_alloc")
_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True)
class Built:
    """A candidate's shared object: where it is, its content's hash, and what making it took.

    ``data`` is its content while it is on its way to a board that may be on another machine.
    """

    candidate: Candidate
    path: Path
    sha256: str
    build_s: float
    toolchain: dict[str, str] = field(default_factory=dict)
    data: bytes = b""


class Builder:
    """Builds candidates in children of ``nursery`` into ``store``; safe to use from many threads."""

    def __init__(self, nursery: Nursery, store: ArtifactStore) -> None:
        self.nursery, self.store = nursery, store
        self._known: dict[Candidate, str] = {}
        """What was built before: the best few are wanted again when they are measured again."""

    @cached_property
    def toolchain(self) -> dict[str, str]:
        """The versions that shape the code."""
        versions: dict[str, str] = self.nursery.call("worker.build.toolchain:versions", None, timeout_s=60)
        return versions

    def build(
        self, candidate: Candidate, timeout_s: float = 30.0, cancelled: Flag | None = None
    ) -> Built | Outcome:
        """Build one candidate; an Outcome with an error kind when it cannot be had.

        Being killed says nothing of a candidate: that is tried again, and at last ends as ``build_killed``.
        """
        outcome: Built | Outcome
        memory_bytes = BUILD_MEMORY_BYTES
        for _ in range(TRIES):
            outcome = self._with_space(candidate, timeout_s, memory_bytes, cancelled)
            if isinstance(outcome, Built):
                return outcome
            if _ran_out(outcome):
                if memory_bytes > BUILD_MEMORY_BYTES:
                    message = f"the compiler needs more than {memory_bytes >> 30} GB: {outcome.message}"
                    return replace(outcome, message=message)
                memory_bytes *= 2
            elif outcome.error is not ErrorKind.BUILD_KILLED:
                return outcome
        return outcome

    def _with_space(
        self, candidate: Candidate, timeout_s: float, memory_bytes: int, cancelled: Flag | None
    ) -> Built | Outcome:
        """One try; while the disk is full, it waits."""
        while True:
            try:
                outcome = self._try(candidate, timeout_s, memory_bytes, cancelled)
            except OSError as error:
                outcome = Outcome(error=ErrorKind.BUILD_KILLED, message=str(error))
            if isinstance(outcome, Built) or not for_want_of_space(outcome.message):
                return outcome
            if cancelled is not None and cancelled.is_set():
                return replace(outcome, error=ErrorKind.CANCELLED)
            time.sleep(SPACE_S)

    def _try(
        self, candidate: Candidate, timeout_s: float, memory_bytes: int, cancelled: Flag | None
    ) -> Built | Outcome:
        toolchain, started = self.toolchain, time.perf_counter()
        known = self._known.get(candidate)
        if known is not None and self.store.path(known).exists():
            return Built(candidate, self.store.path(known), known, 0.0, toolchain)

        def failed(kind: ErrorKind, message: str) -> Outcome:
            spent = time.perf_counter() - started
            return Outcome(error=kind, message=message, build_s=spent, toolchain=toolchain)

        # What a killed child leaves behind goes with this folder.
        with tempfile.TemporaryDirectory(prefix="tilefleet-build-") as scratch:
            payload = {
                "candidate": candidate.to_json(),
                "store": str(self.store.folder),
                "scratch": scratch,
            }
            try:
                answer = self.nursery.call(
                    "worker.build.build:build_in_child",
                    payload,
                    timeout_s=timeout_s,
                    memory_bytes=memory_bytes,
                    cancelled=cancelled,
                )
            except ChildCancelled:
                return failed(ErrorKind.CANCELLED, "cancelled while building")
            except ChildTimeout:
                return failed(ErrorKind.BUILD_TIMEOUT, f"not built within {timeout_s:g} s")
            except ChildCrashed as crash:
                if crash.signal == signal.SIGKILL:  # no compiler does that to itself
                    return failed(ErrorKind.BUILD_KILLED, f"the compiler was killed, {TRIES} times")
                last = first_line(crash.stderr_tail[-_MESSAGE_CHARACTERS:])
                why = f" ({last})" if any(word in last for word in _OUT_OF_MEMORY) else ""
                return failed(ErrorKind.BUILD_ERROR, f"the compiler died: {_death(crash)}{why}")
            except ChildRaised as raised:
                return failed(ErrorKind.BUILD_ERROR, first_line(f"{raised.type_name}: {raised.message}"))
        if "constraints" in answer:
            return failed(ErrorKind.CONSTRAINTS, answer["constraints"])
        sha256 = self._known[candidate] = answer["sha256"]
        spent = time.perf_counter() - started
        return Built(candidate, self.store.path(sha256), sha256, spent, toolchain)


def first_line(message: str) -> str:
    """The first line with something in it, kept short."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"


def _ran_out(outcome: Outcome) -> bool:
    """Whether its memory was too little, as far as it could say."""
    return outcome.error is ErrorKind.BUILD_ERROR and any(word in outcome.message for word in _OUT_OF_MEMORY)


def _death(crash: ChildCrashed) -> str:
    return signal_name(crash.signal) if crash.signal else str(crash)


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def build_in_child(payload: dict[str, Any]) -> dict[str, str]:
    """Child: ``{"sha256": ...}`` of the stored object, or ``{"constraints": why}`` for an invalid config."""
    from kernels import registry
    from kernels.emit.compile import compile_object
    from worker.build.toolchain import link

    tempfile.tempdir = payload["scratch"]
    candidate = Candidate.from_json(payload["candidate"])
    workload, config, target = candidate.workload, candidate.config, candidate.target
    space = registry.space_of(workload, config, target, candidate.threads)
    reason = space if isinstance(space, str) else space.why_not(config)
    if reason is not None:
        return {"constraints": reason}
    func = registry.kernel(config.kernel).build(workload, config, target, candidate.threads, ENTRY)
    sha256, _ = ArtifactStore(Path(payload["store"])).put(link(compile_object(func, target)))
    return {"sha256": sha256}
