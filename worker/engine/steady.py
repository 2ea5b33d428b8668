"""Keeps Dask sending when the clock is set back, and from serving pages; for a shared scheduler
``--preload worker.engine.steady``.

Between two sends on a connection Dask pauses for milliseconds, until a time of the wall clock: where that was
set back by an hour meanwhile, nothing was sent for an hour. Importing this is enough.
"""

from __future__ import annotations

import time
from typing import Any

from distributed import batched

import worker.engine.no_http  # noqa: F401  # of each process that Dask runs in, too

_sends: Any = batched  # untyped
_sends.time = time.monotonic
