"""Values of command-line options that several benches take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """An argparse type: names that stand between commas, each of them ``known``."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(known)}")
        return found

    return names
