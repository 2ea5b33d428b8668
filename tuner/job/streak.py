"""When a job is given up: equal failures in a row for which no single candidate can be blamed."""

from __future__ import annotations

import re

from tuner.log.record import Record
from tuner.states import GivenUp
from worker.outcome import ErrorKind

HOPELESS = 12
"""Equal failures in a row after which a job is given up: it is not the candidates that are at fault."""
BLAMELESS = (ErrorKind.BUILD_ERROR, ErrorKind.BUILD_TIMEOUT, ErrorKind.UPLOAD_ERROR, ErrorKind.BOARD_LOST)


class Streak:
    """The failures of a job's last trials."""

    def __init__(self) -> None:
        self._likeness, self._count = "", 0

    def note(self, record: Record) -> None:
        """Take in a trial; raises GivenUp when there is no hope for the next."""
        if record.error not in BLAMELESS:
            self._likeness, self._count = "", 0
            return
        # Numbers differ from candidate to candidate.
        likeness = f"{record.error}: " + re.sub(r"0x[0-9a-f]+|\d+", "#", record.message)
        self._count = self._count + 1 if likeness == self._likeness else 1
        self._likeness = likeness
        if self._count >= HOPELESS:
            raise GivenUp(f"{HOPELESS} trials in a row ended in {record.error}: {record.message}")
