"""Who is at the gateway's door and has not proved a token: so many of one address, and so many in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

ROOM, OF_ADDRESS = 128, 64


@dataclass(eq=False)
class Newcomer:
    """One connection; ``drop`` ends it. It ``spoke`` once it has said who it is, proved or not."""

    address: str
    drop: Callable[[], None]
    spoke: bool = False
    pushed_out: bool = False


@dataclass
class Newcomers:
    """When there is no room the oldest goes, of those that are silent first: so nobody keeps boards out by
    saying nothing, which a board does only until its first line has arrived."""

    _here: dict[Newcomer, None] = field(default_factory=dict)

    def add(self, newcomer: Newcomer) -> None:
        """Let one in."""
        addresses = Counter(each.address for each in self._here)
        if addresses[newcomer.address] >= OF_ADDRESS:
            self._push_out(newcomer.address)
        elif len(self._here) >= ROOM:
            self._push_out(addresses.most_common(1)[0][0])
        self._here[newcomer] = None

    def remove(self, newcomer: Newcomer) -> None:
        """It has gone, or is a board."""
        self._here.pop(newcomer, None)

    def _push_out(self, address: str) -> None:
        of_it = [each for each in self._here if each.address == address]
        oldest = next((each for each in of_it if not each.spoke), of_it[0])
        oldest.pushed_out = True
        self.remove(oldest)
        oldest.drop()
