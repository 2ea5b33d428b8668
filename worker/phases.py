"""Where those who start something slow say so, for whoever waits for it."""

from __future__ import annotations

import logging

phases = logging.getLogger("tilefleet.phases")
"""One line at level INFO for each thing that takes seconds; nobody hears it unless a command listens."""


def tell_share(share: float | None) -> None:
    """Say how much of the phase told last is done, from 0 to 1; None where nobody knows any more."""
    phases.info("%s done", share, extra={"share": share})
