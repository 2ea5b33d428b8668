"""The options of custom operators that are FlexBuffers: a map of names to numbers and lists of numbers."""

from __future__ import annotations

import math
from typing import Any

from flatbuffers import flexbuffers

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Operator

MAX_BYTES = 1 << 16
"""Options are read up to this size: the library searches and copies, as often as the bytes tell it to."""


class CustomOptions:
    """Looks up single options of ``op``; nothing else of the bytes is read, so nesting costs nothing."""

    def __init__(self, op: Operator) -> None:
        data = b"" if op.options is None else bytes(op.options[: MAX_BYTES + 1])
        if len(data) > MAX_BYTES:
            raise ModelError(f"its options take more than {MAX_BYTES} bytes")
        self._data = data

    def integer(self, name: str) -> int:
        """An integer; raises ModelError where there is none."""
        found = self._found(name, "an integer")
        if not found.IsInt:
            raise ModelError(f"its option {name!r} is no integer")
        return int(self._read(found, "AsInt", name))

    def flag(self, name: str) -> bool:
        """Whether something is so; not where it is left out."""
        found = self._found(name, "a flag", may_miss=True)
        if found is None:
            return False
        if not (found.IsBool or found.IsInt):
            raise ModelError(f"its option {name!r} is no flag")
        return bool(self._read(found, "AsInt", name))

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number, ``default`` where it is left out; raises ModelError for anything else."""
        found = self._found(name, "a number", default is not None)
        if found is None and default is not None:
            return default
        if not found.IsNumeric:
            raise ModelError(f"its option {name!r} is no number")
        value = float(self._read(found, "AsFloat", name))
        if not math.isfinite(value):
            raise ModelError(f"its option {name!r} is {value}")
        return value

    def integers(self, name: str) -> list[int]:
        """A list of integers; raises ModelError where there is none."""
        found = self._found(name, "integers")
        if not found.IsTypedVector:
            raise ModelError(f"its option {name!r} is no list of integers")
        vector = self._read(found, "AsTypedVector", name)
        if vector.ElementType not in (flexbuffers.Type.INT, flexbuffers.Type.UINT):
            raise ModelError(f"its option {name!r} is no list of integers")
        return list(self._read(vector, "Value", name))

    def _found(self, name: str, what: str, may_miss: bool = False) -> Any:
        try:
            return flexbuffers.GetRoot(self._data).AsMap[name]
        except KeyError as error:
            # The library also looks up widths of numbers, in damaged options in vain.
            if error.args == (name,):
                if may_miss:
                    return None
                raise ModelError(f"its option {name!r}, {what}, is not there") from None
            raise ModelError("its options are damaged") from error
        except Exception as error:  # the library verifies nothing: any lookup may fail somehow
            raise ModelError("its options are not there or damaged") from error

    def _read(self, found: Any, how: str, name: str) -> Any:
        try:
            return getattr(found, how)
        except Exception as error:  # as above
            raise ModelError(f"its option {name!r} is damaged") from error
