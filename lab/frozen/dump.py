"""Writing the texts of a group, on all cores, each in a child with a deadline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lab.frozen.texts import written
from worker.children.nursery import ChildError, Nursery

GROUPS = ("surface", "picks", "kernels", "nodes", "tflite", "programs")
DEADLINE_S = 900.0
MEMORY_BYTES = 12 << 30


def dump(groups: Sequence[str], folder: Path, sample: int = 0) -> None:
    """Write the texts of each group into ``folder/group``, ``sample`` of them where that is not 0.

    A text that cannot be made is its error.
    """
    modules = {group: f"lab.frozen.{group}" for group in groups}
    with (
        Nursery(tuple(modules.values()), env={"TVM_NUM_THREADS": "1"}) as nursery,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for group, module in modules.items():
            keys: list[str] = nursery.call(
                f"{module}:keys", None, timeout_s=DEADLINE_S, memory_bytes=MEMORY_BYTES
            )
            if 0 < sample < len(keys):
                keys = [keys[place * len(keys) // sample] for place in range(sample)]
            texts = pool.map(partial(_text, nursery, module), keys)
            written(folder / group, zip(keys, texts, strict=True))


def _text(nursery: Nursery, module: str, key: str) -> str:
    try:
        text: Any = nursery.call(f"{module}:text", key, timeout_s=DEADLINE_S, memory_bytes=MEMORY_BYTES)
    except ChildError as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}\n"
    return str(text)
