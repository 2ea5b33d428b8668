"""How a board that dials in and the gateway convince each other that they have the same token.

The token itself never crosses the wire: each proves it by an HMAC-SHA256 over both sides' nonces, and over
its own role, so that nobody can hand one side's proof back to it (``worker/agent/proof.c``).
"""

from __future__ import annotations

import hmac
import re

VERSION = "1"
DEFAULT_PORT = 8471
"""Where a gateway listens unless told otherwise."""
MIN_TOKEN, MAX_TOKEN = 16, 256
_BOARD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_token(token: str) -> str | None:
    """What is wrong with a token, or None."""
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        return f"a token has {MIN_TOKEN} to {MAX_TOKEN} characters, not {len(token)}"
    if not token.isascii() or not token.isprintable() or " " in token:
        return "a token is made of printable ASCII characters without spaces"
    return None


def check_id(id: str) -> str | None:
    """What is wrong with a board's id, or None."""
    if _BOARD_ID.fullmatch(id):
        return None
    return f"a board's id is 1 to 64 letters, digits, dots, dashes and underscores, not {id!r}"


def prove(token: str, role: str, id: str, gateway_nonce: str, agent_nonce: str) -> str:
    """The hexadecimal proof of ``role`` (``agent`` or ``gateway``)."""
    text = f"tilefleet {VERSION} {role} {id} {gateway_nonce} {agent_nonce}"
    return hmac.new(token.encode(), text.encode(), "sha256").hexdigest()
