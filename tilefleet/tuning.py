"""``tilefleet.tune``: a model tuned and built in one call, without a server that anybody has to start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilefleet.client import Client
from tilefleet.errors import TilefleetError
from tilefleet.home import home as usual_home
from tilefleet.job import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

START_S = 300.0
"""The very first start on a machine compiles the agent of its boards."""
STOP_S = 30.0
_PHASE = re.compile(r"^\d\d:\d\d:\d\d (.+)\n", re.MULTILINE)
"""How ``tilefleet up`` says what it does."""


@dataclass(frozen=True)
class Tuned:
    """A built model that takes numpy arrays.

    ``inputs`` are the names of its inputs in their order, ``job`` is how the tuning ended, and ``log`` its
    tuning log as JSON lines.
    """

    inputs: tuple[str, ...]
    job: Job
    log: tuple[str, ...]
    _executable: Any
    _main: Any

    def __call__(self, *arrays: Array, **named: Array) -> Any:
        """The outputs for ``arrays`` in the order of ``inputs``, or by name: an array, or a tuple of several.

        Raises TilefleetError where an input is missing or unknown.
        """
        import numpy as np
        import tvm

        given = dict(zip(self.inputs, arrays, strict=False)) | named
        if len(arrays) + len(named) != len(self.inputs) or given.keys() != set(self.inputs):
            raise TilefleetError(f"the model takes {', '.join(self.inputs)}; got {', '.join(given)}")
        feeds = [tvm.runtime.tensor(np.ascontiguousarray(given[name])) for name in self.inputs]
        out = self._main(*feeds)
        return out.numpy() if hasattr(out, "numpy") else tuple(each.numpy() for each in out)

    def save(self, path: str | Path) -> None:
        """Write the module that stock TVM loads."""
        from tuner.backend.apply import export

        export(self._executable, path)


def tune(
    model: str | Path,
    *,
    seconds: float | None = 60.0,
    trials: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
    numerics: str = "exact-integers",
    home: str | Path | None = None,
    progress: bool = True,
) -> Tuned:
    """Tune an ONNX or TFLite model for this machine, and build it.

    Args:
        model: the file.
        seconds: how long to tune for; None for no limit but ``trials``.
        trials: how many configs to try at most.
        shapes: sizes of open inputs, by input.
        threads: cores to use.
        numerics: ``exact``, ``exact-integers`` or ``relaxed`` (docs/kernels.md).
        home: folder of what was measured, so that it is not measured again; by default ``tune`` in the
            state folder.
        progress: tell on standard error what is done, in a terminal with a bar; False for silence.

    Raises TilefleetError where the model cannot be read, its tuning failed or it came out wrong.
    """
    if not Path(model).is_file():
        raise TilefleetError(f"{model}: there is no such file")
    folder = Path(home).expanduser() if home is not None else usual_home() / "tune"
    given = None if shapes is None else {name: list(sizes) for name, sizes in shapes.items()}
    # Here, because a script that imports us may never tune.
    from tilefleet.telling import telling

    with telling(progress) as told:
        with _server(folder, threads, told.say) as client:
            known = client.upload(model, shapes=given)
            job = client.submit(
                model=known.hash,
                target="host",
                seconds=seconds,
                trials=trials,
                threads=threads,
                shapes=given,
                numerics=numerics,
            )
            job = told.follow(job, client)
            if job.state == "incomplete":
                warnings.warn(
                    f"{model}: {job.message}; those layers get the config that the analysis picks",
                    stacklevel=3,
                )
            elif job.state != "done":
                raise TilefleetError(f"{model}: the job ended {job.state}: {job.message or 'no message'}")
            log = tuple(job.log())
        told.say(f"building {model}")
        return _built(Path(model), job, log, given)


def _built(model: Path, job: Job, log: Sequence[str], shapes: dict[str, list[int]] | None) -> Tuned:
    # Here, because they bring TVM along, which takes a second.
    import tvm

    from compiler.intake.assemble import packed
    from compiler.load import load_partition
    from tuner.backend.shape_sets import build_sets
    from tuner.log.record import read_log
    from tuner.log.relayouts import read_relayouts
    from worker.measure.host import host_target

    target = host_target()
    with packed(model, ()) as whole:
        executable, _ = build_sets(
            whole, target, job.threads, shapes, read_log(log), job.numerics, read_relayouts(log)
        )
        partition = load_partition(whole, shapes)
    main = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"]
    return Tuned(tuple(partition.graph.inputs), job, tuple(log), executable, main)


@contextmanager
def _server(folder: Path, threads: int, say: Callable[[str], None]) -> Iterator[Client]:
    """A server of this process alone, with its state in ``folder``; it ends with the context.

    ``say`` gets what it does until it answers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "TILEFLEET_HOME": str(folder),
        "TILEFLEET_BOARD_THREADS": str(threads),
        "TILEFLEET_RESUME": "false",
    }
    command = [sys.executable, "-P", "-m", "tilefleet", "up", "--port", "0", "--boards", "host"]
    url, log = folder / "url", folder / "up.log"
    url.unlink(missing_ok=True)
    with log.open("w") as out:
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            end, heard = time.monotonic() + START_S, 0
            while not url.exists():
                phases = _PHASE.findall(log.read_text())
                for phase in phases[heard:]:
                    say(phase)
                heard = len(phases)
                if server.poll() is not None or time.monotonic() > end:
                    raise TilefleetError(f"tuning could not start: {log.read_text()[-500:].strip()}")
                time.sleep(0.05)
            with Client(url.read_text().strip()) as client:
                yield client
        finally:
            server.terminate()
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
