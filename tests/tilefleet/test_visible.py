"""Texts that others wrote, in a terminal."""

from __future__ import annotations

import io
import subprocess
import sys

from rich.table import Table
from rich.text import Text

from tilefleet.commands.common import VisibleConsole
from tilefleet.visible import visible

EVIL = "a\x1b]0;title\x07\x9b31m\u202egnp\u2066.\u200f"


def test_a_console_shows_what_others_wrote_and_keeps_its_own_colours() -> None:
    out = io.StringIO()
    console = VisibleConsole(file=out, force_terminal=True, width=200, color_system="standard")
    table = Table("name")
    table.add_row(EVIL)
    console.print(Text(EVIL, style="red"), table)
    shown = out.getvalue()
    assert "\\x1b]0;title\\x9b31m\\u202egnp\\u2066.\\u200f" in shown
    assert "\x1b[31m" in shown, "its own colour"
    for bad in ("\x1b]", "\x07", "\x9b", "\u202e", "\u2066", "\u200f"):
        assert bad not in shown
    assert visible("tab\tand\nlines, \u00e9 \U0001f600") == "tab\tand\nlines, \u00e9 \U0001f600"


def test_whatever_is_printed_is_guarded() -> None:
    script = (
        "from tilefleet.visible import guard_output; guard_output(); import sys; "
        "print('\\x9b31m\\u202e'); print('\\x85', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env={"PYTHONIOENCODING": "utf-8"}
    )
    assert done.stdout.decode() == "\\x9b31m\\u202e\n"
    assert done.stderr.decode() == "\\x85\n"
