"""Keeps Dask from opening a port for HTTP; importing this before a scheduler or worker is made is enough.

Each of them serves pages about itself, to whoever connects, whatever its options say of a dashboard. Nobody
looks at them here.
"""

from __future__ import annotations

from typing import Any

import dask
from distributed import node

_nodes: Any = node  # untyped

dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []})


def _listen_to_nobody(server: Any, *_: Any, **__: Any) -> None:
    server.http_application = _nodes.RoutingApplication([])
    server.http_server = _nodes.HTTPServer(server.http_application)


_nodes.ServerNode.start_http_server = _listen_to_nobody
