"""What packages of others add: entry points of a group, each a class of ours that they derived."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


def plugged(group: str, base: type[T]) -> Iterator[type[T]]:
    """The classes that installed packages name in ``group``, by the names of their entry points.

    One that cannot be imported, or is no concrete ``base``, is left out with a warning that names it: what
    somebody installed must not keep the rest from working.
    """
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            yield named(point.value, base)
        except ValueError as error:
            _LOG.warning("%s %s is left out: %s", group, point.name, error)


def _file(path: Path) -> ModuleType:
    """The module of a file, wherever it lies."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None  # there is one for each name that ends with .py
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(name: str, base: type[T]) -> type[T]:
    """The class that ``module:Class`` or ``FILE.py:Class`` names, imported; raises ValueError where there is
    none or it is no ``base``."""
    module, _, attribute = name.rpartition(":")
    try:
        found = getattr(_file(Path(module)) if module.endswith(".py") else import_module(module), attribute)
    except Exception as error:  # whatever a module of others does when it is imported
        raise ValueError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"{name} is no {base.__name__}; derive it from {base.__module__}.{base.__name__}")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    return found
