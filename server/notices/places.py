"""Where notices go: webhooks of plain JSON, webhooks of chats that read Slack's JSON, and e-mail."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from server.notices.notice import Notice

TRIES = 3
PAUSE_S = 2.0
TIMEOUT_S = 10.0
"""How long one step of sending may take, and ``DEADLINE_S`` all of it: who answers byte by byte is never
late with a step."""
DEADLINE_S = 20.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Place(Protocol):
    """Takes notices."""

    @property
    def name(self) -> str:
        """What logs call it: without what is secret in its address."""

    async def send(self, notice: Notice) -> None:
        """Send one; raises what goes wrong."""


@dataclass(frozen=True)
class Webhook:
    """Gets each notice as JSON by POST: ``{kind, text, time, data}``, or as a Slack message."""

    url: str
    slack: bool = False

    @property
    def name(self) -> str:
        """Its host: the path of a webhook is a secret."""
        return f"webhook at {urlsplit(self.url).hostname}"

    async def send(self, notice: Notice) -> None:
        """See ``Place.send``."""
        time_ = datetime.now(UTC).isoformat(timespec="seconds")
        plain = {"kind": notice.kind, "text": notice.text, "time": time_, "data": notice.data}
        body: dict[str, Any] = {"text": f"Tilefleet: {_as_slack_reads(notice.text)}"} if self.slack else plain
        import httpx  # takes long, and few coordinators have a webhook

        try:
            async with (
                httpx.AsyncClient(timeout=TIMEOUT_S) as client,
                client.stream("POST", self.url, json=body) as response,
            ):
                if not response.is_success:
                    raise OSError(f"it answered {response.status_code}")
        except httpx.HTTPError as error:
            raise OSError(str(error) or type(error).__name__) from error


@dataclass(frozen=True)
class Mail:
    """Sends each notice by e-mail through an SMTP server (``smtp://`` or ``smtps://``, see docs)."""

    to: str
    server: str

    @property
    def name(self) -> str:
        """The address that it sends to."""
        return f"mail to {self.to}"

    def message(self, notice: Notice) -> EmailMessage:
        """The mail."""
        message = EmailMessage()
        query = parse_qs(urlsplit(self.server).query)
        message["From"] = query.get("from", [f"tilefleet@{socket.gethostname()}"])[0]
        message["To"] = self.to
        # A line: what a job says may have several.
        message["Subject"] = " ".join(f"Tilefleet: {notice.text}".split())[:200]
        details = "".join(f"{name}: {value}\n" for name, value in notice.data.items())
        message.set_content(f"{notice.text}\n\n{details}")
        return message

    async def send(self, notice: Notice) -> None:
        """See ``Place.send``. A password goes over no line that others can read."""
        await asyncio.to_thread(self._send, notice)

    def _send(self, notice: Notice) -> None:
        parts = urlsplit(self.server)
        host, context = parts.hostname or "", ssl.create_default_context()
        with (
            smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_S, context=context)
            if parts.scheme == "smtps"
            else smtplib.SMTP(host, parts.port or 25, timeout=TIMEOUT_S)
        ) as server:
            server.ehlo()
            private = parts.scheme == "smtps" or host in _LOOPBACK
            if parts.scheme == "smtp" and server.has_extn("starttls"):
                server.starttls(context=context)
                private = True
            if parts.username:
                if not private:
                    raise OSError("it offers no TLS, and a password is not sent without")
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(self.message(notice))


def _as_slack_reads(text: str) -> str:
    """Text as Slack shows it: what stands between < and > there is a link, or calls a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def places(addresses: list[str] | tuple[str, ...], smtp: str | None) -> list[Place]:
    """The places of the setting TILEFLEET_NOTIFY; raises ValueError that names what is wrong."""
    found: list[Place] = []
    for address in addresses:
        scheme = urlsplit(address).scheme
        if scheme in ("http", "https"):
            found.append(Webhook(address))
        elif scheme in ("slack+http", "slack+https"):
            found.append(Webhook(address.removeprefix("slack+"), slack=True))
        elif scheme == "mailto" and "@" in address:
            if smtp is None:
                raise ValueError(f"{address} needs TILEFLEET_SMTP, like smtp://127.0.0.1:25")
            found.append(Mail(address.removeprefix("mailto:"), smtp))
        else:
            raise ValueError(f"{scheme or address!r}: take https://..., slack+https://... or mailto:...")
    if smtp is not None and urlsplit(smtp).scheme not in ("smtp", "smtps"):
        raise ValueError("TILEFLEET_SMTP begins with smtp:// or smtps://")
    return found


async def deliver(
    place: Place, notice: Notice, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> str | None:
    """Send, again after a failure; why it did not go in the end, or None."""
    reason = ""
    for number in range(TRIES):
        if number:
            await sleep(PAUSE_S * 2**number)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await place.send(notice)
        except TimeoutError:
            reason = f"it did not take it within {DEADLINE_S:g} s"
        except (OSError, smtplib.SMTPException) as error:
            reason = str(error) or type(error).__name__
        else:
            return None
    return reason
