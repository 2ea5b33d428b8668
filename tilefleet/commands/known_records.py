"""What is known of a model's layers: by tuning logs, or by a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilefleet.commands.local import read_log_file
from tilefleet.errors import NotFound, ServerUnreachable

if TYPE_CHECKING:
    from tilefleet.comparing import Wanted
    from tuner.log.record import Record
    from tuner.log.relayouts import Relayouts


@dataclass(frozen=True)
class Known:
    """``records`` to build by, measured times of layout changes, and ``where`` they are from."""

    records: Sequence[Record]
    relayouts: Sequence[Relayouts]
    where: str


def known_by_logs(logs: Sequence[Path]) -> Known:
    """All that ``logs`` say; raises TilefleetError for one that is none."""
    read = [read_log_file(each) for each in logs]
    return Known(
        [record for records, _ in read for record in records],
        [each for _, relayouts in read for each in relayouts],
        ", ".join(each.name for each in logs),
    )


def known_by_server(url: str | None, wanted: Wanted) -> Known:
    """What a server has of layers of ``wanted``'s model for its target: nothing, where none answers.

    Raises ServerUnreachable where the one at ``url`` does not, and ValueError for a model that is none.
    """
    # Here, because it brings TVM along, which no other command should wait for.
    from tilefleet.client import Client
    from tuner.log.picks import OtherTargetError, check
    from tuner.log.record import read_log
    from tuner.log.relayouts import read_relayouts

    nothing = Known((), (), "")
    try:
        with Client(url) as client:
            lines = list(client.target_log(wanted.target.name, numerics=wanted.numerics.value))
            where = client.url
    except ServerUnreachable:
        if url is not None:
            raise
        return nothing
    except NotFound:
        return nothing
    records = list(read_log(lines))
    try:
        matches = check(wanted.model, records, wanted.target, wanted.shapes, wanted.threads, wanted.numerics)
    except OtherTargetError:
        # A server elsewhere, which calls another machine its host.
        return nothing
    count = sum(match.record is not None for match in matches)
    if not count:
        return nothing
    return Known(records, list(read_relayouts(lines)), f"what {where} knows of {count} of its layers")
