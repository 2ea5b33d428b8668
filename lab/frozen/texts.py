"""Texts in files, and what differs between two folders of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt

LINE = 120


def written(folder: Path, texts: Iterable[tuple[str, str]]) -> int:
    """Write each text into a file that its key names; how many. A folder that is there is whole."""
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True)
    count = 0
    for key, text in texts:
        (part / file_name(key)).write_text(f"{key}\n{text}")
        count += 1
    part.rename(folder)
    return count


def file_name(key: str) -> str:
    """A name of a file for a key: readable, and another one for each."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', key)[:80]}.{digest(key)}.txt"


def digest(value: str | bytes | npt.NDArray[np.generic]) -> str:
    """A short name of what ``value`` holds; of an array also dtype and shape."""
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype}{list(value.shape)}:{digest(content)}"
    data = value.encode() if isinstance(value, str) else bytes(value)
    return hashlib.sha256(data).hexdigest()[:16]


def differences(before: Path, now: Path) -> list[str]:
    """A line for each text that two folders do not share: its key, and the first line that differs."""
    old, new = ({path.name: path for path in folder.iterdir()} for folder in (before, now))
    found = []
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            key = (old.get(name) or new[name]).read_text().partition("\n")[0]
            found.append(f"{key}: {'gone' if name in old else 'new'}")
            continue
        one, two = (path.read_text().splitlines() for path in (old[name], new[name]))
        pairs = zip_longest(one, two, fillvalue="(end)")
        change = next(((a, b) for a, b in pairs if a != b), None)
        if change is not None:
            found.append(f"{one[0]}: {change[0].strip()[:LINE]!r} became {change[1].strip()[:LINE]!r}")
    return found
