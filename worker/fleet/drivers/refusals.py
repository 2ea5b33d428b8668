"""What a gateway's log says of those who are refused: the first at once, the others in a line a minute."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

SUMMARY_S = 60.0
_REASONS, _LENGTH = 5, 120
"""So many reasons of a minute are named, so much of each: newcomers choose what is in them."""
_log = logging.getLogger(__name__)


class Refusals:
    """Belongs to the thread of one event loop."""

    def __init__(self) -> None:
        self._more: Counter[str] | None = None
        """Those of this minute after its first one; None when nobody was refused for a minute."""

    def note(self, where: str, reason: str) -> None:
        """Somebody was refused."""
        reason = reason[:_LENGTH]
        if self._more is None:
            _log.warning("gateway: %s refused: %s", where, reason)
            self._begin()
        else:
            known = reason in self._more or len(self._more) < _REASONS
            self._more[reason if known else "other reasons"] += 1

    def _begin(self) -> None:
        self._more = Counter()
        asyncio.get_running_loop().call_later(SUMMARY_S, self._tell)

    def _tell(self) -> None:
        if not self._more:
            self._more = None
            return
        reasons = "; ".join(f"{count} for {reason}" for reason, count in self._more.most_common())
        _log.warning("gateway: %d more refused within %g s: %s", self._more.total(), SUMMARY_S, reasons)
        self._begin()
