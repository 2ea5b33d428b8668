"""A file of what models take on a simulated board, with the assembly of all their functions."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

from tuner.performance.timed import Timed

_FORM = 1
_COLUMNS = 100


@dataclass(frozen=True)
class Baseline:
    """What was kept: times by the model's name, of one board, and assemblies by the hash of their object.

    ``made_by`` are the versions of what code and times depend on beside this project; ``clock`` is the
    board's, and times of another are not compared with these.
    """

    board: str
    clock: str
    made_by: Mapping[str, str]
    models: Mapping[str, Timed] = field(default_factory=dict)
    assembly: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Keep it, with the assembly of what its models have and no other. The same makes the same bytes."""
        used = {part.code for timed in self.models.values() for part in timed.parts}
        texts = {code: text for code, text in self.assembly.items() if code in used}
        packed = lzma.compress(json.dumps(texts, sort_keys=True).encode(), preset=9)
        value = {
            "form": _FORM,
            "board": self.board,
            "clock": self.clock,
            "made_by": self.made_by,
            "models": {name: timed.to_json() for name, timed in sorted(self.models.items())},
            "assembly": wrap(base64.b64encode(packed).decode(), _COLUMNS),
        }
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(value, indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """What ``write`` wrote; raises ValueError where that is damaged, and OSError."""
        try:
            value = json.loads(path.read_text())
            if value["form"] != _FORM:
                raise ValueError(f"its form is {value['form']}, not {_FORM}")
            packed = base64.b64decode("".join(value["assembly"]), validate=True)
            return cls(
                value["board"],
                value["clock"],
                value["made_by"],
                {name: Timed.from_json(each) for name, each in value["models"].items()},
                json.loads(lzma.decompress(packed)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, lzma.LZMAError) as error:
            raise ValueError(
                f"{path} is no baseline, or a damaged one ({type(error).__name__}: {error})"
            ) from None
