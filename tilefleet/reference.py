"""The reference page of the Python client, made from its docstrings: ``python -m tilefleet.reference``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tilefleet
from tilefleet.errors import TilefleetError

PAGE = Path(__file__).parents[1] / "docs/client.md"
_MARK = "<!-- Below: python -m tilefleet.reference -->\n"


def reference() -> str:
    """The generated part of the page: ``tune``, the classes with their methods, the errors."""
    parts = [_function("tilefleet.tune", tilefleet.tune, "##")]
    for kind in (tilefleet.Client, tilefleet.Job, tilefleet.Tuned, tilefleet.AsyncClient, tilefleet.AsyncJob):
        parts.append(f"## {kind.__name__}\n{_prose(kind)}\n")
        if kind is not tilefleet.AsyncClient:
            parts += [_function(name, method, "###") for name, method in _methods(kind)]
    parts.append("## Errors\n| error | raised when |\n| --- | --- |")
    for name in tilefleet.__all__:
        kind = getattr(tilefleet, name)
        if isinstance(kind, type) and issubclass(kind, TilefleetError):
            parts.append(f"| `{name}` | {' '.join(_prose(kind).split())} |")
    return "\n".join(parts) + "\n"


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(kind).items():
        # pydantic puts methods of its own into a class, all named alike.
        if name == "__call__" or (inspect.isfunction(member) and not name.startswith(("_", "model_"))):
            yield name, member


def _function(name: str, what: Callable[..., Any], level: str) -> str:
    signature = inspect.signature(what)
    given = [each for each in signature.parameters.values() if each.name != "self"]
    parameters = [_parameter(each) for each in given]
    keywords = [each.kind is each.KEYWORD_ONLY for each in given]
    if True in keywords:
        parameters.insert(keywords.index(True), "*")
    shown = f"({', '.join(parameters)}) -> {signature.return_annotation}"
    return f"{level} {name}\n```python\n{name}{shown}\n```\n{_prose(what)}\n"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else stars
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _prose(what: Any) -> str:
    """A docstring as Markdown."""
    text = re.sub(r"\n {8}(?=\S)", " ", inspect.getdoc(what) or "").replace("``", "`")
    text = re.sub(r"^Args:\n", "Arguments:\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^ {4}(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


def page(text: str) -> str:
    """The page with its generated part made anew."""
    return text[: text.index(_MARK) + len(_MARK)] + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
