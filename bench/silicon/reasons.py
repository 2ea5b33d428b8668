"""Why a row of the table of instructions is not run."""

from __future__ import annotations

from bench.silicon.forms.sections import LATER, form
from bench.silicon.jumps import jumps


def why_none(section: str, name: str) -> str:
    """Why a row has no form, or nothing when it has one."""
    if section == "Branch" and jumps(name):
        return ""
    if "store-to-load" in section:
        return "a load of what was just stored"
    for word, reason in LATER.items():
        if word in name:
            return reason
    return "no form" if form(section, name) is None else ""
