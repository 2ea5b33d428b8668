"""Why a row of the table of instructions is not run."""

from __future__ import annotations

from bench.silicon.forms.sections import form
from bench.silicon.jumps import jumps
from bench.silicon.places import elsewhere


def why_none(section: str, name: str) -> str:
    """Why a row has no form, or nothing when it has one."""
    if (section == "Branch" and jumps(name)) or elsewhere(section, name):
        return ""
    if "store-to-load" in section:
        return "a load of what was just stored"
    return "no form" if form(section, name) is None else ""
