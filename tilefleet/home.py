"""The state folder, and how commands find the running server."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PORT = 8470


def home() -> Path:
    """``TILEFLEET_HOME``, by default ``~/.tilefleet``."""
    return Path(os.environ.get("TILEFLEET_HOME") or "~/.tilefleet").expanduser()


def url_file() -> Path:
    """Where ``tilefleet up`` leaves its URL."""
    return home() / "url"


def server_url() -> str:
    """``TILEFLEET_URL``, else what the last ``tilefleet up`` wrote, else the default port on loopback."""
    if url := os.environ.get("TILEFLEET_URL"):
        return url
    try:
        return url_file().read_text().strip()
    except OSError:
        return f"http://127.0.0.1:{DEFAULT_PORT}"
