"""The board's agent with a few more lines of C: it lies as ``TILEFLEET_LIE`` says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from worker.fleet.drivers.agent_build import SOURCES, build_agent, host_triple

HERE = Path(__file__).resolve().parent
_FIRST = "num_args && args[0].type == TYPE_TENSOR ? tensor_bytes(args[0].tensor) : 0"
CHANGES = (
    ('#include "fast_memory.h"\n', '#include "fast_memory.h"\n#include "lie.h"\n'),
    ("  Image *image = image_load(", "  lie_loads(args[0].string);\n  Image *image = image_load("),
    (
        "  if (check_tensors(args, num_args) || function(NULL, args, num_args, &result)) return -1;\n",
        "  if (check_tensors(args, num_args)) return -1;\n"
        f"  size_t first = {_FIRST};\n"
        "  if (!lie_instead(first) && function(NULL, args, num_args, &result)) return -1;\n"
        "  const Value *last = &args[num_args - 1];\n"
        "  const Tensor *out = num_args && last->type == TYPE_TENSOR ? last->tensor : NULL;\n"
        "  if (out) lie_result(first, (char *)out->data + out->byte_offset, tensor_bytes(out));\n",
    ),
    (
        "  if (!status) reply_bytes(seconds, bytes);\n",
        f"  if (!status) lie_times({_FIRST}, seconds, (size_t)object->timing.repeat, &bytes);\n"
        "  if (!status) reply_bytes(seconds, bytes);\n",
    ),
)
"""Replacements in ``functions.c``: the old lines and the new ones."""


def build_evil_agent(out_dir: Path) -> Path:
    """Build the agent in its own folder, as the honest agent has the same name; returns the program."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "agent"
        shutil.copytree(SOURCES, sources)
        for name in ("lie.c", "lie.h"):
            shutil.copy(HERE / name, sources)
        functions = sources / "functions.c"
        text = functions.read_text()
        for old, new in CHANGES:
            if text.count(old) != 1:
                raise ValueError(f"functions.c has no single {old!r} to change")
            text = text.replace(old, new)
        functions.write_text(text)
        return build_agent(host_triple(), out_dir / "evil", sources)
