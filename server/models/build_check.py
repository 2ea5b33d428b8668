"""A build beside its model's definition, on a board of the fleet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kernels import target as targets
from kernels.target import Target
from server.beside import beside_board
from server.engine import Engine
from server.models.schemas import BuildCheck, BuildRequest
from tuner.backend.check import Delivery
from worker.demand import Demand


async def check_build(
    engine: Engine,
    model: Path,
    target: Target,
    library: Sequence[Target],
    request: BuildRequest,
    gone: Callable[[], Awaitable[bool]],
) -> BuildCheck:
    """Build the model as asked, and run it on a leased board; ends early once who asked has ``gone``.

    A C library is built for the targets ``library``.

    Raises the problem that no board came to an answer.
    """
    payload = {
        **request.model_dump(mode="json", exclude={"target"}),
        "model": str(model),
        "target": targets.to_json(target),
    }
    function, demand = "tuner.job.delivery_child:deliver_in_child", Demand(target, request.threads)
    if request.library is not None:
        # It is run on its caller's thread, however many it may have.
        function, demand = "tuner.clibrary.served:check_in_child", Demand(target, 1)
        payload["library"]["targets"] = [targets.to_json(each) for each in library]
    delivery = Delivery.from_json(await beside_board(engine, function, payload, demand, gone))
    each = [vars(one.check) for one in delivery.each]
    return BuildCheck.model_validate({**delivery.check.to_json(), "sha256": delivery.sha256, "each": each})
