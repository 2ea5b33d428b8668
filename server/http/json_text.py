"""JSON from outside: what Python's reader takes and no honest client sends is refused at the door."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from server.http.problems import invalid

MOST_DEPTH = 64
_INT64 = 2**63


def parse(text: str | bytes) -> Any:
    """The value; ValueError for what is no JSON (NaN, Infinity), and for what nothing behind can hold.

    That is a number beyond 64 bits, lists in lists more than ``MOST_DEPTH`` deep, and half a surrogate pair,
    which is in no text.
    """
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_none)
    except RecursionError:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from None
    except UnicodeDecodeError:
        raise ValueError("it is no JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    _check(value)
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or not -_INT64 <= int(text) < 2 * _INT64:
        raise ValueError(f"{text[:30]}.. is a number of more than 64 bits")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:30]} is too large a number")
    return value


def _none(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += [*each, *each.values()]
            elif isinstance(each, list):
                inside += each
            elif isinstance(each, str):
                _check_text(each)
        if not inside:
            return
        level = inside
    raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text[:50]!a} has half a surrogate pair in it, which is no text") from None


class JsonRoute(APIRoute):
    """A route that reads its body by ``parse``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with a request that refuses such bodies by a 422 problem."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return strict


class _Request(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return parse(body)
        except ValueError as error:
            raise invalid(f"invalid input: the body cannot be read: {error}", "body") from None
