"""Where those who start something slow say so, for whoever waits for it."""

from __future__ import annotations

import logging

phases = logging.getLogger("tilefleet.phases")
"""One line at level INFO for each thing that takes seconds; nobody hears it unless a command listens."""
