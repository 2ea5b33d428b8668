"""Requests to a server, and what its refusals become."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from tilefleet import errors, sse
from tilefleet.home import server_url

Resource = TypeVar("Resource", bound=BaseModel)

# The server sends a comment far more often than this when it has no event to send.
_SILENCE_S = 60.0
_RECONNECTS = 6


class Connection:
    """To one server; ``ServerUnreachable`` when it does not answer."""

    def __init__(self, url: str | None = None, timeout_s: float = 60.0) -> None:
        """``url`` is by default ``TILEFLEET_URL``, else the server started last on this machine."""
        self.url = (url or server_url()).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise errors.TilefleetError(
                f"{self.url!r} is no address of a server; it is written like http://127.0.0.1:8470"
            )
        # A proxy from the environment has no business between us and a server that is mostly on loopback.
        # Reading the authorities' certificates takes longer than a request, and http:// needs none.
        secure = self.url.startswith("https:")
        self._http = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=False, verify=secure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from None
        raise_for(response)
        return response

    def _get(self, path: str, kind: type[Resource], params: dict[str, Any] | None = None) -> Resource:
        return kind.model_validate(self._send("GET", path, params=params or {}).json())

    def _pages(self, path: str, kind: type[Resource], params: dict[str, Any]) -> Iterator[Resource]:
        """All of a list, page by page; parameters that are None are not given."""
        given = {name: value for name, value in params.items() if value is not None}
        after: str | int | None = None
        while True:
            page = self._send("GET", path, params=given if after is None else {**given, "after": after})
            body = page.json()
            for item in body["items"]:
                yield kind.model_validate(item)
            after = body["next"]
            if after is None:
                return

    def _lines(self, path: str, select: str, k: int | None, numerics: str | None) -> Iterator[str]:
        asked: dict[str, str | int | None] = {"select": select, "k": k, "numerics": numerics}
        params = {name: value for name, value in asked.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=params) as response:
                raise_for(response)
                for line in response.iter_lines():
                    yield line + "\n"
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _events(self, path: str, what: str, last_event_id: str | None) -> Iterator[sse.Event]:
        """Events up to the one named ``end``; a connection that breaks is taken up again where it broke."""
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if last_event_id:
                headers["Last-Event-ID"] = last_event_id
            try:
                timeout = httpx.Timeout(_SILENCE_S, connect=10.0)
                with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                    raise_for(response)
                    for event in sse.parse(response.iter_lines()):
                        failures = 0
                        last_event_id = event.id or last_event_id
                        yield event
                        if event.name == "end":
                            return
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
            else:
                reason = "the stream ended before the job"
            failures += 1
            if failures > _RECONNECTS:
                raise errors.ServerUnreachable(f"lost {what} from {self.url}: {reason}") from None
            time.sleep(min(0.1 * 2**failures, 3.0))

    def _unreachable(self, error: Exception) -> errors.ServerUnreachable:
        return errors.ServerUnreachable(
            f"no Tilefleet server answers at {self.url} ({error or type(error).__name__}); "
            "start one with `tilefleet up`, or name another with --url or TILEFLEET_URL"
        )


def raise_for(response: httpx.Response) -> None:
    """Raise the error that an answer is, if it is one."""
    if response.is_success:
        return
    response.read()
    try:
        body = response.json()
    except ValueError:
        body = {
            "title": f"HTTP {response.status_code} {response.reason_phrase}",
            "detail": response.text[:200],
        }
    raise errors.from_response(response.status_code, body)


def given(**fields: Any) -> dict[str, Any]:
    """Those fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
