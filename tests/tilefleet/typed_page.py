"""Types the commands of a page of the documentation, as a reader who copies them one by one would."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?:/\* | *# )([\w.-]+\.\w+)(?: \*/)?\n")
_END = "__ended"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return _FENCE.findall(page.read_text())


def commands(text: str) -> list[str]:
    """What stands behind the prompts of a block."""
    return re.findall(r"^\$ (.+)$", text, re.MULTILINE)


class Typist:
    """A shell that keeps its variables and its folder from one command to the next."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.said: dict[str, str] = {}
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> str:
        """What it prints; fails when it does."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # Not from the pipe: what reads its input would take the commands that follow.
        self._shell.stdin.write(f"set -o pipefail; {{ {command}\n}} < /dev/null; echo {_END} $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            before, end, code = line.partition(_END)
            lines.append(before if end else line)
            if end:
                break
        text = "".join(lines)
        assert self._shell.poll() is None, f"{command}\n{text}"
        assert int(code) == 0, f"{command}\n{text}"
        self.said[command] = text
        return text

    def close(self) -> None:
        """End the shell, not what it started in the background."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(60)


def type_page(typist: Typist, page: Path, folder: Path, after: Callable[[str], None]) -> None:
    """Write the page's files to ``folder`` and type its commands in their order; ``after`` gets each."""
    for language, text in blocks(page):
        if language == "console":
            for command in commands(text):
                typist.type(command)
                after(command)
        elif named := _NAMED.match(text):
            (folder / named[1]).write_text(text)
